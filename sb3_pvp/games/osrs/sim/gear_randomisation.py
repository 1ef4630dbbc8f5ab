"""``randomizeGear``: runs the script of a build with the server's own random numbers (nh-actions.md §B.3).

The draws of an operation are part of its meaning, since every later draw depends on them: ``draw(generator, 1)`` has
only one possible result, but advances the generator as the server does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.osrs.sim import gear_scripts as script
from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.gear_scripts import ROWS, STARTS
from sb3_pvp.games.osrs.sim.items import BREW, FULL_POTION, MAX_DOSES, POTION_DOSES, RESTORE, SLOT, TWO_HANDED
from sb3_pvp.games.osrs.sim.java_random import Generator, draw, seeded
from sb3_pvp.games.osrs.sim.state import MAGE_SET, NO_ITEM, SET_SIZE, SHIELD, Seat

# Bounds of the draws for supplies: 0 to 3 karambwans, 0 to 8 brews; LMS builds: 0 to 2 brews, 0 or 1 more restore.
KARAMBWAN_BOUND, BREW_BOUND, LMS_BREW_BOUND, LMS_RESTORE_BOUND = 4, 9, 3, 2
LEAST_RESTORES = 2
#: The items of an inventory besides gear, with NO_ITEM in gaps, ``(builds.SUPPLIES_SIZE,)``.
Supplies = NDArray[np.int64]


@rule
def _find_slot(seat: Seat, gear_set: int, slot: int) -> int:
    """Returns the position of the first item of a set that is worn in this slot, -1 if there is none."""
    for i in range(seat.set_length[gear_set]):
        if SLOT[seat.gear_set[gear_set, i]] == slot:
            return i
    return -1


@rule
def _put(seat: Seat, generator: Generator, gear_set: int, item: int) -> None:
    """Puts an item into its slot of a set; to replace or remove an item costs a draw, to add one does not."""
    found = _find_slot(seat, gear_set, SLOT[item])
    if found >= 0:
        draw(generator, 1)
        seat.gear_set[gear_set, found] = item
    else:
        seat.gear_set[gear_set, seat.set_length[gear_set]] = item
        seat.set_length[gear_set] += 1
    shield = _find_slot(seat, gear_set, SHIELD) if TWO_HANDED[item] else -1
    if shield >= 0:
        draw(generator, 1)
        seat.set_length[gear_set] -= 1
        for i in range(shield, seat.set_length[gear_set]):
            seat.gear_set[gear_set, i] = seat.gear_set[gear_set, i + 1]
        seat.gear_set[gear_set, seat.set_length[gear_set]] = NO_ITEM


@rule
def _replace(seat: Seat, first: int, last: int, old: int, new: int) -> None:
    for gear_set in range(first, last + 1):
        for i in range(seat.set_length[gear_set]):
            if seat.gear_set[gear_set, i] == old:
                seat.gear_set[gear_set, i] = new


@rule
def _set_count(supplies: Supplies, item: int, wanted: int) -> None:
    """Sets the number of pieces of a supply; missing pieces are appended."""
    end = 0
    for i in range(len(supplies)):
        if supplies[i] == item:
            wanted -= 1
            if wanted < 0:
                supplies[i] = NO_ITEM
        if supplies[i] != NO_ITEM:
            end = i + 1
    for i in range(end, end + wanted):
        supplies[i] = item


@rule
def _fewer_doses(supplies: Supplies, generator: Generator, kind: int) -> None:
    drawn = MAX_DOSES - 1 - draw(generator, MAX_DOSES)  # the server's list begins with four doses
    draw(generator, 1)
    for i in range(len(supplies)):
        if supplies[i] == FULL_POTION[kind]:
            supplies[i] = POTION_DOSES[kind, drawn]


@rule
def _brews(supplies: Supplies, generator: Generator, is_lms: bool) -> None:
    brews = draw(generator, LMS_BREW_BOUND if is_lms else BREW_BOUND)
    lms_restores = (brews + 1) // 2 + draw(generator, LMS_RESTORE_BOUND) if is_lms else 0
    _set_count(supplies, FULL_POTION[BREW], brews)
    _set_count(supplies, FULL_POTION[RESTORE], lms_restores if is_lms else max(LEAST_RESTORES, brews // 2 + 1))


@rule
def _empty_mage_set(seat: Seat) -> None:
    """Takes the mage set out of a loadout."""
    seat.set_length[MAGE_SET] = 0
    for i in range(SET_SIZE):
        seat.gear_set[MAGE_SET, i] = NO_ITEM


@rule
def randomise(seat: Seat, supplies: Supplies, filler: int, build: int, seed: int) -> int:
    """Runs the script of a build on ``seat.gear_set``, ``set_length`` and ``lunar`` and on ``supplies``.

    ``seed`` is the `java_string_hash` of the episode id. Returns the food that fills the inventory.
    """
    generator = seeded(seed)
    at = STARTS[build]
    while ROWS[at, 0] != script.END:
        operation, a, b, c, d = ROWS[at, 0], ROWS[at, 1], ROWS[at, 2], ROWS[at, 3], ROWS[at, 4]
        at += 1  # jumps count from the next row
        if operation == script.CHANCE:
            if not b <= draw(generator, a) <= c:
                at += d
        elif operation == script.JUMP:
            at += a
        elif operation == script.PUT:
            _put(seat, generator, a, b)
        elif operation == script.REPLACE:
            draw(generator, 1)
            _replace(seat, a, b, c, d)
        elif operation == script.COUNT:
            _set_count(supplies, a, b)
        elif operation == script.FEWER_DOSES:
            _fewer_doses(supplies, generator, a)
        elif operation == script.KARAMBWANS:
            _set_count(supplies, items.KARAMBWAN, draw(generator, KARAMBWAN_BOUND))
        elif operation in (script.BREWS, script.LMS_BREWS):
            _brews(supplies, generator, operation == script.LMS_BREWS)
        elif operation == script.FILL:
            filler = a
        else:
            if operation == script.LUNAR:
                seat.lunar = 1
            _empty_mage_set(seat)
    return filler
