"""The current weights of the reward, under their tags in the log (self-play.md §11.5)."""

from __future__ import annotations

import numpy as np

from sb3_pvp.common.schedules import Schedule, sampling_from
from sb3_pvp.games.osrs.rewards.weights import RewardWeights

_PRAYERS = [
    f"{event}_{previous}{right}_prayer"
    for event in ("protected", "attacked")
    for previous in ("", "previous_")
    for right in ("correct", "wrong")
]
_LEVELS = [f"{skill}_level_scale" for skill in ("attack", "strength", "defense", "ranged", "magic")]

#: The field of `RewardWeights` behind each ``env/pvp/`` tag.
WEIGHT_TAGS = {
    **{f"{name}_reward": name for name in ("default", "win", "lose", "tie", *_PRAYERS, *_LEVELS)},
    **{f"{name}_reward": name for name in ("target_frozen_tick", "player_frozen_tick", "no_prayer_tick")},
    "damage_dealt_reward_scale": "damage_dealt",
    "damage_received_reward_scale": "damage_received",
    "reward_on_hit_with_boost_scale": "reward_on_hit_with_boost_scale",
    "smite_dealt_reward_scale": "smite_damage_dealt_reward_multiplier",
    "smite_received_reward_scale": "smite_damage_received_reward_multiplier",
    "player_died_with_food_scale": "player_died_with_food_multiplier",
    "player_wasted_food_scale": "player_wasted_food_multiplier",
    "safe_penalty": "safe_penalty",
}


def current_weights(weights: RewardWeights, t: int) -> dict[str, float]:
    """Returns the weights after ``t`` rollouts, by the tags of `WEIGHT_TAGS`.

    Schedules with variables are evaluated with the defaults of these; without a default they are left out.
    """
    values = {tag: _value(getattr(weights, field), t) for tag, field in WEIGHT_TAGS.items()}
    return {tag: value for tag, value in values.items() if value is not None}


def _value(weight: float | Schedule, t: int) -> float | None:
    if not isinstance(weight, Schedule):
        return weight
    try:
        # Logging must not advance the random stream that the weights of the fights draw from.
        with sampling_from(np.random.default_rng(0)):
            return float(weight(t))
    except (ValueError, TypeError):
        return None
