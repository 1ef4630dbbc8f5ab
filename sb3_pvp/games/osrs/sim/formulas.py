"""Accuracy and damage (mechanics.md §3). Levels are current levels, bonuses the sums over worn items."""

from __future__ import annotations

import numpy as np

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.prayer import (
    ATTACK_COLUMN,
    DEFENCE_COLUMN,
    MAGIC_COLUMN,
    PROTECT_BIT,
    RANGED_COLUMN,
    RANGED_STRENGTH_COLUMN,
    STRENGTH_COLUMN,
    multiplied,
)
from sb3_pvp.games.osrs.sim.rng import below, uniform
from sb3_pvp.games.osrs.sim.spells import SPELL_MAX_HIT
from sb3_pvp.games.osrs.sim.state import (
    ATTACK,
    BODY,
    DEFENCE,
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

# Constants of mechanics.md §3.2 to §3.5.
EFFECTIVE_LEVEL, EFFECTIVE_MAGIC_LEVEL = 8, 9  # added to every level before it counts
BONUS_OFFSET = 64  # added to every sum of item bonuses
AGGRESSIVE_STRENGTH = 3  # levels that the aggressive attack option adds to strength
DAMAGE_DIVISOR, DAMAGE_ROUNDING = 640, 320  # half the divisor rounds the quotient to the nearest integer
MAGIC_SHARE, DEFENCE_SHARE = 0.7, 0.3  # of the magic level and of E_def in magic defence
PROTECTED = 0.6  # what a protection prayer leaves of a hit between players


@rule
def weapon_class(seat: Seat) -> int:
    """Returns the class of the wielded weapon; bare hands are a separate class."""
    weapon = seat.worn[WEAPON]
    return items.WEAPON_CLASS[weapon] if weapon >= 0 else items.UNARMED


@rule
def wielded_style(seat: Seat) -> int:
    """Returns the style of the wielded weapon: MELEE, RANGED or MAGIC (contract.md §4.1, "weapon class")."""
    return int(items.CLASS_STYLE[weapon_class(seat)])


@rule
def melee_attack_roll(seat: Seat, accuracy: float) -> int:
    """Returns E_att · (B_att + 64), with the accuracy multiplier of a special attack (mechanics.md §3.2, §3.3)."""
    kind = weapon_class(seat)
    level = multiplied(seat, seat.level[ATTACK], ATTACK_COLUMN) + items.CLASS_ACCURACY_BONUS[kind]
    level = int(np.floor((level + EFFECTIVE_LEVEL) * accuracy))
    return int(level * (seat.bonus[items.CLASS_ATTACK_BONUS[kind]] + BONUS_OFFSET))


@rule
def ranged_attack_roll(seat: Seat) -> int:
    """Returns E_rng(acc) · (B_att.range + 64); no special attack changes it (mechanics.md §3.3)."""
    level = multiplied(seat, seat.level[RANGED_LEVEL], RANGED_COLUMN) + EFFECTIVE_LEVEL
    return int(level * (seat.bonus[RANGED_ATTACK] + BONUS_OFFSET))


@rule
def magic_attack_roll(seat: Seat, accuracy: float) -> int:
    """Returns floor(E_mag(att) · (B_att.magic + 64) · accuracy factor of the spell) (mechanics.md §3.3)."""
    level = multiplied(seat, seat.level[MAGIC_LEVEL], MAGIC_COLUMN) + EFFECTIVE_MAGIC_LEVEL
    return int(np.floor(level * (seat.bonus[MAGIC_ATTACK] + BONUS_OFFSET) * accuracy))


@rule
def defence_level(seat: Seat) -> int:
    """Returns E_def, the effective defence level with the default fight styles (mechanics.md §3.2)."""
    return multiplied(seat, seat.level[DEFENCE], DEFENCE_COLUMN) + EFFECTIVE_LEVEL


@rule
def defence_roll(seat: Seat, bonus: int) -> int:
    """Returns E_def · (B_def + 64) against a physical attack; ``bonus`` is the index of a defence bonus."""
    return int(defence_level(seat) * (seat.bonus[bonus] + BONUS_OFFSET))


@rule
def melee_defence_roll(seat: Seat, attacker: Seat) -> int:
    """Returns the roll against the style type (stab, slash, crush) of the attacker's weapon."""
    # Attack and defence bonuses of the style types have the same order, so one offset leads from one to the other.
    return defence_roll(seat, items.CLASS_ATTACK_BONUS[weapon_class(attacker)] - STAB_ATTACK + STAB_DEFENCE)


@rule
def ranged_defence_roll(seat: Seat) -> int:
    """Returns the roll against arrows, bolts and thrown weapons."""
    return defence_roll(seat, RANGED_DEFENCE)


@rule
def magic_defence_roll(seat: Seat) -> int:
    """Returns (floor(0.7·floor(M·p)) + floor(0.3·E_def)) · (B_def.magic + 64); float64 products (mechanics.md §3.7)."""
    magic = int(np.floor(MAGIC_SHARE * multiplied(seat, seat.level[MAGIC_LEVEL], MAGIC_COLUMN)))
    level = magic + int(np.floor(DEFENCE_SHARE * defence_level(seat)))
    return int(level * (seat.bonus[MAGIC_DEFENCE] + BONUS_OFFSET))


@rule
def hit_chance(attack: int, defence: int) -> float:
    """Returns the probability that an attack roll beats a defence roll (mechanics.md §3.3)."""
    if attack > defence:
        return 1.0 - (defence + 2) / (2.0 * (attack + 1))
    return attack / (2.0 * (defence + 1))


@rule
def is_accurate(fight: Fight, attack: int, defence: int) -> bool:
    """Draws whether a hit is accurate."""
    return hit_chance(attack, defence) > uniform(fight)


@rule
def wears_dharok(seat: Seat) -> bool:
    """Whether all four pieces of Dharok's set are worn (loadouts.md §6)."""
    armed = seat.worn[WEAPON] == items.DHAROKS_GREATAXE and seat.worn[HEAD] == items.DHAROKS_HELM
    clad = seat.worn[BODY] == items.DHAROKS_PLATEBODY and seat.worn[LEGS] == items.DHAROKS_PLATELEGS
    return bool(armed and clad)


@rule
def melee_max_hit(seat: Seat, strength: float) -> int:
    """Returns the melee maximum with the strength multiplier of a special attack (mechanics.md §3.4)."""
    # The default option of a weapon is either accurate or aggressive (mechanics.md §4.3).
    aggressive = AGGRESSIVE_STRENGTH if items.CLASS_ACCURACY_BONUS[weapon_class(seat)] == 0 else 0
    level = multiplied(seat, seat.level[STRENGTH], STRENGTH_COLUMN) + aggressive + EFFECTIVE_LEVEL
    maximum = float((level * (seat.bonus[MELEE_STRENGTH] + BONUS_OFFSET) + DAMAGE_ROUNDING) // DAMAGE_DIVISOR)
    if wears_dharok(seat):  # at 100 hitpoints: one percent more for each that is lost
        full = seat.base[HITPOINTS]
        maximum *= 1.0 + (full - seat.level[HITPOINTS]) / 100.0 * full / 100.0
    return int(np.floor(maximum * strength))


@rule
def ranged_max_hit(seat: Seat, strength: float) -> int:
    """Returns the ranged maximum; the quotient is not floored before the special's multiplier (mechanics.md §3.4)."""
    level = multiplied(seat, seat.level[RANGED_LEVEL], RANGED_STRENGTH_COLUMN) + EFFECTIVE_LEVEL
    product = level * (seat.bonus[RANGED_STRENGTH] + BONUS_OFFSET) + DAMAGE_ROUNDING
    return int(np.floor(product / DAMAGE_DIVISOR * strength))


@rule
def magic_max_hit(seat: Seat, spell: int) -> int:
    """Returns floor(spell maximum · (1 + magic damage / 100)); the bonus is in percent (mechanics.md §3.4)."""
    return int(SPELL_MAX_HIT[spell] * (100 + seat.bonus[MAGIC_DAMAGE]) // 100)


@rule
def protects(seat: Seat, style: int) -> bool:
    """Whether the protection prayer against this style is on."""
    return bool(seat.prayers & PROTECT_BIT[style] != 0)


@rule
def reduced(seat: Seat, style: int, damage: int) -> int:
    """Returns what the victim's protection prayer leaves of a hit, trunc(0.6 · damage) (mechanics.md §3.5)."""
    return int(PROTECTED * damage) if protects(seat, style) else damage


@rule
def damage_roll(fight: Fight, victim: Seat, style: int, maximum: int) -> int:
    """Draws from U{0..maximum} and applies the victim's protection prayer (mechanics.md §3.5)."""
    return reduced(victim, style, below(fight, maximum + 1))
