"""The packed counters of an inventory."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numba
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sb3_pvp.games.osrs.sim import items, stock
from sb3_pvp.games.osrs.sim.state import INVENTORY_SIZE, NO_ITEM, SEAT


@numba.njit
def counters(seats: Any) -> Any:
    bag = stock.count_inventory(seats[0])
    return [stock.count(bag, counter) for counter in range(8)], stock.primary_food(bag)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(NO_ITEM, items.NUM_ITEMS - 1), min_size=INVENTORY_SIZE, max_size=INVENTORY_SIZE))
def test_stock_counts_like_a_counter(inventory: list[int]) -> None:
    seats = np.zeros(1, SEAT)
    seats["inventory"][0] = inventory
    held = Counter(inventory)
    doses = [sum(held[potion] * (k + 1) for k, potion in enumerate(kind)) for kind in items.POTION_DOSES.tolist()]
    pieces = [held[item] for item in (items.SHARK, items.ANGLERFISH, items.KARAMBWAN, NO_ITEM)]
    counted, food = counters(seats)
    assert counted == doses + pieces
    assert food == next((item for item in (items.SHARK, items.ANGLERFISH) if held[item]), NO_ITEM)


def test_full_bags_do_not_overflow() -> None:
    seats = np.zeros(1, SEAT)
    for kind, potions in enumerate(items.POTION_DOSES):
        seats["inventory"][0] = potions[3]
        counted, _ = counters(seats)
        assert counted == [112 if k == kind else 0 for k in range(8)]
    seats["inventory"][0] = NO_ITEM
    assert counters(seats)[0][stock.FREE_SLOTS] == INVENTORY_SIZE
