"""Aversions: what they forbid, in which share of fights, exact resumes, and that self-play learns to see them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sb3_pvp import PvpPPO
from sb3_pvp.envs import NhVecEnv, PvpVecEnv
from sb3_pvp.game.contract import load_contract
from sb3_pvp.matches.evaluation import EvaluationFights
from sb3_pvp.players.seats import Aversions
from sb3_pvp.policies import AutoregressivePolicy
from tests.players.throwing_game import CONTRACT, ROUNDS, THROWS, Throwing

NH = load_contract("NhEnv")
ATTACKS = ["mage_attack", "ranged_attack", "melee_attack"]
PLACES = [NH.flat_index(each) for each in ATTACKS]


@settings(max_examples=10)
@given(st.floats(0, 1), st.integers(0, 2**63), st.lists(st.sampled_from(THROWS), min_size=1, unique=True))
def test_chances_are_those_of_the_share(share: float, seed: int, avoided: list[str]) -> None:
    rows = np.arange(4000)
    aversions = Aversions({"actions": avoided, "share": share}, CONTRACT, len(rows))
    aversions.begin(rows, [seed + row for row in rows.tolist()])
    with_aversions = aversions.chances.any(1)
    assert abs(with_aversions.mean() - share * (1 - 0.5 ** len(avoided))) < 0.05  # half of the chances are 0
    assert abs((aversions.chances == 1).sum() - share * len(rows) * len(avoided) / 4) < 200
    seen = np.zeros(aversions.allowed.shape)
    for _ in range(100):
        aversions.advance(rows)
        seen += aversions.allowed
    places = [CONTRACT.flat_index(each) for each in avoided]
    assert np.abs(1 - seen[:, places] / 100 - aversions.chances).max() < 0.3
    assert np.abs(1 - seen[:, places] / 100 - aversions.chances).mean() < 0.05
    assert (np.delete(seen, places, 1) == 100).all()


def test_they_are_drawn_for_each_seat_and_fight_and_reach_masks_and_observations() -> None:
    env = NhVecEnv(64, opponent="self", seed=3, aversions={"actions": ATTACKS, "share": 1.0}, max_episode_ticks=20)
    observation = env.reset()
    aversions = env.fights._observations.aversions
    assert aversions is not None
    before, always = aversions.chances.copy(), np.zeros((64, 3), bool)
    assert not np.array_equal(before[::2], before[1::2])
    for _ in range(20):
        masks = env.action_masks()
        assert np.array_equal(masks, observation["action_mask"].astype(bool))
        always |= masks[:, PLACES]
        assert (aversions.chances == before).all()
        observation, _, done, _ = env.step(np.zeros((64, NH.num_heads), np.int64))
    assert not always[before == 1].any()
    assert done.all()
    assert not (aversions.chances == before).all(1).any()


def test_a_snapshot_goes_on_exactly() -> None:
    arguments: dict[str, Any] = {"opponent": "self", "aversions": {"actions": ATTACKS, "share": 0.5}, "seed": 5}
    one, other = NhVecEnv(8, **arguments), NhVecEnv(8, **{**arguments, "seed": 6})
    one.reset()
    other.reset()
    nothing = np.zeros((8, NH.num_heads), np.int64)
    for _ in range(3):
        one.step(nothing)
    other.set_state(one.get_state())
    for _ in range(5):
        assert np.array_equal(one.action_masks(), other.action_masks())
        one.step(nothing)
        other.step(nothing)


def test_evaluations_show_the_fighter_as_it_is() -> None:
    training = NhVecEnv(2, aversions={"actions": ATTACKS, "share": 1.0}, frame_ages=(0, 1))
    arguments = EvaluationFights(None, 2).arguments(training)
    assert arguments is not None
    assert arguments["frame_ages"] == (0, 1)
    assert arguments["aversions"] is None


@pytest.mark.parametrize(
    ("aversions", "message"),
    [
        ({"actions": ["hug"], "share": 0.5}, "hug"),
        ({"actions": ATTACKS}, "aversions must be"),
        ({"actions": ATTACKS, "share": 1.5}, "aversions must be"),
        ({"actions": [], "share": 0.5}, "aversions must be"),
        (["mage_attack"], "aversions must be a mapping"),
    ],
)
def test_wrong_aversions_are_refused(aversions: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NhVecEnv(2, aversions=aversions)


def mean_gain_against_who_avoids_a_throw(aversions: Any) -> float:
    """What a learner in self-play wins a round of those who avoid a throw, in the second half; 0.5 is the best."""
    env = PvpVecEnv(256, game=Throwing(), opponent="self", seed=0, aversions=aversions)
    model = PvpPPO(
        AutoregressivePolicy,
        env,
        n_steps=ROUNDS,
        batch_size=1024,
        n_epochs=4,
        learning_rate=3e-3,
        ent_coef=0.05,
        gamma=0.9,
        seed=0,
        device="cpu",
        policy_kwargs={"net_arch": [32]},
    )
    model.learn(60 * ROUNDS * 256)
    rng, gains = np.random.default_rng(0), []
    for avoided in range(3):
        fights = PvpVecEnv(512, game=Throwing(), opponent="self", seed=1)
        observation = fights.reset()
        for number in range(ROUNDS):
            actions = np.array(model.predict(observation, deterministic=False)[0])
            actions[1::2, 0] = rng.choice([each for each in range(3) if each != avoided], 256)
            observation, rewards, _, _ = fights.step(actions)
            if number >= ROUNDS // 2:
                gains.append(rewards[::2].mean())
    return float(np.mean(gains))


@pytest.mark.slow
def test_self_play_with_aversions_learns_to_see_them() -> None:
    # Without them every self-play opponent throws everything: what the others have shown says nothing, and is ignored.
    without = mean_gain_against_who_avoids_a_throw(None)
    with_aversions = mean_gain_against_who_avoids_a_throw({"actions": list(THROWS), "share": 0.3})
    assert without < 0.17
    assert with_aversions > max(0.2, without + 0.1)
