"""Special attacks as data: what they cost and what they multiply (mechanics.md §6, nh-actions.md §6.5).

How their hits are rolled is in `attack`, what they do on landing in `hits`.
"""

from __future__ import annotations

import numpy as np

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.state import WEAPON, Seat

# Kinds of special attack: how its hits are rolled.
NO_SPECIAL, SINGLE_HIT, DOUBLE_HIT, CLAWS, ANCIENT_MARK, GRANITE_MAUL, VESTA, STATIUS = range(8)
CROSSBOW, BALLISTA, JAVELIN, KNIFE, DARK_BOW, NIGHTMARE_STAFF = range(8, 14)

#: weapon: (kind, energy, accuracy multiplier, strength multiplier). The server ignores the accuracy multipliers of
#: ranged and magic weapons, so these have 1.0 whatever the weapon promises (mechanics.md §6).
_SPECIALS: dict[int, tuple[int, int, float, float]] = {
    items.DRAGON_DAGGER: (DOUBLE_HIT, 25, 1.20, 1.15),
    items.DRAGON_DAGGER_POISONED: (DOUBLE_HIT, 25, 1.20, 1.15),
    items.DRAGON_CLAWS: (CLAWS, 50, 1.35, 1.0),
    items.ARMADYL_GODSWORD: (SINGLE_HIT, 50, 2.0, 1.375),
    items.ANCIENT_GODSWORD: (ANCIENT_MARK, 50, 2.0, 1.1),
    items.GRANITE_MAUL: (GRANITE_MAUL, 50, 1.0, 1.0),
    items.VESTAS_LONGSWORD: (VESTA, 25, 1.0, 1.0),
    items.STATIUS_WARHAMMER: (STATIUS, 35, 1.0, 1.0),
    items.ZARYTE_CROSSBOW: (CROSSBOW, 75, 1.0, 1.0),
    items.ARMADYL_CROSSBOW: (CROSSBOW, 50, 1.0, 1.0),
    items.HEAVY_BALLISTA: (BALLISTA, 65, 1.0, 1.25),
    items.LIGHT_BALLISTA: (BALLISTA, 65, 1.0, 1.25),
    items.MORRIGANS_JAVELIN: (JAVELIN, 50, 1.0, 1.0),
    items.DRAGON_KNIFE: (KNIFE, 25, 1.0, 1.0),
    items.DARK_BOW: (DARK_BOW, 55, 1.0, 1.5),
    items.VOLATILE_NIGHTMARE_STAFF: (NIGHTMARE_STAFF, 55, 1.0, 1.0),
}
_MELEE_SPECIALS = {SINGLE_HIT, DOUBLE_HIT, CLAWS, ANCIENT_MARK, GRANITE_MAUL, VESTA, STATIUS}

_NUM_ITEMS = len(items.ITEM_IDS)


def _column(position: int, dtype: type) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    default = (NO_SPECIAL, 0, 1.0, 1.0)
    return np.array([_SPECIALS.get(i, default)[position] for i in range(_NUM_ITEMS)], dtype=dtype)


#: Indexed by item. Cost in percent points of special energy; 0 for items without a special attack.
SPECIAL_KIND = _column(0, np.int64)
SPECIAL_COST = _column(1, np.int64)
SPECIAL_ACCURACY = _column(2, np.float64)
SPECIAL_STRENGTH = _column(3, np.float64)
#: 1 for the melee weapons that contract.md §4.1 calls MELEE-SPEC-IDS.
IS_MELEE_SPECIAL = np.array(
    [int(_SPECIALS.get(i, (NO_SPECIAL,))[0] in _MELEE_SPECIALS) for i in range(_NUM_ITEMS)], dtype=np.int64
)
#: The dark bow's special is one tick slower than its attack (mechanics.md §4.3).
DARK_BOW_EXTRA_TICKS = 1
#: Special energy is a percentage; +10 every 50 ticks (mechanics.md §11.2).
FULL_ENERGY = 100
ENERGY_PERIOD, ENERGY_STEP = 50, 10
MAUL_COST = _SPECIALS[items.GRANITE_MAUL][1]


@rule
def wielded_special(seat: Seat) -> int:
    """Returns the kind of special attack of the wielded weapon, NO_SPECIAL if it has none."""
    weapon = seat.worn[WEAPON]
    return SPECIAL_KIND[weapon] if weapon >= 0 else NO_SPECIAL


@rule
def press(seat: Seat) -> None:
    """Presses the special-attack button: flips the flag; a granite maul also queues a hit (mechanics.md §6.3)."""
    if wielded_special(seat) == GRANITE_MAUL and seat.energy >= MAUL_COST * (seat.maul_queue + 1):
        seat.maul_queue += 1
    seat.special_on = 1 - seat.special_on


@rule
def spend(seat: Seat, energy: int) -> None:
    """Takes special energy and starts its regeneration unless it runs already (mechanics.md §11.2)."""
    seat.energy -= energy
    if seat.energy_countdown == 0:
        seat.energy_countdown = ENERGY_PERIOD


@rule
def regenerate(seat: Seat) -> None:
    """Gives back special energy, in periods that count from the first spend (mechanics.md §11.2)."""
    if seat.energy_countdown == 0:
        return
    seat.energy_countdown -= 1
    if seat.energy_countdown > 0:
        return
    seat.energy = min(seat.energy + ENERGY_STEP, FULL_ENERGY)
    if seat.energy < FULL_ENERGY:
        seat.energy_countdown = ENERGY_PERIOD
