"""Orders of an agent that are the same in every game: eating, drinking, vengeance (nh-actions.md §5)."""

from __future__ import annotations

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.consumables import drink, eat, find_item, find_potion, note_brew, note_food
from sb3_pvp.games.osrs.sim.state import DEFENCE, MAGIC_LEVEL, NO_SPELL_SELECTED, VENGEANCE_TIMER, Seat
from sb3_pvp.games.osrs.sim.stock import food_in_hand, take_stock

VENGEANCE_LEVEL, VENGEANCE_DEFENCE, VENGEANCE_COOLDOWN = 94, 40, 50


@rule
def eat_primary_food(seat: Seat) -> None:
    """Eats a piece of the first food that is not a karambwan (nh-actions.md §5.5)."""
    edible = food_in_hand(take_stock(seat))
    if edible >= 0:
        note_food(seat, edible)
        eat(seat, edible)


@rule
def drink_potion(seat: Seat, kind: int) -> None:
    """Drinks a dose of the potion with the fewest doses (nh-actions.md §5.4)."""
    if kind == items.BREW and find_potion(seat, items.BREW, True) >= 0:
        note_brew(seat)
    drink(seat, kind, True)


@rule
def eat_karambwan(seat: Seat) -> None:
    """Eats a karambwan (nh-actions.md §5.7)."""
    if find_item(seat, items.KARAMBWAN) >= 0:
        note_food(seat, items.KARAMBWAN)
        eat(seat, items.KARAMBWAN)


@rule
def cast_vengeance(seat: Seat) -> None:
    """Vengeance; with another spellbook the attempt only drops spell and target (nh-actions.md §5.11)."""
    if not seat.lunar:
        seat.spell = NO_SPELL_SELECTED
        seat.targeting = 0
        return
    able = seat.level[MAGIC_LEVEL] >= VENGEANCE_LEVEL and seat.base[DEFENCE] >= VENGEANCE_DEFENCE
    if able and not seat.vengeance and seat.timer[VENGEANCE_TIMER] == 0:
        seat.vengeance = 1
        seat.timer[VENGEANCE_TIMER] = VENGEANCE_COOLDOWN
