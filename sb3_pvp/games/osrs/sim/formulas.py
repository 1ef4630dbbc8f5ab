"""Accuracy and damage (mechanics.md §3). Levels are current levels, bonuses the sums over worn items."""

from __future__ import annotations

import numpy as np

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.prayer import (
    ATTACK_COLUMN,
    MAGIC_COLUMN,
    PROTECT_BIT,
    RANGED_COLUMN,
    RANGED_STRENGTH_COLUMN,
    STRENGTH_COLUMN,
    defence_level,
    multiplied,
)
from sb3_pvp.games.osrs.sim.rng import below, uniform
from sb3_pvp.games.osrs.sim.spells import SPELL_MAX_HIT
from sb3_pvp.games.osrs.sim.state import (
    ATTACK,
    BODY,
    HEAD,
    HITPOINTS,
    LEGS,
    MAGIC_ATTACK,
    MAGIC_DAMAGE,
    MAGIC_DEFENCE,
    MAGIC_LEVEL,
    MELEE_STRENGTH,
    RANGED_ATTACK,
    RANGED_DEFENCE,
    RANGED_LEVEL,
    RANGED_STRENGTH,
    STAB_ATTACK,
    STAB_DEFENCE,
    STRENGTH,
    WEAPON,
    Fight,
    Seat,
)

#: What a protection prayer leaves of a hit between players (mechanics.md §3.5).
PROTECTED = 0.6


@rule
def weapon_class(seat: Seat) -> int:
    """The class of the wielded weapon; bare hands are a class of their own."""
    weapon = seat.worn[WEAPON]
    return items.WEAPON_CLASS[weapon] if weapon >= 0 else items.UNARMED


@rule
def wielded_style(seat: Seat) -> int:
    """The style of the wielded weapon: MELEE, RANGED or MAGIC (contract.md §4.1, "weapon class")."""
    return int(items.CLASS_STYLE[weapon_class(seat)])


@rule
def melee_attack_roll(seat: Seat, accuracy: float) -> int:
    """E_att · (B_att + 64), with the accuracy multiplier of a special attack (mechanics.md §3.2, §3.3)."""
    kind = weapon_class(seat)
    level = multiplied(seat, seat.level[ATTACK], ATTACK_COLUMN) + items.CLASS_ACCURACY_BONUS[kind] + 8
    level = int(np.floor(level * accuracy))
    return int(level * (seat.bonus[items.CLASS_ATTACK_BONUS[kind]] + 64))


@rule
def ranged_attack_roll(seat: Seat) -> int:
    """E_rng(acc) · (B_att.range + 64)."""
    return int((multiplied(seat, seat.level[RANGED_LEVEL], RANGED_COLUMN) + 8) * (seat.bonus[RANGED_ATTACK] + 64))


@rule
def magic_attack_roll(seat: Seat, accuracy: float) -> int:
    """E_mag(att) · (B_att.magic + 64), times the accuracy factor of the spell, floored."""
    level = multiplied(seat, seat.level[MAGIC_LEVEL], MAGIC_COLUMN) + 9
    return int(np.floor(level * (seat.bonus[MAGIC_ATTACK] + 64) * accuracy))


@rule
def defence_roll(seat: Seat, bonus: int) -> int:
    """E_def · (B_def + 64) against a physical attack; ``bonus`` is the index of a defence bonus."""
    return int(defence_level(seat) * (seat.bonus[bonus] + 64))


@rule
def melee_defence_roll(seat: Seat, attacker: Seat) -> int:
    """The roll against the style type (stab, slash, crush) that the attacker's weapon uses."""
    return defence_roll(seat, items.CLASS_ATTACK_BONUS[weapon_class(attacker)] - STAB_ATTACK + STAB_DEFENCE)


@rule
def ranged_defence_roll(seat: Seat) -> int:
    """The roll against arrows, bolts and thrown weapons."""
    return defence_roll(seat, RANGED_DEFENCE)


@rule
def magic_defence_roll(seat: Seat) -> int:
    """(floor(0.7·floor(M·p)) + floor(0.3·E_def)) · (B_def.magic + 64); products in float64 (mechanics.md §3.7)."""
    magic = int(np.floor(0.7 * multiplied(seat, seat.level[MAGIC_LEVEL], MAGIC_COLUMN)))
    return int((magic + int(np.floor(0.3 * defence_level(seat)))) * (seat.bonus[MAGIC_DEFENCE] + 64))


@rule
def hit_chance(attack: int, defence: int) -> float:
    """The probability that an attack roll beats a defence roll (mechanics.md §3.3)."""
    if attack > defence:
        return 1.0 - (defence + 2) / (2.0 * (attack + 1))
    return attack / (2.0 * (defence + 1))


@rule
def is_accurate(fight: Fight, attack: int, defence: int) -> bool:
    """Draws whether a hit is accurate."""
    return hit_chance(attack, defence) > uniform(fight)


@rule
def wears_dharok(seat: Seat) -> bool:
    """All four pieces of Dharok's set (loadouts.md §6)."""
    armed = seat.worn[WEAPON] == items.DHAROKS_GREATAXE and seat.worn[HEAD] == items.DHAROKS_HELM
    clad = seat.worn[BODY] == items.DHAROKS_PLATEBODY and seat.worn[LEGS] == items.DHAROKS_PLATELEGS
    return bool(armed and clad)


@rule
def melee_max_hit(seat: Seat, strength: float) -> int:
    """The melee maximum with the strength multiplier of a special attack (mechanics.md §3.4)."""
    aggressive = 3 if items.CLASS_ACCURACY_BONUS[weapon_class(seat)] == 0 else 0
    level = multiplied(seat, seat.level[STRENGTH], STRENGTH_COLUMN) + aggressive + 8
    maximum = float((level * (seat.bonus[MELEE_STRENGTH] + 64) + 320) // 640)
    if wears_dharok(seat):
        full = seat.base[HITPOINTS]
        maximum *= 1.0 + (full - seat.level[HITPOINTS]) / 100.0 * full / 100.0
    return int(np.floor(maximum * strength))


@rule
def ranged_max_hit(seat: Seat, strength: float) -> int:
    """The ranged maximum: the quotient is not floored before the special's multiplier (mechanics.md §3.4)."""
    level = multiplied(seat, seat.level[RANGED_LEVEL], RANGED_STRENGTH_COLUMN) + 8
    return int(np.floor((level * (seat.bonus[RANGED_STRENGTH] + 64) + 320) / 640.0 * strength))


@rule
def magic_max_hit(seat: Seat, spell: int) -> int:
    """floor(spell maximum · (1 + magic damage / 100))."""
    return int(SPELL_MAX_HIT[spell] * (100 + seat.bonus[MAGIC_DAMAGE]) // 100)


@rule
def protects(seat: Seat, style: int) -> bool:
    """Whether the protection prayer against this style is on."""
    return bool(seat.prayers & PROTECT_BIT[style] != 0)


@rule
def reduced(seat: Seat, style: int, damage: int) -> int:
    """What the victim's protection prayer leaves of a hit: trunc(0.6 · damage) (mechanics.md §3.5)."""
    return int(PROTECTED * damage) if protects(seat, style) else damage


@rule
def damage_roll(fight: Fight, victim: Seat, style: int, maximum: int) -> int:
    """U{0..maximum} after the victim's protection prayer."""
    return reduced(victim, style, below(fight, maximum + 1))
