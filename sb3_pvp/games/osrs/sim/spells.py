"""Ice and blood spells of the ancient book (mechanics.md §8)."""

from __future__ import annotations

import numpy as np

from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.state import MAGIC_LEVEL, Seat

# Each family from its weakest to its strongest spell; `strongest` counts on this order.
ICE_RUSH, ICE_BURST, ICE_BLITZ, ICE_BARRAGE, BLOOD_RUSH, BLOOD_BURST, BLOOD_BLITZ, BLOOD_BARRAGE = range(1, 9)
_BARRAGE_ABOVE_RUSH = ICE_BARRAGE - ICE_RUSH

#: Indexed by spell number; entry 0 is "no spell".
SPELL_LEVEL = np.array([0, 58, 70, 82, 94, 56, 68, 80, 92], dtype=np.int64)
SPELL_MAX_HIT = np.array([0, 18, 22, 26, 30, 15, 21, 25, 29], dtype=np.int64)
FREEZE_TICKS = np.array([0, 8, 16, 24, 32, 0, 0, 0, 0], dtype=np.int64)
HEAL_FRACTION = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.10, 0.15, 0.20, 0.25], dtype=np.float64)

#: Ticks between casts, and how far a spell reaches in tiles (mechanics.md §4.3).
SPELL_PERIOD = 5
SPELL_REACH = 10
#: Zuriel's staff: ice accuracy and blood healing (mechanics.md §8).
ZURIEL_ICE_ACCURACY = 1.1
ZURIEL_BLOOD_HEAL = 1.5


@rule
def is_ice(spell: int) -> bool:
    """Whether the spell freezes."""
    return ICE_RUSH <= spell <= ICE_BARRAGE


@rule
def strongest(seat: Seat, barrage: int) -> int:
    """Returns the best spell of the family of ``barrage`` for the current magic level (nh-actions.md §5.9)."""
    rush = barrage - _BARRAGE_ABOVE_RUSH
    for spell in range(barrage, rush, -1):
        if seat.level[MAGIC_LEVEL] >= SPELL_LEVEL[spell]:
            return spell
    return rush  # also below its level: the cast then fails
