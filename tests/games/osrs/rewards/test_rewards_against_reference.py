"""The vectorised rewards against a slow reading of the table, over the wire's JSON objects of the same records."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sb3_pvp.envs import NhVecEnv, parallel_env
from sb3_pvp.game import Outcome, Transition
from sb3_pvp.games.osrs.meta_fields import META_DTYPE, OPTIONAL_FIELDS, STYLE_FIELDS, Style
from sb3_pvp.games.osrs.rewards import RewardWeights, reward_weights
from tests.games.osrs.rewards.reference_rewards import Reference, on_the_wire
from tests.games.osrs.rewards.reward_ticks import CORE, Rewards, named_components
from tests.games.osrs.sim.recordings import FOLDER, Reply, read

FIGHTS = 16
WEIGHTS = [field.name for field in fields(RewardWeights) if field.default is not True]
FLAGS = [field.name for field in fields(RewardWeights) if field.default is True]
FORMULAS = {
    "custom_reward_fn": "meleeDamageDealt - mageDamageReceived * t + (0.5 if currentTargetPrayerType == 'null' else 0)",
    "player_died_with_food_multiplier": "(scale + 1.2) ** 1.5",
    "player_wasted_food_multiplier": "scale * t",
    "reward_on_hit_with_boost_scale": "level ** 2",
    "safe_penalty": "max(eat_at_food_scale - 0.5, 0) * t",
}


def random_records(rng: np.random.Generator, count: int) -> NDArray[np.void]:
    """Records with every kind of event in some fights, and values in the groups that are not present."""
    records = np.zeros(count, META_DTYPE)
    for name in META_DTYPE.names:
        kind = META_DTYPE[name].kind
        if name in STYLE_FIELDS:
            records[name] = rng.integers(Style.NONE, Style.MAGIC + 1, count)
        elif kind == "f":
            records[name] = rng.choice([0.0, 0.25, 0.5, 1.0, 1.25], count)
        else:
            records[name] = rng.integers(0, 2 if kind == "b" else 8, count)
    for name, flag in (("attack_type_hit", "hit_present"), ("attack_type_received", "received_present")):
        records[name] = np.where(records[flag], np.maximum(records[name], 0), records[name])
    return records


numbers = st.floats(-2, 2).map(lambda value: round(value, 3))
linear = st.builds(
    lambda first, last: {"type": "linear", "initial_value": first, "final_value": last, "change_over_time_steps": 4},
    numbers,
    numbers,
)


@st.composite
def weights(draw: st.DrawFn) -> RewardWeights:
    given_weights: dict[str, Any] = draw(st.fixed_dictionaries({}, optional=dict.fromkeys(WEIGHTS, numbers | linear)))
    given_weights |= draw(st.fixed_dictionaries({}, optional=dict.fromkeys(FLAGS, st.booleans())))
    for name in draw(st.sets(st.sampled_from(sorted(FORMULAS)))):
        given_weights[name] = {"type": "expression", "expression": FORMULAS[name]}
    return reward_weights(given_weights)


def check(rewards: Rewards, tick: Transition, t: int) -> None:
    parts = rewards.components(tick, t)
    now, before = on_the_wire(tick.report), on_the_wire(tick.previous)
    for fight, meta in enumerate(now):
        previous = before[fight] if tick.has_previous[fight] else {}
        expected = Reference(rewards.weights, t, meta, previous, Outcome(tick.outcome[fight])).nonzero()
        found = named_components(parts[:, fight])
        assert found == pytest.approx({name: value for name, value in expected.items() if value}, rel=1e-5, abs=1e-7)


@settings(max_examples=60, deadline=None)
@given(weights(), st.integers(0, 2**32 - 1), st.integers(0, 6))
def test_all_rewards_agree_with_the_table(chosen: RewardWeights, seed: int, t: int) -> None:
    rng = np.random.default_rng(seed)
    meta, previous = random_records(rng, FIGHTS), random_records(rng, FIGHTS)
    outcome = rng.integers(0, len(Outcome), FIGHTS).astype(np.uint8)
    check(Rewards(chosen), Transition(meta, previous, rng.random(FIGHTS) < 0.8, outcome), t)


def as_records(replies: list[Reply]) -> NDArray[np.void]:
    """What the original server sent, as records."""
    records = np.zeros(len(replies), META_DTYPE)
    styles = {"null": Style.NONE, **Style.__members__}
    optional = {name: flag for flag, group in OPTIONAL_FIELDS.items() for name in group}
    for record, reply in zip(records, replies, strict=True):
        for name in META_DTYPE.names:
            if name in OPTIONAL_FIELDS:
                continue
            words = name.split("_")
            value = reply.meta.get(words[0] + "".join(map(str.title, words[1:])))
            if name in STYLE_FIELDS:
                record[name] = styles[value or "null"]
            elif value is not None:
                record[name] = value
            if value is not None and name in optional:
                record[optional[name]] = True
    return records


@pytest.mark.parametrize(
    "name", ["selfplay-02-lms_zerker", "baseline-12-med_no_deathmatch", "vengeance", "dharok/selfplay-04"]
)
def test_recorded_fights_earn_what_the_table_says(name: str) -> None:
    """The reference reads the recorded JSON itself, the rewards the records made of it."""
    rewards = Rewards(reward_weights({**CORE, "attacked_previous_wrong_prayer": -0.5}))
    earned = set()
    for episode in read(FOLDER / f"{name}.jsonl.gz")[:6]:
        replies = [reply for reply in episode.replies[1:] if not reply.terminal]
        if len(replies) < 2:
            continue
        records = as_records(replies)
        running = np.zeros(len(records) - 1, np.uint8)
        parts = rewards.components(Transition(records[1:], records[:-1], running == 0, running), 30)
        for step, (before, now) in enumerate(pairwise(replies)):
            expected = Reference(rewards.weights, 30, now.meta, before.meta, Outcome.RUNNING).nonzero()
            found = named_components(parts[:, step])
            assert found == pytest.approx(expected, rel=1e-5, abs=1e-7)
            earned |= set(found)
    assert {"damage_dealt", "damage_received", "hit_off_prayer"} <= earned


def test_played_fights_earn_what_the_table_says() -> None:
    env = NhVecEnv(8, opponent="scripted", seed=3, rewards=CORE, max_episode_ticks=100)
    env.reset()
    rng = np.random.default_rng(0)
    rewards, returns, ends = Rewards(reward_weights(CORE)), np.zeros(8), 0
    for _ in range(150):
        masks = env.action_masks()
        _, reward, dones, infos = env.step(np.array([env.fights.contract.random_action(mask, rng) for mask in masks]))
        check(rewards, env.fights.tick, 0)
        returns += reward
        for fight in np.flatnonzero(dones):
            ends += 1
            assert sum(infos[fight]["episode_rewards"].values()) == pytest.approx(returns[fight], abs=1e-4)
            assert infos[fight]["episode"]["r"] == pytest.approx(returns[fight], abs=1e-4)
            returns[fight] = 0.0
    assert ends >= 8


def test_both_seats_of_a_pair_earn_what_the_table_says() -> None:
    pytest.importorskip("pettingzoo")
    env = parallel_env(rewards=CORE, max_episode_ticks=60)
    chosen, rng, earned = reward_weights(CORE), np.random.default_rng(1), set()
    for seed in range(3):
        env.reset(seed=seed)
        previous: list[dict[str, Any]] = [{}, {}]
        while env.agents:
            actions = {agent: env.contract.random_action(env.action_masks(agent), rng) for agent in env.agents}
            _, rewards, _, _, infos = env.step(actions)
            now, outcomes = on_the_wire(env.fights.world.meta[0]), env.fights.world.outcome[0]
            for seat, agent in enumerate(infos):
                expected = Reference(chosen, 0, now[seat], previous[seat], Outcome(outcomes[seat])).nonzero()
                assert infos[agent]["rewards"] == pytest.approx(expected, rel=1e-5, abs=1e-7)
                assert rewards[agent] == pytest.approx(sum(expected.values()), abs=1e-5)
                earned |= set(expected)
            previous = now
    assert {"damage_dealt", "target_frozen", "player_frozen", "hit_on_prayer"} <= earned
