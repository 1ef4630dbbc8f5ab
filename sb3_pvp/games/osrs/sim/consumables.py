"""Food and potions: heals, level changes, timers, attack delays (mechanics.md §10, nh-actions.md §5.4 to §5.7)."""

from __future__ import annotations

import numpy as np

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.state import (
    ATTACK,
    ATTACK_TIMER,
    DEFENCE,
    FOOD_TIMER,
    HITPOINTS,
    INVENTORY_SIZE,
    KARAMBWAN_TIMER,
    MAGIC_LEVEL,
    NO_ITEM,
    POTION_TIMER,
    PRAYER,
    RANGED_LEVEL,
    STRENGTH,
    Seat,
)

SHARK_HEAL, KARAMBWAN_HEAL = 20, 18
ANGLERFISH_MAX_HEAL = 22
FOOD_DELAY, KARAMBWAN_DELAY = 3, 2
CONSUME_TICKS = 3


@rule
def find_item(seat: Seat, item: int) -> int:
    """The first inventory slot with this item, -1 if there is none."""
    for slot in range(INVENTORY_SIZE):
        if seat.inventory[slot] == item:
            return slot
    return -1


@rule
def anglerfish_heal(seat: Seat) -> int:
    """HPmax div 10 + c, c by HPmax, at most 22 (mechanics.md §10)."""
    full = seat.base[HITPOINTS]
    extra = 13 if full >= 93 else 8 if full >= 75 else 6 if full >= 50 else 4 if full >= 25 else 2
    return int(min(ANGLERFISH_MAX_HEAL, full // 10 + extra))


@rule
def food_heal(seat: Seat, food: int) -> int:
    """What a piece of food restores at most."""
    if food == items.ANGLERFISH:
        return anglerfish_heal(seat)
    return KARAMBWAN_HEAL if food == items.KARAMBWAN else SHARK_HEAL


@rule
def overheal(seat: Seat, food: int) -> int:
    """How far above the maximum this food may lift HP."""
    return anglerfish_heal(seat) if food == items.ANGLERFISH else 0


@rule
def set_attack_timer(seat: Seat, ticks: int) -> None:
    """Registers the attack timer: the capped and the uncapped counter (mechanics.md §2)."""
    seat.timer[ATTACK_TIMER] = ticks
    seat.attack_counter = ticks


@rule
def delay_attack(seat: Seat, ticks: int) -> None:
    """The attack delay of eating: the uncapped counter decides (nh-actions.md §5.6)."""
    if seat.attack_counter + ticks > 0:
        set_attack_timer(seat, seat.attack_counter + ticks)


@rule
def _heal_by_food(seat: Seat, food: int) -> None:
    cap = seat.base[HITPOINTS] + overheal(seat, food)
    room = max(cap - seat.level[HITPOINTS], 0)
    seat.level[HITPOINTS] += min(food_heal(seat, food), room)


@rule
def note_food(seat: Seat, food: int) -> None:
    """Records an order to eat for the meta record, also when the game then refuses it (protocol.md §4)."""
    before = seat.level[HITPOINTS]
    heal = food_heal(seat, food)
    cap = seat.base[HITPOINTS] + overheal(seat, food)
    seat.food_eaten += 1
    seat.eat_at = before
    seat.eat_to = min(before + heal, cap)
    seat.eaten += heal
    seat.food_wasted += max(0, before + heal - cap)


@rule
def eat(seat: Seat, food: int) -> bool:
    """Eats one piece of shark, anglerfish or karambwan if its timer allows; True if eaten."""
    is_karambwan = food == items.KARAMBWAN
    slot = find_item(seat, food)
    if slot < 0 or seat.timer[KARAMBWAN_TIMER if is_karambwan else FOOD_TIMER] > 0 or seat.dying:
        return False
    seat.inventory[slot] = NO_ITEM
    _heal_by_food(seat, food)
    seat.timer[FOOD_TIMER] = max(seat.timer[FOOD_TIMER], CONSUME_TICKS)
    if is_karambwan:
        seat.timer[KARAMBWAN_TIMER] = CONSUME_TICKS
        seat.timer[POTION_TIMER] = CONSUME_TICKS
    delay_attack(seat, KARAMBWAN_DELAY if is_karambwan else FOOD_DELAY)
    return True


@rule
def find_potion(seat: Seat, kind: int, fewest_first: bool) -> int:
    """The inventory slot of a potion of this kind: fewest doses first, or (server bot) most doses first; -1 if none."""
    for k in range(4):
        slot = find_item(seat, items.POTION_DOSES[kind, k if fewest_first else 3 - k])
        if slot >= 0:
            return slot
    return -1


@rule
def _raise(seat: Seat, skill: int, amount: int, cap: int) -> None:
    if seat.level[skill] < cap:
        seat.level[skill] = min(seat.level[skill] + amount, cap)


@rule
def _lower(seat: Seat, skill: int, amount: int) -> None:
    seat.level[skill] = max(seat.level[skill] - amount, 0)


@rule
def brew_defence_boost(base: int) -> int:
    """floor(2 + 0.20 · base)."""
    return 2 + base // 5


@rule
def brew_heal(base: int) -> int:
    """floor(2 + 0.15 · base)."""
    return int(np.floor(2 + 0.15 * base))


@rule
def combat_boost(base: int) -> int:
    """floor(0.15 · base) + 5."""
    return int(np.floor(0.15 * base)) + 5


@rule
def combat_share(seat: Seat, skill: int) -> float:
    """A level as a share of the highest that a super combat potion can make it (contract.md §4.1, "rel")."""
    return float(seat.level[skill] / (seat.base[skill] + combat_boost(seat.base[skill])))


@rule
def ranging_boost(base: int) -> int:
    """floor(0.10 · base) + 4."""
    return base // 10 + 4


@rule
def _drink_brew(seat: Seat) -> None:
    base = seat.base
    defence = brew_defence_boost(base[DEFENCE])
    _raise(seat, DEFENCE, defence, base[DEFENCE] + defence)
    heal = brew_heal(base[HITPOINTS])
    _raise(seat, HITPOINTS, heal, base[HITPOINTS] + heal)
    _lower(seat, ATTACK, base[ATTACK] // 10 + 2)  # attack by its maximum, the others by what they are
    for skill in (STRENGTH, MAGIC_LEVEL, RANGED_LEVEL):
        _lower(seat, skill, seat.level[skill] // 10 + 2)


@rule
def _drink_restore(seat: Seat) -> None:
    for skill in (PRAYER, ATTACK, DEFENCE, STRENGTH, RANGED_LEVEL, MAGIC_LEVEL):
        _raise(seat, skill, 8 + seat.base[skill] // 4, seat.base[skill])


@rule
def _drink_combat(seat: Seat) -> None:
    for skill in (ATTACK, STRENGTH, DEFENCE):
        boost = combat_boost(seat.base[skill])
        _raise(seat, skill, boost, seat.base[skill] + boost)


@rule
def _drink_ranging(seat: Seat) -> None:
    boost = ranging_boost(seat.base[RANGED_LEVEL])
    _raise(seat, RANGED_LEVEL, boost, seat.base[RANGED_LEVEL] + boost)


@rule
def drink(seat: Seat, kind: int, fewest_first: bool) -> bool:
    """Drinks one dose (BREW, RESTORE, COMBAT, RANGING) if the timer allows; drops the combat target; True if drunk."""
    slot = find_potion(seat, kind, fewest_first)
    if slot < 0 or seat.timer[POTION_TIMER] > 0 or seat.dying:
        return False
    seat.inventory[slot] = items.AFTER_DOSE[seat.inventory[slot]]
    if kind == items.BREW:
        _drink_brew(seat)
    elif kind == items.RESTORE:
        _drink_restore(seat)
    elif kind == items.COMBAT:
        _drink_combat(seat)
    else:
        _drink_ranging(seat)
    seat.timer[POTION_TIMER] = CONSUME_TICKS
    seat.timer[FOOD_TIMER] = CONSUME_TICKS
    seat.targeting = 0
    return True


@rule
def note_brew(seat: Seat) -> None:
    """Records an order to drink a brew for the meta record (protocol.md §4)."""
    full = seat.base[HITPOINTS]
    heal = brew_heal(full)
    seat.brew_drunk = 1
    seat.brew_at = seat.level[HITPOINTS]
    seat.brew_to = min(seat.level[HITPOINTS] + heal, full + heal)
    seat.brew_wasted = max(0, seat.level[HITPOINTS] - full)
