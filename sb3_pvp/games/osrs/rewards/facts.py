"""The events of a tick, in the terms of the reward table (rewards.md §4)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import Outcome, Transition
from sb3_pvp.games.osrs.report import Style

Array = NDArray[Any]

#: An attack of this speed, in ticks, counts once in the prayer terms; a slower one counts more, so that the reward per
#: minute does not depend on the speed of a weapon.
USUAL_ATTACK_SPEED = 5


class Facts:
    """A `Transition` with the quantities that several components share, each computed on first use.

    All are arrays ``(N,)``. Amounts are 0 where their event did not happen, whatever the record holds there.

    Args:
        tick: the transition; its records are `sb3_pvp.games.osrs.report.META_DTYPE`.
        when_generated: count damage in the tick in which it is rolled; false: when it lands.
    """

    def __init__(self, tick: Transition, when_generated: bool = True) -> None:
        self.tick = tick
        self.meta = tick.report
        self._when_generated = when_generated

    @cached_property
    def damage_dealt(self) -> Array:
        """Damage of own attacks, in health bars of the opponent."""
        damage: Array = self.meta["damage_generated_on_target_scale" if self._when_generated else "damage_dealt"]
        return damage

    @cached_property
    def damage_received(self) -> Array:
        """Damage of the opponent's attacks, in own health bars."""
        # Worlds always report `damage_received` as 0, as the original does (protocol.md §4).
        damage: Array = self.meta["damage_generated_on_player_scale" if self._when_generated else "damage_received"]
        return damage

    @cached_property
    def own_attack(self) -> Array:
        """The weight of an own attack: its speed over `USUAL_ATTACK_SPEED`; 0 without an attack."""
        return _attack(self.meta["hit_present"], self.meta["player_hit_attack_speed"])

    @cached_property
    def opponent_attack(self) -> Array:
        """The weight of an attack of the opponent, in the same way."""
        return _attack(self.meta["received_present"], self.meta["target_hit_attack_speed"])

    @cached_property
    def own_attack_with_previous(self) -> Array:
        """`own_attack`, where there is a previous tick, in which the opponent's prayer was visible."""
        return self.own_attack * self.tick.has_previous

    @cached_property
    def hit_off_prior_prayer(self) -> Array:
        """Whether the opponent did not pray against the style of the own attack one tick ago, or not at all."""
        off: Array = self.meta["attack_type_hit"] != self.tick.previous["current_target_prayer_type"]
        return off

    @cached_property
    def opponent_attack_on_prayer(self) -> Array:
        """`opponent_attack`, where some protection prayer was up and there is a previous tick."""
        prayed: Array = self.meta["player_prayer_type"] != Style.NONE.value  # else no term (rewards.md §4, row 16)
        return self.opponent_attack * (self.tick.has_previous & prayed)

    @cached_property
    def protected_prior(self) -> Array:
        """Whether the own prayer was against what the opponent wielded one tick ago."""
        protected: Array = self.meta["player_prayer_type"] == self.tick.previous["target_attack_style_type"]
        return protected

    @cached_property
    def hit_with_smite(self) -> Array:
        """Whether an own attack was made with smite up."""
        smitten: Array = self.meta["hit_present"] & self.meta["hit_with_smite"]
        return smitten

    @cached_property
    def hit_by_smite(self) -> Array:
        """Whether an attack of the opponent was made with smite up."""
        smitten: Array = self.meta["received_present"] & self.meta["target_attacked_with_smite"]
        return smitten

    @cached_property
    def wasted_food(self) -> Array:
        """Healing by food above the maximum, in own health bars."""
        wasted: Array = self.meta["wasted_food_scale"] * self.meta["wasted_food_present"]
        return wasted

    @cached_property
    def wasted_brew(self) -> Array:
        """Hitpoints above the maximum when a brew was drunk, in own health bars."""
        wasted: Array = self.meta["wasted_brew_scale"] * self.meta["wasted_brew_present"]
        return wasted

    def frozen(self, name: str) -> Array:
        """Returns the ticks by which the freeze timer ``name`` went up; 0 if it went down."""
        increase: Array = self.meta[name] - self.tick.previous[name]
        return np.maximum(increase, 0) * self.tick.has_previous

    def above_base(self, level: str) -> Array:
        """Returns how far a level is above its base, as a share of the base; negative if below."""
        above: Array = self.meta[f"{level}_level_scale"] - 1.0
        return above

    def boosted_hit(self, style: Style, level: str) -> Array:
        """Returns `above_base` where this seat attacked in this style with a boosted level, else 0."""
        hit: Array = self.meta["hit_present"] & (self.meta["attack_type_hit"] == style.value)
        return np.maximum(self.above_base(level), 0) * hit

    def ended(self, outcome: Outcome) -> Array:
        """Returns where the fight ended with this outcome."""
        # A plain integer: NumPy compares arrays with members of an `IntEnum` ten times more slowly.
        over: Array = self.tick.outcome == outcome.value
        return over


def _attack(present: Array, speed: Array) -> Array:
    count: Array = present * speed / USUAL_ATTACK_SPEED
    return count
