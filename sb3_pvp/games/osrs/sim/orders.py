"""Orders of an agent that are the same in every game: eating and drinking (nh-actions.md §5.4, §5.5 and §5.7)."""

from __future__ import annotations

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.consumables import drink, eat, find_item, find_potion, note_brew, note_food
from sb3_pvp.games.osrs.sim.state import Seat
from sb3_pvp.games.osrs.sim.stock import count_inventory, primary_food


@rule
def eat_primary_food(seat: Seat) -> None:
    """Eats a piece of the first food that is not a karambwan (nh-actions.md §5.5)."""
    food = primary_food(count_inventory(seat))
    if food >= 0:
        note_food(seat, food)
        eat(seat, food)


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
