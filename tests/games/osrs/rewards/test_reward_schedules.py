"""Weights that change with training, and the custom function."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from sb3_pvp.common.schedules import Linear
from sb3_pvp.envs import NhEnv, NhVecEnv
from sb3_pvp.game import Outcome, Transition
from sb3_pvp.games.osrs.meta_fields import META_DTYPE, Style, camel_case
from sb3_pvp.games.osrs.rewards import RewardWeights, reward_weights
from tests.envs.fake_world import FakeWorld
from tests.games.osrs.rewards.reward_ticks import (
    CORE,
    HIT,
    HURT,
    ROLLED,
    SUPPLIES,
    Rewards,
    named_components,
    record,
    tick,
)


def expression(formula: str, **defaults: Any) -> dict[str, Any]:
    return {"type": "expression", "expression": formula, "defaults": defaults}


def earned(weights: dict[str, Any], one: Transition, t: int = 0) -> dict[str, float]:
    return named_components(Rewards(reward_weights(weights)).components(one, t)[:, 0])


def custom(formula: str, one: Transition, t: int = 0, **defaults: Any) -> float:
    return earned({"custom_reward_fn": expression(formula, **defaults)}, one, t).get("custom_reward_fn", 0.0)


def test_the_preset_core_parses() -> None:
    weights = reward_weights(CORE)
    assert weights.target_frozen_tick == Linear(0.004, 0.003, 300)
    assert (weights.damage_dealt, weights.damage_received, weights.tie) == (0.25, -0.25, -0.2)
    assert reward_weights(pickle.loads(pickle.dumps(weights))) == weights


def test_a_weight_follows_the_trained_rollouts() -> None:
    rewards = Rewards(reward_weights(CORE))
    frozen = tick({"target_frozen_ticks": 10}, {})
    values = [rewards.components(frozen, t).sum() for t in (0, 150, 300, 1000, 0)]
    assert values == pytest.approx([0.04, 0.035, 0.03, 0.03, 0.04])


def test_a_weight_may_be_zero_for_a_while() -> None:
    weights = {"default": {"type": "jump", "jumps": {"0": 0.0, "10": {"type": "linear", "initial_value": 0.0,
               "final_value": 1.0, "change_over_time_steps": 20}}}}  # fmt: skip
    rewards = Rewards(reward_weights(weights))
    assert [float(rewards.components(tick({}), t).sum()) for t in (0, 9, 10, 20)] == [0.0, 0.0, 0.5, 1.0]


def test_core_pays_more_for_supplies_the_more_are_left() -> None:
    parts = earned(CORE, tick(SUPPLIES, outcome=Outcome.WON))
    assert parts["target_food_on_death"] == pytest.approx(0.25 * 2.0 * 4.2**1.5)
    assert parts["target_brews_on_death"] == pytest.approx(0.25 * 1.0 * 4.2**1.5)


def test_eating_while_safe_may_cost_more() -> None:
    weights = {"safe_penalty": expression("eat_at_food_scale ** 2 if eat_at_food_scale > 0.5 else 0")}
    for health, penalty in [(0.9, {"safe_penalty": pytest.approx(-0.81)}), (0.4, {})]:
        assert earned(weights, tick({"eat_food_present": True, "eat_at_food_scale": health})) == penalty


def test_the_boost_sees_the_level() -> None:
    hit = tick({**HIT, "ranged_level_scale": 1.25, "strength_level_scale": 2.0})
    expected = {"ranged_boost_hit": 0.25 * 1.25}
    assert earned({"reward_on_hit_with_boost_scale": expression("level")}, hit) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("distance * 2", 6.0),
        ("damageGeneratedOnTargetScale", 0.5),
        ("ranged_damage_dealt + mageDamageReceived * 2", 1.0),
        ("melee_damage_dealt + rangedDamageReceived", 0.0),
        ("1 if attackTypeHit == 'RANGED' else 2", 1.0),
        ("1 if attack_type_received == 'RANGED' else 2", 2.0),
        ("1 if currentTargetPrayerType == 'null' else 2", 1.0),
        ("1 if targetPrayerType == 'null' else 2", 1.0),
        ("5 if hit_present else 0", 5.0),
        ("smite_damage + smite_damage_received", 0.25),
        ("t * distance", 21.0),
        ("hitOffPrayer", 0.0),
        ("eatAtFoodScale + wastedBrewScale", 0.0),
        ("food_count / 4", 0.5),
    ],
)
def test_the_custom_function_sees_the_meta_fields(formula: str, value: float) -> None:
    fields = {**ROLLED, **HIT, **HURT, "distance": 3, "food_count": 2, "target_attacked_with_smite": True}
    assert custom(formula, tick({**fields, "eat_at_food_scale": 9.0}), t=7) == value


@pytest.mark.parametrize(
    ("formula", "default", "value"),
    [
        ("eatAtFoodScale", 3.0, 3.0),
        ("eat_at_food_scale", 3.0, 3.0),
        ("1 if attackTypeHit == 'none' else 2", "none", 1.0),
        ("1 if attackTypeHit == 0 else 2", 0, 1.0),
        ("1 if hitOffPrayer else 2", True, 1.0),
        ("smite_damage", 4.0, 4.0),
        ("1 if playerPrayerType == 'x' else 2", "x", 1.0),
    ],
)
def test_what_is_absent_has_its_default(formula: str, default: Any, value: float) -> None:
    (name,) = (word for word in formula.split() if word.replace("_", "").isalpha() and len(word) > 4)
    assert custom(formula, tick(HURT), **{name: default}) == value


def test_a_default_is_not_used_where_the_field_is_present() -> None:
    meta = np.concatenate([record(**HIT), record()])
    both = Transition(meta, meta, np.zeros(2, bool), np.zeros(2, np.uint8))
    weights = {"custom_reward_fn": expression("1 if attackTypeHit == 'RANGED' else 2", attackTypeHit="RANGED")}
    assert Rewards(reward_weights(weights)).components(both).sum(axis=0).tolist() == [1.0, 1.0]
    weights = {"custom_reward_fn": expression("playerHitAttackSpeed", playerHitAttackSpeed=9)}
    assert Rewards(reward_weights(weights)).components(both).sum(axis=0).tolist() == [4.0, 9.0]


def test_the_custom_function_knows_every_field_under_both_names() -> None:
    nothing = record()
    for name in META_DTYPE.names:
        compared, value = ("'null'", 1.0) if "type" in name else ("0", 2.0 if nothing[name].any() else 1.0)
        for spelling in (name, camel_case(name)):
            assert custom(f"1 if {spelling} == {compared} else 2", tick({})) == value, spelling


def test_each_fight_draws_its_own_random_number() -> None:
    meta = np.zeros(5, META_DTYPE)
    five = Transition(meta, meta, np.zeros(5, bool), np.zeros(5, np.uint8))
    rewards = Rewards(reward_weights({"default": expression("random()")}))
    first, second = rewards.components(five).sum(axis=0), rewards.components(five).sum(axis=0)
    assert len({*first.tolist(), *second.tolist()}) == 10


def test_a_value_that_is_no_number_is_found_when_it_happens() -> None:
    rewards = Rewards(RewardWeights(custom_reward_fn=expression("log(distance - 1)")))
    assert rewards.components(tick({"distance": 2})).sum() == 0.0
    with pytest.raises(ValueError, match="custom_reward_fn.*t = 3"):
        rewards.components(tick({"distance": 0}), 3)


def test_a_multiplier_is_evaluated_only_where_it_counts() -> None:
    weights = {"player_died_with_food_multiplier": expression("1 / scale", scale=1)}
    assert earned(weights, tick({}, outcome=Outcome.LOST)) == {"lost": -1.0}


@pytest.mark.parametrize("vectorised", [False, True])
def test_environments_hand_the_time_to_the_schedules(vectorised: bool) -> None:
    default = {"type": "linear", "initial_value": 1.0, "final_value": 0.0, "change_over_time_steps": 4}
    settings: dict[str, Any] = {"opponent": "noop", "world": FakeWorld, "rewards": {"default": default}}
    env: Any = NhVecEnv(2, **settings) if vectorised else NhEnv(**settings)
    env.reset()
    nothing = np.zeros((2, 12) if vectorised else 12, int)
    rewards = []
    for t in (0, 1, 4):
        env.set_trained_rollouts(t)
        rewards.append(np.asarray(env.step(nothing)[1]).tolist())
    assert rewards == ([[1.0] * 2, [0.75] * 2, [0.0] * 2] if vectorised else [1.0, 0.75, 0.0])


def test_the_tick_of_a_fight_that_ended_is_kept() -> None:
    env = NhVecEnv(2, opponent="noop", world=FakeWorld, seed=0)
    env.reset()
    stab = np.zeros((2, 12), int)
    stab[0, 0] = 1
    ended = False
    while not ended:
        env.step(stab)
        tick_now = env.fights.tick
        ended = bool(tick_now.outcome[0] == Outcome.WON)
    assert tick_now.report["current_target_health_percent"][0] == 0.0
    assert env.fights.world.meta["episode_ticks"][0, 0] == 0
    assert tick_now.has_previous.all()
    env.step(stab)
    assert env.fights.tick.has_previous.tolist() == [False, True]
    assert np.array_equal(env.fights.tick.previous, tick_now.report)
    assert env.fights.tick.report["attack_type_hit"][0] == Style.MELEE
