"""Hand-made ticks of one fight for tests of the rewards, and the weights of a preset."""

from __future__ import annotations

import numpy as np

from sb3_pvp.game import Outcome, Transition
from sb3_pvp.game.arrays import named_terms
from sb3_pvp.games.osrs.meta_fields import META_DTYPE, Style
from sb3_pvp.games.osrs.rewards import OsrsRewards, RewardWeights

HIT = {"hit_present": True, "attack_type_hit": Style.RANGED, "player_hit_attack_speed": 4}
HURT = {"received_present": True, "attack_type_received": Style.MAGIC, "target_hit_attack_speed": 6}
ROLLED = {"damage_generated_on_target_scale": 0.5, "damage_generated_on_player_scale": 0.25}
DAMAGE = {"damage_dealt": 0.125, "damage_received": -0.0625}
SUPPLIES = {"target_remaining_food_scale": 2.0, "target_remaining_brew_scale": 1.0}
OWN_SUPPLIES = {"remaining_food_scale": 2.0, "remaining_brew_scale": 1.0}

#: The rewards of the original's preset Core (rewards.md §9) that are not defaults.
CORE = {
    "target_frozen_tick": {
        "type": "linear", "initial-value": 0.004, "final-value": 0.003, "change-over-time-steps": 300
    },
    "player_frozen_tick": {
        "type": "linear", "initial-value": -0.004, "final-value": -0.003, "change-over-time-steps": 300
    },
    "no_prayer_tick": -0.01,
    "protected_correct_prayer": 0.025,
    "protected_wrong_prayer": -0.025,
    "attacked_correct_prayer": 0.025,
    "attacked_wrong_prayer": -0.025,
    "player_died_with_food_multiplier": {
        "type": "expression", "expression": "(scale + 1.2) ** 1.5", "defaults": {"scale": 0}
    },
    "player_wasted_food_multiplier": 5,
    "smite_damage_dealt_reward_multiplier": 0.1,
    "smite_damage_received_reward_multiplier": 0.1,
}  # fmt: skip


class Rewards:
    """The rewards with these weights."""

    def __init__(self, weights: RewardWeights) -> None:
        self.weights = weights

    def components(self, tick: Transition, t: int = 0) -> np.ndarray:
        return OsrsRewards().compute(tick, OsrsRewards().at(self.weights, t))


def named_components(parts: np.ndarray) -> dict[str, float]:
    return named_terms(OsrsRewards(), parts)


def record(**meta: float) -> np.ndarray:
    """One meta record in which nothing happens but what is named."""
    one = np.zeros(1, META_DTYPE)
    one["current_prayer_percent"] = 1.0
    for name in META_DTYPE.names:
        if name.endswith("level_scale"):
            one[name] = 1.0
        if "type" in name:
            one[name] = Style.NONE
    for name, value in meta.items():
        one[name] = value
    return one


def tick(
    meta: dict[str, float], previous: dict[str, float] | None = None, outcome: Outcome = Outcome.RUNNING
) -> Transition:
    has_previous = np.array([previous is not None])
    return Transition(record(**meta), record(**(previous or {})), has_previous, np.array([outcome], np.uint8))
