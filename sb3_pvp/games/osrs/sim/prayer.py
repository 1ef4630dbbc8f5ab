"""Prayers: what they multiply, exclude, cost and do (mechanics.md §3.1, §5 and §9, nh-actions.md §5.2 and §5.3)."""

from __future__ import annotations

import numpy as np

from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.damage import heal
from sb3_pvp.games.osrs.sim.state import (
    HITPOINTS,
    MAGIC,
    MELEE,
    NO_STYLE,
    NUM_BUILDS,
    PRAYER,
    PRAYER_BONUS,
    RANGED,
    Seat,
)

THICK_SKIN, ROCK_SKIN, STEEL_SKIN = range(3)
BURST_OF_STRENGTH, SUPERHUMAN_STRENGTH, ULTIMATE_STRENGTH = range(3, 6)
CLARITY_OF_THOUGHT, IMPROVED_REFLEXES, INCREDIBLE_REFLEXES = range(6, 9)
SHARP_EYE, HAWK_EYE, EAGLE_EYE = range(9, 12)
MYSTIC_WILL, MYSTIC_LORE, MYSTIC_MIGHT = range(12, 15)
RETRIBUTION, REDEMPTION, SMITE = range(15, 18)
PROTECT_FROM_MAGIC, PROTECT_FROM_MISSILES, PROTECT_FROM_MELEE = range(18, 21)
CHIVALRY, PIETY, RIGOUR, AUGURY = range(21, 25)
NUM_PRAYERS = 25

# What a prayer can multiply: the columns of the table of mechanics.md §3.1.
ATTACK_COLUMN, STRENGTH_COLUMN, DEFENCE_COLUMN, RANGED_COLUMN, RANGED_STRENGTH_COLUMN, MAGIC_COLUMN = range(6)
NUM_COLUMNS = 6

TICKS_PER_MINUTE = 100.0  # of 0.6 s
DRAIN_RESISTANCE = 0.0333  # per point of prayer bonus (mechanics.md §9)
SMITE_DIVISOR = 4  # smite takes a quarter of the damage in prayer points
# Redemption heals a quarter of the base prayer level when a hit would leave at most a tenth of the hitpoints.
REDEMPTION_THRESHOLD_DIVISOR, REDEMPTION_HEAL_DIVISOR = 10, 4

#: prayer: (level, drain per minute, {column: multiplier})
_PRAYERS: dict[int, tuple[int, float, dict[int, float]]] = {
    THICK_SKIN: (1, 5, {DEFENCE_COLUMN: 1.05}),
    ROCK_SKIN: (10, 10, {DEFENCE_COLUMN: 1.10}),
    STEEL_SKIN: (28, 20, {DEFENCE_COLUMN: 1.15}),
    BURST_OF_STRENGTH: (4, 5, {STRENGTH_COLUMN: 1.05}),
    SUPERHUMAN_STRENGTH: (13, 10, {STRENGTH_COLUMN: 1.10}),
    ULTIMATE_STRENGTH: (31, 20, {STRENGTH_COLUMN: 1.15}),
    CLARITY_OF_THOUGHT: (7, 5, {ATTACK_COLUMN: 1.05}),
    IMPROVED_REFLEXES: (16, 10, {ATTACK_COLUMN: 1.10}),
    INCREDIBLE_REFLEXES: (34, 20, {ATTACK_COLUMN: 1.15}),
    SHARP_EYE: (8, 5, {RANGED_COLUMN: 1.05, RANGED_STRENGTH_COLUMN: 1.05}),
    HAWK_EYE: (26, 10, {RANGED_COLUMN: 1.10, RANGED_STRENGTH_COLUMN: 1.10}),
    EAGLE_EYE: (44, 20, {RANGED_COLUMN: 1.15, RANGED_STRENGTH_COLUMN: 1.15}),
    MYSTIC_WILL: (9, 5, {MAGIC_COLUMN: 1.05}),
    MYSTIC_LORE: (27, 10, {MAGIC_COLUMN: 1.10}),
    MYSTIC_MIGHT: (45, 20, {MAGIC_COLUMN: 1.15}),
    RETRIBUTION: (46, 5, {}),
    REDEMPTION: (49, 10, {}),
    SMITE: (52, 30, {}),
    PROTECT_FROM_MAGIC: (37, 20, {}),
    PROTECT_FROM_MISSILES: (40, 20, {}),
    PROTECT_FROM_MELEE: (43, 20, {}),
    CHIVALRY: (60, 40, {ATTACK_COLUMN: 1.15, STRENGTH_COLUMN: 1.18, DEFENCE_COLUMN: 1.20}),
    PIETY: (70, 40, {ATTACK_COLUMN: 1.20, STRENGTH_COLUMN: 1.23, DEFENCE_COLUMN: 1.25}),
    RIGOUR: (74, 40, {RANGED_COLUMN: 1.20, RANGED_STRENGTH_COLUMN: 1.23, DEFENCE_COLUMN: 1.25}),
    AUGURY: (77, 40, {MAGIC_COLUMN: 1.25, DEFENCE_COLUMN: 1.25}),
}

# Mutual exclusion (mechanics.md §9). A combined prayer multiplies several columns and excludes all other stat prayers.
_COMBINED = {CHIVALRY, PIETY, RIGOUR, AUGURY}
_DEFENCE_GROUP = {THICK_SKIN, ROCK_SKIN, STEEL_SKIN} | _COMBINED
_STRENGTH_GROUP = {BURST_OF_STRENGTH, SUPERHUMAN_STRENGTH, ULTIMATE_STRENGTH, CHIVALRY, PIETY}
_ATTACK_GROUP = {CLARITY_OF_THOUGHT, IMPROVED_REFLEXES, INCREDIBLE_REFLEXES, CHIVALRY, PIETY}
_RANGED_GROUP = {SHARP_EYE, HAWK_EYE, EAGLE_EYE, RIGOUR}
_MAGIC_GROUP = {MYSTIC_WILL, MYSTIC_LORE, MYSTIC_MIGHT, AUGURY}
_RANGED_OR_MAGIC = _RANGED_GROUP | _MAGIC_GROUP
_MELEE = _STRENGTH_GROUP | _ATTACK_GROUP
_OVERHEADS = {RETRIBUTION, REDEMPTION, SMITE, PROTECT_FROM_MAGIC, PROTECT_FROM_MISSILES, PROTECT_FROM_MELEE}


def _excluded_by(prayer: int) -> set[int]:
    if prayer in _OVERHEADS:
        return _OVERHEADS
    if prayer in _COMBINED:
        return _DEFENCE_GROUP | _MELEE | _RANGED_OR_MAGIC
    if prayer in _DEFENCE_GROUP:
        return _DEFENCE_GROUP
    if prayer in _STRENGTH_GROUP:
        return _STRENGTH_GROUP | _RANGED_OR_MAGIC
    if prayer in _ATTACK_GROUP:
        return _ATTACK_GROUP | _RANGED_OR_MAGIC
    return _MELEE | _RANGED_OR_MAGIC


def _bits(prayers: set[int]) -> int:
    return sum(1 << prayer for prayer in prayers)


LEVEL_REQUIRED = np.array([_PRAYERS[p][0] for p in range(NUM_PRAYERS)], dtype=np.int64)
DRAIN_PER_MINUTE = np.array([_PRAYERS[p][1] for p in range(NUM_PRAYERS)], dtype=np.float64)
# Bit sets, indexed by prayer: what switching it on switches off.
EXCLUDES = np.array([_bits(_excluded_by(p) - {p}) for p in range(NUM_PRAYERS)], dtype=np.int64)
# float32, as on the server: some products floor to another level in float64 (mechanics.md §3.7).
MULTIPLIER = np.array(
    [[_PRAYERS[p][2].get(c, 1.0) for p in range(NUM_PRAYERS)] for c in range(NUM_COLUMNS)], dtype=np.float32
)
_COLUMN_BITS = np.array(
    [_bits({p for p in range(NUM_PRAYERS) if c in _PRAYERS[p][2]}) for c in range(NUM_COLUMNS)], dtype=np.int64
)

SMITE_BIT = 1 << SMITE
REDEMPTION_BIT = 1 << REDEMPTION
#: The protection prayer against each style, as a bit of ``seat.prayers``.
PROTECT_BIT = np.array([1 << PROTECT_FROM_MELEE, 1 << PROTECT_FROM_MISSILES, 1 << PROTECT_FROM_MAGIC], dtype=np.int64)

_LOW: dict[int, tuple[int, ...]] = {
    RANGED: (EAGLE_EYE, STEEL_SKIN),
    MAGIC: (MYSTIC_MIGHT, STEEL_SKIN),
    MELEE: (INCREDIBLE_REFLEXES, ULTIMATE_STRENGTH, STEEL_SKIN),
}
_HIGH: dict[int, tuple[int, ...]] = {RANGED: (RIGOUR,), MAGIC: (AUGURY,), MELEE: (PIETY,)}
#: The stat prayers of each build (state.py order) and style, -1 padded (loadouts.md §1).
STYLE_PRAYERS = np.full((NUM_BUILDS, 3, 3), -1, dtype=np.int64)
for _build, _prayers in enumerate((_LOW, _LOW, _HIGH, _HIGH, _LOW, _LOW, _HIGH)):
    for _style, _names in _prayers.items():
        STYLE_PRAYERS[_build, _style, : len(_names)] = _names


@rule
def multiplied(seat: Seat, level: int, column: int) -> int:
    """Returns a level multiplied by the active prayer of a column: floor(float32 product) (mechanics.md §3.1)."""
    active = seat.prayers & _COLUMN_BITS[column]
    if active == 0:
        return level
    for prayer in range(NUM_PRAYERS):
        if (active >> prayer) & 1:
            return int(np.floor(np.float32(level) * MULTIPLIER[column, prayer]))
    return level


@rule
def protection(seat: Seat) -> int:
    """Returns the style that is prayed against, the first of magic, ranged, melee, or NO_STYLE (contract.md §4.2)."""
    for style in (MAGIC, RANGED, MELEE):
        if seat.prayers & PROTECT_BIT[style]:
            return style
    return NO_STYLE


@rule
def activate(seat: Seat, prayer: int) -> None:
    """Switches a prayer on, and off what it excludes; nothing without points or level (mechanics.md §9)."""
    if seat.prayers & (1 << prayer) or seat.level[PRAYER] <= 0 or seat.base[PRAYER] < LEVEL_REQUIRED[prayer]:
        return
    seat.prayers = (seat.prayers & ~EXCLUDES[prayer]) | (1 << prayer)
    seat.prayer_drain_running = 1


@rule
def activate_style(seat: Seat, style: int) -> None:
    """Switches on the build's stat prayers for a style (loadouts.md §1)."""
    for k in range(STYLE_PRAYERS.shape[2]):
        prayer = STYLE_PRAYERS[seat.build, style, k]
        if prayer >= 0:
            activate(seat, prayer)


@rule
def drain(seat: Seat) -> None:
    """Takes prayer points for the prayers that are on; a task of every tick (mechanics.md §9)."""
    if not seat.prayer_drain_running:
        return
    if seat.prayers == 0:
        seat.prayer_drain_running = 0
        seat.prayer_drain = 0.0
        return
    rate = 0.0
    for prayer in range(NUM_PRAYERS):
        if (seat.prayers >> prayer) & 1:
            rate += DRAIN_PER_MINUTE[prayer] / TICKS_PER_MINUTE
    seat.prayer_drain += rate / (1.0 + DRAIN_RESISTANCE * seat.bonus[PRAYER_BONUS])
    points = int(seat.prayer_drain)
    if points < 1:
        return
    seat.prayer_drain -= points
    seat.level[PRAYER] = max(seat.level[PRAYER] - points, 0)
    # The only place where lack of points ends prayers: after smite took the last one they stay on until here.
    if seat.level[PRAYER] == 0:
        seat.prayers = 0
        seat.prayer_drain_running = 0
        seat.prayer_drain = 0.0


@rule
def drain_by_smite(victim: Seat, total: int) -> None:
    """Takes prayer points for an accurate hit of ``total`` by an attacker with smite on (mechanics.md §5)."""
    victim.level[PRAYER] = max(victim.level[PRAYER] - total // SMITE_DIVISOR, 0)


@rule
def redeem(victim: Seat, total: int) -> None:
    """Redemption: heals before a hit that would leave few hitpoints, for all prayer points (mechanics.md §5)."""
    left = victim.level[HITPOINTS] - total
    low = 0 < left <= victim.base[HITPOINTS] // REDEMPTION_THRESHOLD_DIVISOR
    if victim.prayers & REDEMPTION_BIT and low:
        heal(victim, victim.base[PRAYER] // REDEMPTION_HEAL_DIVISOR)
        victim.level[PRAYER] = 0
        victim.prayers = 0
