"""The formulas of the embedded world for one pair of seats, compiled once for the tests."""

from __future__ import annotations

from typing import Any, NamedTuple

from sb3_pvp.games.osrs.sim import formulas, prayer
from sb3_pvp.games.osrs.sim.compile import callable_rule, rule


class Rolls(NamedTuple):
    """Attack rolls and maximum hits of the first seat, defence rolls of the second."""

    melee_attack: int
    melee_defence: int
    melee_max: int
    ranged_attack: int
    ranged_defence: int
    ranged_max: int
    magic_attack: int
    magic_defence: int
    magic_max: int
    defence_level: int


@callable_rule
@rule
def _rolls(seats: Any, accuracy: float, strength: float, spell: int) -> Rolls:
    me, foe = seats[0], seats[1]
    return Rolls(
        formulas.melee_attack_roll(me, accuracy),
        formulas.melee_defence_roll(foe, me),
        formulas.melee_max_hit(me, strength),
        formulas.ranged_attack_roll(me),
        formulas.ranged_defence_roll(foe),
        formulas.ranged_max_hit(me, strength),
        formulas.magic_attack_roll(me, 1.0),
        formulas.magic_defence_roll(foe),
        formulas.magic_max_hit(me, spell),
        formulas.defence_level(foe),
    )


@callable_rule
@rule
def _multiplied(seats: Any, level: int, column: int) -> int:
    return prayer.multiplied(seats[0], level, column)


def rolls(seats: Any, accuracy: float = 1.0, strength: float = 1.0, spell: int = 1) -> Rolls:
    """The rolls of seat 0 against seat 1 of one fight, ``seats`` ``(2,)``."""
    return _rolls(seats, accuracy, strength, spell)


def multiplied(seats: Any, level: int, column: int) -> int:
    """A level under the prayers of seat 0."""
    return int(_multiplied(seats, level, column))


hit_chance = callable_rule(formulas.hit_chance)
