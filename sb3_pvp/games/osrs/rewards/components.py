"""The table of rewards (rewards.md §4): events and the weights that multiply them; `amounts` has their amounts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import Transition
from sb3_pvp.games.osrs.meta_fields import META_DTYPE, OPTIONAL_FIELDS, STYLE_FIELDS, STYLE_NAMES, Style, camel_case

Array = NDArray[Any]


class Facts(NamedTuple):
    """The records of a tick in N fights."""

    meta: Array  #: The reports, `sb3_pvp.games.osrs.meta_fields.META_DTYPE` ``(N,)``.
    amounts: Array  #: The amounts of all components, `components.AMOUNTS` ``(N,)``.


_FLAG_OF = {name: flag for flag, group in OPTIONAL_FIELDS.items() for name in group}
_NAMES_OF_STYLES = np.array([STYLE_NAMES[number] for number in sorted(STYLE_NAMES)])  # `Style.NONE` comes first


@dataclass(frozen=True)
class Variable:
    """A quantity with a value in every fight, or only in some.

    Attributes:
        read: returns the values ``(N,)``: numbers, booleans, or strings for styles.
        present: returns where there is a value, bool ``(N,)``; ``None``: everywhere.
    """

    read: Callable[[Facts], Array]
    present: Callable[[Facts], Array] | None = None

    def values(self, facts: Facts, default: Any = None) -> Array:
        """Returns the values, with ``default``, else 0, false or "null", where there is none."""
        values = self.read(facts)
        if self.present is None:
            return values
        if default is None:
            default = STYLE_NAMES[Style.NONE.value] if values.dtype.kind == "U" else values.dtype.type(0)
        elif isinstance(default, str) != (values.dtype.kind == "U"):
            values = values.astype(object)  # else `np.where` would turn the numbers into strings
        return np.where(self.present(facts), values, default)


def _field(name: str) -> Variable:
    flag = _FLAG_OF.get(name)
    read = _style_reader(name) if name in STYLE_FIELDS else lambda facts: facts.meta[name]
    return Variable(read, None if flag is None else _presence(name, flag))


def _style_reader(name: str) -> Callable[[Facts], Array]:
    return lambda facts: _NAMES_OF_STYLES[facts.meta[name] - Style.NONE.value]


def _presence(name: str, flag: str) -> Callable[[Facts], Array]:
    if name not in STYLE_FIELDS:
        return lambda facts: facts.meta[flag]
    # The wire also leaves out the prayer at a hit if there was none (protocol.md §4).
    return lambda facts: facts.meta[flag] & (facts.meta[name] != Style.NONE.value)


def _of_style(style: Style, damage: str, flag: str, attack_type: str) -> Variable:
    return Variable(lambda facts: facts.meta[damage] * (facts.meta[flag] & (facts.meta[attack_type] == style.value)))


def _damage_by_style() -> dict[str, Variable]:
    dealt = ("damage_generated_on_target_scale", "hit_present", "attack_type_hit")
    received = ("damage_generated_on_player_scale", "received_present", "attack_type_received")
    styles = {"melee": Style.MELEE, "ranged": Style.RANGED, "mage": Style.MAGIC}
    both = {"dealt": dealt, "received": received}
    return {
        f"{word}_damage_{side}": _of_style(style, *fields)
        for side, fields in both.items()
        for word, style in styles.items()
    }


def _with_smite(damage: str, flag: str, smite: str) -> Variable:
    return Variable(lambda facts: facts.amounts[damage], lambda facts: facts.meta[flag] & facts.meta[smite])


def _all_variables() -> dict[str, Variable]:
    variables = {name: _field(name) for name in META_DTYPE.names or ()} | _damage_by_style()
    wire_names = {camel_case(name): variable for name, variable in variables.items()}
    return {
        **variables,
        **wire_names,
        "smite_damage": _with_smite("damage_dealt", "hit_present", "hit_with_smite"),
        "smite_damage_received": _with_smite("damage_received", "received_present", "target_attacked_with_smite"),
    }


#: The variables of `custom_reward_fn`: all fields of the meta record, in snake_case and by their names on the wire, and
#: the derived ones of rewards.md §4.
ALL_VARIABLES = _all_variables()


@dataclass(frozen=True)
class Component:
    """One part of the reward of a tick: an amount (`amounts.write_amounts`), times its weights.

    Attributes:
        description: one sentence.
        weights: names of `RewardWeights`; a flag counts as 1 or 0.
        variables: the variables of the weights' schedules, besides ``t``.
    """

    description: str
    weights: tuple[str, ...]
    variables: Mapping[str, Variable] = field(default_factory=dict)


def _level(name: str) -> dict[str, Variable]:
    return {"level": Variable(lambda facts: facts.meta[f"{name}_level_scale"])}


# Variables of schedules (rewards.md §1): food and brews share theirs, so that one weight can rise with their sum.
_EATEN = {"eat_at_food_scale": Variable(lambda facts: facts.meta["eat_at_food_scale"])}
_WASTED = {"scale": Variable(lambda facts: facts.amounts["wasted_food"] + facts.amounts["wasted_brews"])}
_LEFT = {"scale": Variable(lambda facts: facts.meta["remaining_food_scale"] + facts.meta["remaining_brew_scale"])}
_TARGET_LEFT = {
    "scale": Variable(
        lambda facts: facts.meta["target_remaining_food_scale"] + facts.meta["target_remaining_brew_scale"]
    )
}

#: All components, in the order of the table; their names are the keys of the original's ``info["rewards"]``.
COMPONENTS: dict[str, Component] = {
    "default_step_reward": Component("Every tick.", ("default",)),
    "custom_reward_fn": Component(
        "The value of the custom function for the tick.", ("custom_reward_fn",), ALL_VARIABLES
    ),
    "damage_dealt": Component("Damage of own attacks.", ("damage_dealt",)),
    "damage_received": Component("Damage of the opponent's attacks.", ("damage_received",)),
    "extra_damage_dealt": Component("Damage dealt outside attacks: recoil, vengeance and the like.", ("damage_dealt",)),
    "extra_damage_received": Component("Damage received outside attacks.", ("damage_received",)),
    "smite_damage_dealt": Component(
        "Damage of own attacks with smite up, which also drain prayer.",
        ("smite_damage_dealt_reward_multiplier", "damage_dealt"),
    ),
    "smite_damage_received": Component(
        "Damage of the opponent's attacks with smite up.",
        ("smite_damage_received_reward_multiplier", "damage_received"),
    ),
    "player_healed": Component(
        "Hitpoints gained without food and brews, as damage undone.", ("reward_heals", "damage_received")
    ),
    "target_healed": Component(
        "Hitpoints that the opponent gained without food and brews, if it is an agent, as damage undone.",
        ("penalize_target_heals", "damage_dealt"),
    ),
    "safe_penalty": Component(
        "Eating; the weight may depend on the hitpoints at which it happens.", ("safe_penalty",), _EATEN
    ),
    "no_prayer": Component("A tick without prayer points.", ("no_prayer_tick",)),
    "protected_correct_prayer": Component(
        "Being attacked with the right protection prayer up.", ("protected_correct_prayer",)
    ),
    "protected_wrong_prayer": Component(
        "Being attacked with a wrong protection prayer or none.", ("protected_wrong_prayer",)
    ),
    "hit_off_prayer": Component(
        "Attacking in a style that the opponent does not pray against.", ("attacked_correct_prayer",)
    ),
    "hit_on_prayer": Component("Attacking in the style that the opponent prays against.", ("attacked_wrong_prayer",)),
    "hit_off_prior_prayer": Component(
        "Attacking in a style that the opponent did not pray against one tick ago.",
        ("attacked_previous_correct_prayer",),
    ),
    "hit_on_prior_prayer": Component(
        "Attacking in the style that the opponent prayed against one tick ago.", ("attacked_previous_wrong_prayer",)
    ),
    "protected_correct_prior_prayer": Component(
        "Being attacked with the prayer up against what the opponent wielded one tick ago.",
        ("protected_previous_correct_prayer",),
    ),
    "protected_wrong_prior_prayer": Component(
        "Being attacked with another prayer up.", ("protected_previous_wrong_prayer",)
    ),
    "player_frozen": Component("Ticks by which this fighter's freeze timer went up.", ("player_frozen_tick",)),
    "target_frozen": Component("Ticks by which the opponent's freeze timer went up.", ("target_frozen_tick",)),
    "attack_level_scale": Component("The attack level above its base.", ("attack_level_scale",)),
    "strength_level_scale": Component("The strength level above its base.", ("strength_level_scale",)),
    "melee_boost_hit": Component(
        "A melee attack with a boosted strength level.", ("reward_on_hit_with_boost_scale",), _level("strength")
    ),
    "defence_level_scale": Component("The defence level above its base.", ("defense_level_scale",)),
    "ranged_level_scale": Component("The ranged level above its base.", ("ranged_level_scale",)),
    "ranged_boost_hit": Component(
        "A ranged attack with a boosted ranged level.", ("reward_on_hit_with_boost_scale",), _level("ranged")
    ),
    "magic_level_scale": Component("The magic level above its base.", ("magic_level_scale",)),
    "magic_boost_hit": Component(
        "A magic attack with a boosted magic level.", ("reward_on_hit_with_boost_scale",), _level("magic")
    ),
    "wasted_food": Component(
        "Healing by food above the maximum, as damage received.",
        ("penalize_wasted_food", "damage_received", "player_wasted_food_multiplier"),
        _WASTED,
    ),
    "wasted_brews": Component(
        "Hitpoints above the maximum when a brew was drunk, as damage received.",
        ("penalize_wasted_food", "damage_received", "player_wasted_food_multiplier"),
        _WASTED,
    ),
    "win": Component("A fight won.", ("win",)),
    "target_food_on_death": Component(
        "Food left to the beaten opponent.",
        ("reward_target_food_on_death", "damage_dealt", "player_died_with_food_multiplier"),
        _TARGET_LEFT,
    ),
    "target_brews_on_death": Component(
        "Brews left to the beaten opponent.",
        ("reward_target_food_on_death", "damage_dealt", "player_died_with_food_multiplier"),
        _TARGET_LEFT,
    ),
    "lost": Component("A fight lost.", ("lose",)),
    "player_food_on_death": Component(
        "Food left at a defeat.",
        ("penalize_food_on_death", "damage_received", "player_died_with_food_multiplier"),
        _LEFT,
    ),
    "player_brews_on_death": Component(
        "Brews left at a defeat.",
        ("penalize_food_on_death", "damage_received", "player_died_with_food_multiplier"),
        _LEFT,
    ),
    "tied": Component("A fight tied; only fights without `death_match` can be.", ("tie",)),
}

#: One sentence for each component, for logs and pages.
DESCRIPTIONS = {name: component.description for name, component in COMPONENTS.items()}

#: One amount of each component, as a record.
AMOUNTS = np.dtype([(name, "f4") for name in COMPONENTS])


def facts_of(tick: Transition, when_generated: bool = True) -> Facts:
    """Returns what happened in a tick, see `amounts.write_amounts`."""
    from sb3_pvp.games.osrs.rewards.amounts import write_amounts  # Numba takes long to import

    amounts = np.empty(len(tick.outcome), AMOUNTS)
    write_amounts(tick.report, tick.previous, tick.has_previous, tick.outcome, when_generated, amounts)
    return Facts(tick.report, amounts)
