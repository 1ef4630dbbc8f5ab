"""The loadout of a seat for an episode: gear sets, worn items, inventory and levels (nh-actions.md §B.0)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.builds import (
    BUILD_FIGHT_TYPE,
    BUILD_NAMES,
    FILLERS,
    GEAR_SETS,
    LEVELS,
    SET_LENGTHS,
    SUPPLIES,
    SUPPLIES_SIZE,
)
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.gear_randomisation import Supplies, randomise
from sb3_pvp.games.osrs.sim.items import BAG_ORDER, BONUSES, FULL_POTION, SLOT, TWO_HANDED, WEAPON_CLASS
from sb3_pvp.games.osrs.sim.specials import IS_MELEE_SPECIAL, SPECIAL_COST
from sb3_pvp.games.osrs.sim.state import (
    INVENTORY_SIZE,
    MAGE_SET,
    MAGIC_DEFENCE,
    MELEE_SET,
    NO_ITEM,
    NUM_BONUSES,
    NUM_SETS,
    NUM_SKILLS,
    NUM_SLOTS,
    RANGED_DEFENCE,
    RANGED_SET,
    SET_SIZE,
    SLASH_DEFENCE,
    SPEC_SET,
    TANK_SET,
    Seat,
)

__all__ = ["BUILD_FIGHT_TYPE", "BUILD_NAMES", "load"]

#: Super restores that the baseline bot keeps (scripted-bots.md A.0).
_BASELINE_RESTORES = 2


@rule
def load(seat: Seat, build: int, randomize_gear: bool, gear_seed: int, baseline_bot: bool) -> None:
    """Fills in the build, the loadout, the levels, what is worn and the inventory of a seat.

    ``gear_seed`` is the `java_string_hash` of the episode id, which only ``randomize_gear`` uses. A baseline bot
    gets anglerfish for its brews and for all but two restores, in the same inventory slots.
    """
    # The order matters: randomising changes the sets, from which all the rest follows.
    seat.build = build
    seat.lunar = 0
    for skill in range(NUM_SKILLS):
        seat.base[skill] = seat.level[skill] = LEVELS[build, skill]
    for gear_set in range(TANK_SET):
        _copy(GEAR_SETS[build, gear_set], seat.gear_set[gear_set])
        seat.set_length[gear_set] = SET_LENGTHS[build, gear_set]
    supplies = np.empty(SUPPLIES_SIZE, np.int64)
    _copy(SUPPLIES[build], supplies)
    filler = FILLERS[build]
    if randomize_gear:
        filler = randomise(seat, supplies, filler, build, gear_seed)
    _choose_tank_set(seat)
    _describe_sets(seat)
    first_set = MAGE_SET if seat.set_length[MAGE_SET] > 0 else RANGED_SET
    _wear(seat, first_set)
    _pack(seat, first_set, supplies, filler)
    if baseline_bot:
        give_food_for_potions(seat)


@rule
def _copy(source: NDArray[np.int64], target: NDArray[np.int64]) -> None:
    # A loop compiles much faster than a slice assignment.
    for i in range(len(target)):
        target[i] = source[i]


@rule
def _weapon(seat: Seat, gear_set: int) -> int:
    """Returns the position of the first item of a set that has a weapon class, -1 if there is none."""
    for i in range(seat.set_length[gear_set]):
        if WEAPON_CLASS[seat.gear_set[gear_set, i]] >= 0:
            return i
    return -1


@rule
def _defence(item: int) -> int:
    """Returns the number by which the tank set compares two weapons (nh-actions.md §B.0)."""
    return int(BONUSES[item, SLASH_DEFENCE] + BONUSES[item, MAGIC_DEFENCE] + BONUSES[item, RANGED_DEFENCE])


@rule
def _choose_tank_set(seat: Seat) -> None:
    """Fills in the ranged set, with the staff of the mage set if it defends better (loadouts.md §2, "Tank set")."""
    _copy(seat.gear_set[RANGED_SET], seat.gear_set[TANK_SET])
    seat.set_length[TANK_SET] = seat.set_length[RANGED_SET]
    staff, weapon = _weapon(seat, MAGE_SET), _weapon(seat, RANGED_SET)
    if staff < 0 or weapon < 0:
        return
    staff = seat.gear_set[MAGE_SET, staff]
    if not TWO_HANDED[staff] and _defence(staff) > _defence(seat.gear_set[RANGED_SET, weapon]):
        seat.gear_set[TANK_SET, weapon] = staff


@rule
def _describe_sets(seat: Seat) -> None:
    """Fills in the sums and weapons of the sets, for observations and masks (contract.md §4.1)."""
    for gear_set in range(NUM_SETS):
        for bonus in range(NUM_BONUSES):
            seat.set_bonus[gear_set, bonus] = 0
        seat.set_two_handed[gear_set] = 0
        for i in range(seat.set_length[gear_set]):
            item = seat.gear_set[gear_set, i]
            for bonus in range(NUM_BONUSES):
                seat.set_bonus[gear_set, bonus] += BONUSES[item, bonus]
            seat.set_two_handed[gear_set] |= TWO_HANDED[item]
    seat.ranged_weapon = seat.gear_set[RANGED_SET, _weapon(seat, RANGED_SET)]
    seat.melee_weapon = seat.gear_set[MELEE_SET, _weapon(seat, MELEE_SET)]
    seat.ranged_spec = seat.ranged_weapon if SPECIAL_COST[seat.ranged_weapon] > 0 else NO_ITEM
    seat.melee_spec = NO_ITEM
    for i in range(seat.set_length[SPEC_SET] - 1, -1, -1):  # backwards, so that the first weapon wins
        if IS_MELEE_SPECIAL[seat.gear_set[SPEC_SET, i]]:
            seat.melee_spec = seat.gear_set[SPEC_SET, i]


@rule
def _wear(seat: Seat, gear_set: int) -> None:
    for slot in range(NUM_SLOTS):
        seat.worn[slot] = NO_ITEM
    for i in range(seat.set_length[gear_set]):
        item = seat.gear_set[gear_set, i]
        seat.worn[SLOT[item]] = item


@rule
def _is_added(seat: Seat, first_set: int, packed: int, item: int) -> bool:
    for i in range(SET_SIZE):
        if seat.gear_set[first_set, i] == item:
            return True
    for i in range(packed):
        if seat.inventory[i] == item:
            return True
    return False


@rule
def _pack(seat: Seat, first_set: int, supplies: Supplies, filler: int) -> None:
    """Fills the inventory: gear that is not in the first set, supplies, food; then sorts it (nh-actions.md §B.0).

    The server refuses a loadout of more than 28 items; here the surplus is left out. Neither has been seen.
    """
    packed = 0
    for gear_set in range(RANGED_SET, SPEC_SET + 1):
        for i in range(seat.set_length[gear_set]):
            item = seat.gear_set[gear_set, i]
            if packed < INVENTORY_SIZE and not _is_added(seat, first_set, packed, item):
                seat.inventory[packed] = item
                packed += 1
    for i in range(SUPPLIES_SIZE):
        if packed < INVENTORY_SIZE and supplies[i] != NO_ITEM:
            seat.inventory[packed] = supplies[i]
            packed += 1
    for i in range(packed, INVENTORY_SIZE):
        seat.inventory[i] = filler
    _sort_inventory(seat)


@rule
def _sort_inventory(seat: Seat) -> None:
    """Sorts by kind of item, stably, because eating and equipping take the first matching slot."""
    for i in range(1, INVENTORY_SIZE):
        item = seat.inventory[i]
        while i > 0 and BAG_ORDER[seat.inventory[i - 1]] > BAG_ORDER[item]:
            seat.inventory[i] = seat.inventory[i - 1]
            i -= 1
        seat.inventory[i] = item


@rule
def give_food_for_potions(seat: Seat) -> None:
    """Replaces the brews and surplus restores of a baseline bot by anglerfish (scripted-bots.md A.0)."""
    restores = 0
    for i in range(INVENTORY_SIZE):
        is_restore = seat.inventory[i] == FULL_POTION[items.RESTORE]
        restores += is_restore
        if seat.inventory[i] == FULL_POTION[items.BREW] or (is_restore and restores > _BASELINE_RESTORES):
            seat.inventory[i] = items.ANGLERFISH
