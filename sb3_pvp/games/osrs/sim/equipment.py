"""Putting on and taking off equipment (mechanics.md §15, nh-actions.md §5.8)."""

from __future__ import annotations

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.availability import set_contains
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.consumables import find_item
from sb3_pvp.games.osrs.sim.formulas import weapon_class
from sb3_pvp.games.osrs.sim.state import AMMO, NO_ITEM, NUM_BONUSES, NUM_SLOTS, SHIELD, WEAPON, Seat


@rule
def sum_bonuses(seat: Seat) -> None:
    """Sums the bonuses of worn items; thrown weapons leave the ammunition out (mechanics.md §15)."""
    thrown = items.CLASS_THROWN[weapon_class(seat)] != 0
    seat.bonus[:] = 0
    for slot in range(NUM_SLOTS):
        item = seat.worn[slot]
        if item >= 0 and not (thrown and slot == AMMO):
            for k in range(NUM_BONUSES):
                seat.bonus[k] += items.BONUSES[item, k]


@rule
def equip(seat: Seat, item: int) -> bool:
    """Puts on one item from the inventory; returns False if it is not there or cannot be worn now."""
    place = find_item(seat, item)
    if place < 0:
        return False
    slot = items.SLOT[item]
    if items.TWO_HANDED[item] and seat.worn[SHIELD] >= 0:
        if seat.worn[WEAPON] >= 0:  # both come off, but the new weapon frees only one slot
            free = find_item(seat, NO_ITEM)
            if free < 0:
                return False
            seat.inventory[free] = seat.worn[SHIELD]
            seat.inventory[place] = seat.worn[WEAPON]
        else:
            seat.inventory[place] = seat.worn[SHIELD]
        seat.worn[SHIELD] = NO_ITEM
    elif slot == SHIELD and seat.worn[WEAPON] >= 0 and items.TWO_HANDED[seat.worn[WEAPON]]:
        seat.inventory[place] = seat.worn[WEAPON]
        seat.worn[WEAPON] = NO_ITEM
        seat.special_on = 0
    else:
        seat.inventory[place] = seat.worn[slot]
    seat.worn[slot] = item
    if slot == WEAPON:
        seat.special_on = 0
    if seat.worn[WEAPON] != items.GRANITE_MAUL:  # with a maul the target stays (mechanics.md §4.2)
        seat.targeting = 0
    return True


@rule
def equip_available(seat: Seat, gear_set: int) -> None:
    """Puts on what the inventory holds of a gear set, in the order of the set, and takes nothing off."""
    changed = False
    for k in range(seat.set_length[gear_set]):
        item = seat.gear_set[gear_set, k]
        if seat.worn[items.SLOT[item]] != item and equip(seat, item):
            changed = True
    if changed:
        sum_bonuses(seat)


@rule
def take_off(seat: Seat, slot: int) -> bool:
    """Moves what is worn in a slot to the first free inventory slot; returns False if there is no item or no slot.

    The sums of the bonuses stay as they are: call `sum_bonuses` afterwards.
    """
    free = find_item(seat, NO_ITEM)
    if seat.worn[slot] < 0 or free < 0:
        return False
    seat.inventory[free] = seat.worn[slot]
    seat.worn[slot] = NO_ITEM
    if slot == WEAPON:
        seat.special_on = 0
    return True


@rule
def _take_off_others(seat: Seat, gear_set: int) -> None:
    changed = False
    for slot in range(NUM_SLOTS):
        item = seat.worn[slot]
        if item >= 0 and not set_contains(seat, gear_set, item) and take_off(seat, slot):
            changed = True
    if changed:
        sum_bonuses(seat)


@rule
def equip_set(seat: Seat, gear_set: int) -> None:
    """Wears exactly a gear set, as far as free slots allow."""
    equip_available(seat, gear_set)
    _take_off_others(seat, gear_set)
