"""The table of rewards (rewards.md §4): events and the weights that multiply them; `amounts` has their amounts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from sb3_pvp.game import Transition
from sb3_pvp.games.osrs.rewards.facts import Facts
from sb3_pvp.games.osrs.rewards.variables import ALL_VARIABLES, Variable


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
