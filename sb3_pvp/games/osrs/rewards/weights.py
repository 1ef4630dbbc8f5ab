"""The weights of the rewards: numbers, or schedules of the number of finished rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from sb3_pvp.common.errors import require_known
from sb3_pvp.common.schedules import Constant, Schedule, parse_schedule, sampling_from
from sb3_pvp.game import Transition
from sb3_pvp.games.osrs.meta_fields import META_DTYPE
from sb3_pvp.games.osrs.rewards.components import COMPONENTS, facts_of

#: A number or a schedule; `RewardWeights` also takes whatever `sb3_pvp.common.schedules.parse_schedule` can parse.
Weight = float | Schedule


@dataclass(frozen=True)
class RewardWeights:
    """The options of the reward (rewards.md §1), each a number or a schedule, the flags ``True`` or ``False``.

    Their names are those of the original system without ``_reward`` or ``_reward_scale`` at the end. Damage and healing
    are counted in health bars, fractions of the maximum hitpoints of the fighter that gets them. A fight deals several
    health bars of damage because both fighters eat, so a weight of 0.25 keeps the damage terms near the size of a win;
    in the original these weights are 0 unless a preset sets them.

    Attributes:
        win: for a fight won.
        lose: for a fight lost.
        tie: for a tie; only fights without ``death_match`` have one.
        default: for every tick.
        damage_dealt: for a health bar of damage dealt; also scales what the opponent heals or leaves uneaten.
        damage_received: for a health bar of damage received, normally negative; also scales own healing and food that
            is wasted or left.
        reward_on_damage_generated: count damage when it is rolled; false: when it lands. (Neither the original's world
            nor the embedded one reports damage received when it lands.)
        reward_heals: own healing, except by food and brews, undoes damage received.
        penalize_target_heals: such healing of the opponent undoes damage dealt.
        penalize_food_on_death: food and brews left at death count as damage received.
        reward_target_food_on_death: food and brews left to the beaten opponent count as damage dealt.
        penalize_wasted_food: healing by food and brews above the maximum counts as damage received.
        player_died_with_food_multiplier: for food and brews left; a schedule may use their sum, ``scale``.
        player_wasted_food_multiplier: for food and brews wasted; a schedule may use their sum, ``scale``.
        smite_damage_dealt_reward_multiplier: on top of ``damage_dealt``, for attacks with smite up.
        smite_damage_received_reward_multiplier: on top of ``damage_received``.
        safe_penalty: subtracted when food is eaten; a schedule may use the health at that time, ``eat_at_food_scale``.
        no_prayer_tick: for a tick without prayer points.
        target_frozen_tick: for each tick by which the opponent's freeze timer goes up.
        player_frozen_tick: for each tick by which the own freeze timer goes up.
        protected_correct_prayer: for an attack against which the right protection prayer was up. This and the next
            seven are for attacks at a speed of 5 ticks, and proportional for others.
        protected_wrong_prayer: for an attack against which it was not up.
        attacked_correct_prayer: for an own attack against which the opponent did not pray.
        attacked_wrong_prayer: for an own attack against which the opponent prayed.
        protected_previous_correct_prayer: for a prayer, when attacked, against what the attacker wielded a tick ago.
        protected_previous_wrong_prayer: for any other prayer when attacked; nothing without one.
        attacked_previous_correct_prayer: for an own attack against which the opponent did not pray a tick ago.
        attacked_previous_wrong_prayer: for an own attack against which the opponent prayed a tick ago.
        attack_level_scale: in each tick, for how far the level is above its base, as a share of the base.
        strength_level_scale: the same for strength.
        defense_level_scale: the same for defence.
        ranged_level_scale: the same for ranged.
        magic_level_scale: the same for magic.
        reward_on_hit_with_boost_scale: for how far a level is above its base, in ticks with an attack that uses it
            (strength, ranged, magic); a schedule may use the ratio of the two, ``level``.
        custom_reward_fn: added in every tick; a schedule may use all of `variables.ALL_VARIABLES`: the fields of
            `sb3_pvp.games.osrs.meta_fields.META_DTYPE`, also under the names of the wire (protocol.md §4), and
            ``{melee,ranged,mage}_damage_{dealt,received}`` (``meleeDamageDealt`` ...), ``smite_damage`` and
            ``smite_damage_received``. Styles are ``'MELEE'``, ``'RANGED'``, ``'MAGIC'`` and ``'null'``. A field
            without a value has that of the expression's ``defaults``, or else 0, false or ``'null'``.

    Raises:
        ValueError: for a weight whose value is not a finite number, or a flag that is not a boolean.
    """

    win: Weight = 1.0
    lose: Weight = -1.0
    tie: Weight = -0.2
    default: Weight = 0.0
    damage_dealt: Weight = 0.25
    damage_received: Weight = -0.25
    reward_on_damage_generated: bool = True
    reward_heals: bool = True
    penalize_target_heals: bool = True
    penalize_food_on_death: bool = True
    reward_target_food_on_death: bool = True
    penalize_wasted_food: bool = True
    player_died_with_food_multiplier: Weight = 1.0
    player_wasted_food_multiplier: Weight = 1.0
    smite_damage_dealt_reward_multiplier: Weight = 0.0
    smite_damage_received_reward_multiplier: Weight = 0.0
    safe_penalty: Weight = 0.0
    no_prayer_tick: Weight = 0.0
    target_frozen_tick: Weight = 0.0
    player_frozen_tick: Weight = 0.0
    protected_correct_prayer: Weight = 0.0
    protected_wrong_prayer: Weight = 0.0
    attacked_correct_prayer: Weight = 0.0
    attacked_wrong_prayer: Weight = 0.0
    protected_previous_correct_prayer: Weight = 0.0
    protected_previous_wrong_prayer: Weight = 0.0
    attacked_previous_correct_prayer: Weight = 0.0
    attacked_previous_wrong_prayer: Weight = 0.0
    attack_level_scale: Weight = 0.0
    strength_level_scale: Weight = 0.0
    defense_level_scale: Weight = 0.0
    ranged_level_scale: Weight = 0.0
    magic_level_scale: Weight = 0.0
    reward_on_hit_with_boost_scale: Weight = 0.0
    custom_reward_fn: Weight = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            # By the default: `field.type` is a string in this module.
            check = _flag if isinstance(field.default, bool) else _weight
            object.__setattr__(self, field.name, check(field.name, getattr(self, field.name)))


def reward_weights(weights: Mapping[str, Any] | RewardWeights | None = None) -> RewardWeights:
    """Returns the default weights, updated with ``weights``; raises `ValueError` for unknown names and wrong values."""
    if isinstance(weights, RewardWeights):
        return weights
    if weights is not None and not isinstance(weights, Mapping):
        raise ValueError(f"rewards must map names of weights to numbers or schedules, got {weights!r}")
    names = [field.name for field in fields(RewardWeights)]
    for name in weights or {}:
        require_known("reward", name, names)
    return RewardWeights(**(weights or {}))


def is_finite(value: Any) -> bool:
    """Whether a value is a number or an array of numbers, all finite."""
    array = np.asarray(value)
    return array.dtype.kind in "biuf" and bool(np.isfinite(array).all())


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"the reward flag {name!r} must be True or False, got {value!r}")
    return value


def _weight(name: str, value: Any) -> Weight:
    if type(value) in (int, float) and is_finite(value):
        return float(value)
    variables = _sample_variables(name)
    try:
        schedule = parse_schedule(value, variables)
    except ValueError as error:
        raise ValueError(f"the reward {name!r}: {error}") from error
    at_start = schedule(0, **variables)
    # An array was computed from sample variables; whether it is finite is only known with those of a fight.
    is_number = is_finite(at_start) or (isinstance(at_start, np.ndarray) and at_start.dtype.kind == "f")
    if isinstance(at_start, bool) or np.size(at_start) != 1 or not is_number:
        raise ValueError(f"the reward {name!r} must be a finite number or a schedule of such numbers, got {value!r}")
    return float(at_start) if isinstance(schedule, Constant) else schedule  # a number costs no call per tick


def _sample_variables(name: str) -> dict[str, Any]:
    """Returns the variables of this weight's schedule in a made-up tick with all events, where every number is 1."""
    ones = np.ones(1, META_DTYPE)  # of every field, flags too
    facts = facts_of(Transition(ones, ones, np.ones(1, bool), np.zeros(1, np.uint8)))
    components = [component for component in COMPONENTS.values() if name in component.weights]
    return {key: variable.values(facts) for each in components for key, variable in each.variables.items()}


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
