"""What happened in one tick, as the reward table of rewards.md §4 asks for it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import Outcome, Transition
from sb3_pvp.games.osrs.report import Style

Array = NDArray[Any]

#: An attack of this speed, in ticks, counts once in the prayer terms; a slower one more, so that what a weapon earns
#: in a minute does not depend on its speed.
USUAL_ATTACK_SPEED = 5


class Facts:
    """A `Transition` with the quantities that several components share, each computed when one asks for it.

    Amounts are zero where their event did not happen, whatever the record holds there.

    Args:
        tick: what happened; its records are `sb3_pvp.games.osrs.report.META_DTYPE`.
        when_generated: whether damage counts in the tick in which it is rolled, or when it lands.
    """

    def __init__(self, tick: Transition, when_generated: bool = True) -> None:
        self.tick = tick
        self.meta = tick.report
        self._when_generated = when_generated

    @cached_property
    def damage_dealt(self) -> Array:
        """Damage of the own attacks, in health bars of the opponent."""
        damage: Array = self.meta["damage_generated_on_target_scale" if self._when_generated else "damage_dealt"]
        return damage

    @cached_property
    def damage_received(self) -> Array:
        """Damage of the opponent's attacks, in own health bars."""
        damage: Array = self.meta["damage_generated_on_player_scale" if self._when_generated else "damage_received"]
        return damage

    @cached_property
    def own_attack(self) -> Array:
        """How much an own attack of this tick counts: its speed over `USUAL_ATTACK_SPEED`; 0 without one."""
        return _attack(self.meta["hit_present"], self.meta["player_hit_attack_speed"])

    @cached_property
    def foreign_attack(self) -> Array:
        """How much an attack of the opponent counts."""
        return _attack(self.meta["received_present"], self.meta["target_hit_attack_speed"])

    @cached_property
    def own_attack_after_a_tick(self) -> Array:
        """`own_attack`, where there is a tick before: the opponent's prayer in it could be seen."""
        return self.own_attack * self.tick.has_previous

    @cached_property
    def hit_off_prior_prayer(self) -> Array:
        """The style of the own attack is not what the opponent prayed against one tick ago; no prayer is not either."""
        off: Array = self.meta["attack_type_hit"] != self.tick.previous["current_target_prayer_type"]
        return off

    @cached_property
    def foreign_attack_on_prayer(self) -> Array:
        """`foreign_attack`, where some prayer was up against it and there is a tick before."""
        prayed: Array = self.meta["player_prayer_type"] != Style.NONE.value
        return self.foreign_attack * (self.tick.has_previous & prayed)

    @cached_property
    def protected_prior(self) -> Array:
        """The own prayer was against what the opponent wielded one tick ago."""
        protected: Array = self.meta["player_prayer_type"] == self.tick.previous["target_attack_style_type"]
        return protected

    @cached_property
    def hit_with_smite(self) -> Array:
        """An own attack was made with smite up."""
        smitten: Array = self.meta["hit_present"] & self.meta["hit_with_smite"]
        return smitten

    @cached_property
    def hit_by_smite(self) -> Array:
        """An attack of the opponent was."""
        smitten: Array = self.meta["received_present"] & self.meta["target_attacked_with_smite"]
        return smitten

    @cached_property
    def wasted_food(self) -> Array:
        """What eating healed too much, in own health bars."""
        wasted: Array = self.meta["wasted_food_scale"] * self.meta["wasted_food_present"]
        return wasted

    @cached_property
    def wasted_brew(self) -> Array:
        """What brews healed too much."""
        wasted: Array = self.meta["wasted_brew_scale"] * self.meta["wasted_brew_present"]
        return wasted

    def frozen(self, name: str) -> Array:
        """By how many ticks the freeze timer ``name`` went up; 0 if it went down."""
        increase: Array = self.meta[name] - self.tick.previous[name]
        return np.maximum(increase, 0) * self.tick.has_previous

    def above_base(self, level: str) -> Array:
        """How far the level is above its base, as a share of the base; negative below."""
        above: Array = self.meta[f"{level}_level_scale"] - 1.0
        return above

    def boosted_hit(self, style: Style, level: str) -> Array:
        """`above_base` where this seat attacked in this style with a boosted level; 0 elsewhere."""
        hit: Array = self.meta["hit_present"] & (self.meta["attack_type_hit"] == style.value)
        return np.maximum(self.above_base(level), 0) * hit

    def ended(self, outcome: Outcome) -> Array:
        """Where the fight ended so."""
        # A plain integer: NumPy compares arrays with members of an `IntEnum` ten times more slowly.
        over: Array = self.tick.outcome == outcome.value
        return over


def _attack(present: Array, speed: Array) -> Array:
    count: Array = present * speed / USUAL_ATTACK_SPEED
    return count
