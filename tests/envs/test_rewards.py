"""Rewards: each component alone, their sum, and weights."""

from __future__ import annotations

import numpy as np
import pytest

from sb3_pvp.envs.rewards import COMPONENTS, RewardWeights, Tick, reward_components, reward_weights
from sb3_pvp.world import META_DTYPE, Outcome

WEIGHTS = RewardWeights(win=3.0, lose=-4.0, tie=-0.5, damage_dealt=0.25, damage_received=-0.5)


def tick(outcome: Outcome = Outcome.RUNNING, **meta: float) -> Tick:
    """One fight with these meta fields."""
    record = np.zeros(1, META_DTYPE)
    for name, value in meta.items():
        record[name] = value
    return Tick(record, np.array([outcome], np.uint8))


def nonzero(one: Tick) -> dict[str, float]:
    parts = reward_components(WEIGHTS, one)[:, 0]
    return {name: float(value) for name, value in zip(COMPONENTS, parts, strict=True) if value}


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (tick(), {}),
        (tick(damage_generated_on_target_scale=0.5), {"damage_dealt": 0.125}),
        (tick(damage_generated_on_player_scale=0.5), {"damage_received": -0.25}),
        (tick(extra_damage_dealt_on_target_scale=0.5), {"extra_damage_dealt": 0.125}),
        (tick(extra_damage_dealt_on_player_scale=0.5), {"extra_damage_received": -0.25}),
        (tick(damage_dealt=0.5, damage_received=0.5), {}),  # counted when rolled, not when they land
        (tick(Outcome.WON), {"win": 3.0}),
        (tick(Outcome.LOST), {"lose": -4.0}),
        (tick(Outcome.TIED), {"tie": -0.5}),
        (tick(Outcome.TARGET_LOST, damage_generated_on_target_scale=0.5), {}),
        (tick(Outcome.DESYNC, damage_generated_on_player_scale=0.5), {}),
    ],
)
def test_each_event_earns_its_component(one: Tick, expected: dict[str, float]) -> None:
    assert nonzero(one) == expected


def test_fights_of_a_batch_do_not_mix() -> None:
    meta = np.zeros(3, META_DTYPE)
    meta["damage_generated_on_target_scale"] = [0.0, 1.0, 1.0]
    outcome = np.array([Outcome.WON, Outcome.RUNNING, Outcome.DESYNC], np.uint8)
    parts = reward_components(WEIGHTS, Tick(meta, outcome))
    assert parts.shape == (len(COMPONENTS), 3)
    assert parts.dtype == np.float32
    assert parts.sum(axis=0).tolist() == [3.0, 0.25, 0.0]


def test_no_component_is_minus_zero() -> None:
    assert not np.signbit(reward_components(WEIGHTS, tick())).any()


def test_weights_change_only_what_is_named() -> None:
    assert reward_weights({"win": 5}) == RewardWeights(win=5.0)
    assert reward_weights(None) == RewardWeights()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"winn": 1.0}, "did you mean 'win'"),
        ({"win": float("nan")}, "finite number"),
        ({"win": "1"}, "finite number"),
        ({"win": True}, "finite number"),
    ],
)
def test_bad_weights_are_refused(weights: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reward_weights(weights)
