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

# Numbers of mechanics.md §10. The spec has some shares as decimals: x // 5 is floor(0.20 · x), x // 10 floor(0.10 · x).
SHARK_HEAL, KARAMBWAN_HEAL = 20, 18
ANGLERFISH_DIVISOR, ANGLERFISH_MAX_HEAL = 10, 22
FOOD_DELAY, KARAMBWAN_DELAY = 3, 2  # ticks that a bite adds to the attack timer
CONSUME_TICKS = 3  # until the next bite or dose
BREW_DEFENCE_DIVISOR, BREW_HEAL_SHARE, BREW_EXTRA = 5, 0.15, 2
BREW_DRAIN_DIVISOR = 10
RESTORE_DIVISOR, RESTORE_EXTRA = 4, 8
COMBAT_SHARE, COMBAT_EXTRA = 0.15, 5
RANGING_DIVISOR, RANGING_EXTRA = 10, 4


@rule
def find_item(seat: Seat, item: int) -> int:
    """Returns the first inventory slot with this item, -1 if there is none."""
    for slot in range(INVENTORY_SIZE):
        if seat.inventory[slot] == item:
            return slot
    return -1


@rule
def anglerfish_heal(seat: Seat) -> int:
    """Returns HPmax div 10 + c with c by HPmax, at most 22 (mechanics.md §10)."""
    full = seat.base[HITPOINTS]
    # The extra healing has steps, as tabled in the spec.
    extra = 13 if full >= 93 else 8 if full >= 75 else 6 if full >= 50 else 4 if full >= 25 else 2
    return int(min(ANGLERFISH_MAX_HEAL, full // ANGLERFISH_DIVISOR + extra))


@rule
def food_heal(seat: Seat, food: int) -> int:
    """Returns what a piece of food restores at most."""
    if food == items.ANGLERFISH:
        return anglerfish_heal(seat)
    return KARAMBWAN_HEAL if food == items.KARAMBWAN else SHARK_HEAL


@rule
def overheal(seat: Seat, food: int) -> int:
    """Returns how far above the base level this food may lift hitpoints."""
    return anglerfish_heal(seat) if food == items.ANGLERFISH else 0


@rule
def set_attack_timer(seat: Seat, ticks: int) -> None:
    """Starts the attack timer: the capped and the uncapped counter (mechanics.md §2)."""
    seat.timer[ATTACK_TIMER] = ticks
    seat.attack_counter = ticks


@rule
def delay_attack(seat: Seat, ticks: int) -> None:
    """Delays the next attack after a bite (nh-actions.md §5.6)."""
    # By the uncapped counter: with a weapon that has been ready for as long as the delay, eating costs nothing.
    if seat.attack_counter + ticks > 0:
        set_attack_timer(seat, seat.attack_counter + ticks)


@rule
def _heal_by_food(seat: Seat, food: int) -> None:
    cap = seat.base[HITPOINTS] + overheal(seat, food)
    room = max(cap - seat.level[HITPOINTS], 0)
    seat.level[HITPOINTS] += min(food_heal(seat, food), room)


@rule
def note_food(seat: Seat, food: int) -> None:
    """Records an order to eat for the meta record, even if the game then refuses it (protocol.md §4)."""
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
    """Eats one piece of shark, anglerfish or karambwan if its timer allows; returns whether it did."""
    is_karambwan = food == items.KARAMBWAN
    slot = find_item(seat, food)
    if slot < 0 or seat.timer[KARAMBWAN_TIMER if is_karambwan else FOOD_TIMER] > 0 or seat.dying:
        return False
    seat.inventory[slot] = NO_ITEM
    _heal_by_food(seat, food)
    seat.timer[FOOD_TIMER] = max(seat.timer[FOOD_TIMER], CONSUME_TICKS)
    if is_karambwan:  # the only food that blocks potions; a potion does not block it, so both fit into one tick
        seat.timer[KARAMBWAN_TIMER] = CONSUME_TICKS
        seat.timer[POTION_TIMER] = CONSUME_TICKS
    delay_attack(seat, KARAMBWAN_DELAY if is_karambwan else FOOD_DELAY)
    return True


@rule
def find_potion(seat: Seat, kind: int, fewest_first: bool) -> int:
    """Returns the inventory slot of a potion: fewest doses first, or most first (server bot); -1 if there is none."""
    for k in range(items.MAX_DOSES):
        slot = find_item(seat, items.POTION_DOSES[kind, k if fewest_first else items.MAX_DOSES - 1 - k])
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
    """Returns floor(2 + 0.20 · base)."""
    return BREW_EXTRA + base // BREW_DEFENCE_DIVISOR


@rule
def brew_heal(base: int) -> int:
    """Returns floor(2 + 0.15 · base)."""
    return int(np.floor(BREW_EXTRA + BREW_HEAL_SHARE * base))


@rule
def combat_boost(base: int) -> int:
    """Returns floor(0.15 · base) + 5."""
    return int(np.floor(COMBAT_SHARE * base)) + COMBAT_EXTRA


@rule
def combat_share(seat: Seat, skill: int) -> float:
    """Returns a level as a share of the highest that a super combat potion can reach (contract.md §4.1, "rel")."""
    return float(seat.level[skill] / (seat.base[skill] + combat_boost(seat.base[skill])))


@rule
def ranging_boost(base: int) -> int:
    """Returns floor(0.10 · base) + 4."""
    return base // RANGING_DIVISOR + RANGING_EXTRA


@rule
def _drink_brew(seat: Seat) -> None:
    base = seat.base
    defence = brew_defence_boost(base[DEFENCE])
    _raise(seat, DEFENCE, defence, base[DEFENCE] + defence)
    heal = brew_heal(base[HITPOINTS])
    _raise(seat, HITPOINTS, heal, base[HITPOINTS] + heal)
    # Attack drops by a share of its base level, the others by a share of the current one.
    _lower(seat, ATTACK, base[ATTACK] // BREW_DRAIN_DIVISOR + BREW_EXTRA)
    for skill in (STRENGTH, MAGIC_LEVEL, RANGED_LEVEL):
        _lower(seat, skill, seat.level[skill] // BREW_DRAIN_DIVISOR + BREW_EXTRA)


@rule
def _drink_restore(seat: Seat) -> None:
    for skill in (PRAYER, ATTACK, DEFENCE, STRENGTH, RANGED_LEVEL, MAGIC_LEVEL):
        _raise(seat, skill, RESTORE_EXTRA + seat.base[skill] // RESTORE_DIVISOR, seat.base[skill])


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
    """Drinks a dose of a potion if its timer allows, which drops the combat target; returns whether it did."""
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
