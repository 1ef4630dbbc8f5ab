"""The only loadout of the game (``data/dharok.json``; loadouts.md §6): no builds, nothing random."""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.items import DATA, SLOT, TWO_HANDED, item_named
from sb3_pvp.games.osrs.sim.loadouts import give_food_for_potions
from sb3_pvp.games.osrs.sim.state import INVENTORY_SIZE, NO_ITEM, NUM_SKILLS, NUM_SLOTS, Seat

#: The only build; the NH game has seven.
BUILD_NAMES = ("DHAROK",)
# The gear sets of this game: the one at the start, and what each attack equips.
FULL_SET, WHIP_SET, AXE_SET, MAUL_SET = range(4)

_data = json.loads((DATA / "dharok.json").read_text(encoding="utf-8"))
_LEVEL = int(_data["level"])


def _items(names: list[str]) -> NDArray[np.int64]:
    return np.array([item_named(name) for name in names], np.int64)


#: The gear sets, one after the other, in equip order; set ``s`` is ``_GEAR[_STARTS[s]:_STARTS[s + 1]]``.
_SETS = [_items(_data[name]) for name in ("worn", "whip", "axe", "maul")]
_GEAR = np.concatenate(_SETS)
_STARTS = np.cumsum([0, *map(len, _SETS)])
#: (28,): item indices, slot by slot; a stack of runes is one item.
_INVENTORY = _items([name for name, count in _data["inventory"].items() for _ in range(count)])


@rule
def load(seat: Seat, baseline_bot: bool) -> None:
    """Fills in levels, gear sets, what is worn and the inventory of a seat whose record is all zeros.

    A baseline bot gets anglerfish for its brews and for all but two restores, in the same inventory slots.
    """
    seat.lunar = 1
    for skill in range(NUM_SKILLS):
        seat.base[skill] = seat.level[skill] = _LEVEL
    for gear_set in range(_STARTS.size - 1):
        _give_set(seat, gear_set)
    for slot in range(NUM_SLOTS):
        seat.worn[slot] = NO_ITEM
    for k in range(seat.set_length[FULL_SET]):
        item = seat.gear_set[FULL_SET, k]
        seat.worn[SLOT[item]] = item
    for slot in range(INVENTORY_SIZE):
        seat.inventory[slot] = _INVENTORY[slot]
    if baseline_bot:
        give_food_for_potions(seat)


@rule
def _give_set(seat: Seat, gear_set: int) -> None:
    start = _STARTS[gear_set]
    seat.set_length[gear_set] = _STARTS[gear_set + 1] - start
    for k in range(seat.set_length[gear_set]):
        item = _GEAR[start + k]
        seat.gear_set[gear_set, k] = item
        seat.set_two_handed[gear_set] |= TWO_HANDED[item]
