"""What an inventory holds, counted in one pass: masks and observations use most of the counters in every tick.

A stock is one integer with a counter in each of its eight bytes: doses of the four potions, pieces of the three foods,
free slots. 28 slots of four doses make at most 112, so no counter overflows into the next one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.state import INVENTORY_SIZE, NO_ITEM, Seat

#: The counters of a stock; the first four are the potion kinds of `items.POTION_DOSES`, in their order.
BREW_DOSES, RESTORE_DOSES, COMBAT_DOSES, RANGING_DOSES, SHARKS, ANGLERFISH, KARAMBWANS, FREE_SLOTS = range(8)
_COUNTER_BITS, _COUNTER_MASK = 8, 0xFF


def _weights() -> NDArray[np.int64]:
    """Returns what an item in a slot adds to a stock, by item; `NO_ITEM`, which is -1, has the last entry."""
    weights = np.zeros(len(items.ITEM_IDS) + 1, np.int64)
    for kind, potions in enumerate(items.POTION_DOSES):
        for doses, potion in enumerate(potions, start=1):
            weights[potion] = doses << (_COUNTER_BITS * kind)
    foods = ((SHARKS, items.SHARK), (ANGLERFISH, items.ANGLERFISH), (KARAMBWANS, items.KARAMBWAN))
    for counter, item in (*foods, (FREE_SLOTS, NO_ITEM)):
        weights[item] = 1 << (_COUNTER_BITS * counter)
    return weights


_WEIGHTS = _weights()


@rule
def count_inventory(seat: Seat) -> int:
    """Returns the stock of a seat's inventory."""
    stock = 0
    for slot in range(INVENTORY_SIZE):
        stock += _WEIGHTS[seat.inventory[slot]]
    return stock


@rule
def count(stock: int, counter: int) -> int:
    """Returns one counter of a stock: potion doses, pieces of food, or free slots."""
    return (stock >> (_COUNTER_BITS * counter)) & _COUNTER_MASK


@rule
def primary_food(stock: int) -> int:
    """Returns the item eaten as primary food: shark before anglerfish, `NO_ITEM` without food (nh-actions.md §5.5)."""
    if count(stock, SHARKS) > 0:
        return items.SHARK
    return items.ANGLERFISH if count(stock, ANGLERFISH) > 0 else NO_ITEM
