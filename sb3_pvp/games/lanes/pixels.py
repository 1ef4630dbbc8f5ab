"""Battles as pictures of 64 to 448 pixels a side, as a player sees them: a rasteriser in Numba.

The arena is on the left, from the own side. On the right are what only its player knows: elixir as a bar, the hand, of
which what it cannot pay is dim, and smaller below it the card that comes next. The bar at the edge is the time.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.compiled import compiled, compiled_with_arrays
from sb3_pvp.games.lanes import cards, rules
from sb3_pvp.games.lanes.rules import Battles, Ints, Units

Floats = NDArray[np.float32]
#: Colours, red, green and blue in one number.
GRASS, OTHER_GRASS, WATER, PLANK, PANEL = 0x4E7A3E, 0x577F3A, 0x3A6EA8, 0x9A7B4F, 0x1C2026
OWN, OTHER, ELIXIR, HEALTH, LACK, TIME, BLAST = 0x2E6BFF, 0xF03038, 0xC848F0, 0x40FF60, 0x101010, 0xE8E8E8, 0xFFFFFF
SPAN = 2 * rules.HALF_Y  #: Thousandths of a tile that a picture is wide and high.
#: The panel, in 32nds of the picture: elixir, hand and time, from and to; the cards' heights.
ELIXIR_FROM, ELIXIR_TO, HAND_FROM, HAND_TO, TIME_FROM = 19, 21, 22, 29, 30
CARD_HEIGHT, NEXT_FROM, NEXT_TO = 6, 26, 31


@lru_cache(8)
def ground(size: int) -> Floats:
    """Returns the empty arena and panel, float32 ``(3, size, size)``, read-only."""
    middle = (np.arange(size) + 0.5) * SPAN / size - rules.HALF_Y
    y, x = np.meshgrid(-middle, middle + rules.HALF_Y - rules.HALF_X, indexing="ij")
    tiles = (np.floor(x / 1000) + np.floor(y / 1000)) % 2 == 0
    colours = np.where(tiles, GRASS, OTHER_GRASS)
    bridge = np.abs(np.abs(x) - rules.BRIDGE) <= rules.BRIDGE_SIDE
    colours = np.where(np.abs(y) < rules.RIVER, np.where(bridge, PLANK, WATER), colours)
    colours = np.where(x > rules.HALF_X, PANEL, colours)
    drawn = np.stack([colours >> 16, colours >> 8 & 255, colours & 255]).astype(np.float32)
    drawn.flags.writeable = False
    return drawn


def draw(fights: Ints, figures: Ints, battles: Battles, pictures: Floats) -> None:
    """Draws what both seats see, to ``pictures (F, 2, 3, size, size)``, numbers from 0 to 255."""
    # A copy, since Numba would compile another version for a read-only array.
    _draw_battles(fights, figures, battles, ground(pictures.shape[-1]).copy(), pictures)


@compiled_with_arrays
def _draw_battles(fights: Ints, figures: Ints, battles: Battles, empty: Floats, pictures: Floats) -> None:
    units, tops, elixir, decks, _, clocks = battles
    size = pictures.shape[3]
    for fight in fights:
        for seat in range(2):
            picture = pictures[fight, seat]
            picture[:] = empty
            for flies in range(2):
                for side in range(2):
                    for slot in range(tops[fight, side]):
                        card = units[fight, side, slot, rules.CARD]
                        if units[fight, side, slot, rules.LEFT] > 0 and figures[card, cards.FLIES] == flies:
                            _draw_unit(units[fight, side, slot], seat, side, figures, picture)
            _draw_panel(figures, elixir[fight, seat], decks[fight, seat], picture)
            left = size * (rules.LAST_TICK - clocks[fight]) // rules.LAST_TICK
            _box(TIME_FROM * size // 32, size - left, size, size, TIME, picture)


@compiled
def _draw_unit(unit: Units, seat: int, side: int, figures: Ints, picture: Floats) -> None:
    """Draws a disc in the colour of its side, a smaller one in its card's, and its health above; towers square."""
    card, sign, size = unit[rules.CARD], 1 - 2 * seat, picture.shape[2]
    x, y = unit[rules.X] * sign + rules.HALF_X, rules.HALF_Y - unit[rules.Y] * sign
    team, paint, radius = OWN if side == seat else OTHER, figures[card, cards.COLOUR], figures[card, cards.RADIUS]
    kind = figures[card, cards.KIND]
    if kind == cards.SPELL:
        _disc(x, y, figures[card, cards.SPLASH], figures[card, cards.SPLASH] - SPAN // size, paint, picture)
        return
    wide = radius + radius // 3
    if kind == cards.TROOP:
        if figures[card, cards.FLIES] == 1:
            _disc(x + 300, y + 500, wide, 0, LACK, picture)
        _disc(x, y, wide, 0, team, picture)
        _disc(x, y, wide * 6 // 10, 0, BLAST if unit[rules.STILL] > 0 else paint, picture)
    else:
        low, high = (y - radius) * size // SPAN, (y + radius) * size // SPAN
        _box((x - radius) * size // SPAN, low, (x + radius) * size // SPAN, high, team, picture)
        inner = radius * 6 // 10
        low, high = (y - inner) * size // SPAN, (y + inner) * size // SPAN
        _box((x - inner) * size // SPAN, low, (x + inner) * size // SPAN, high, paint, picture)
    left, right = (x - wide) * size // SPAN, (x + wide) * size // SPAN
    if unit[rules.LEFT] < figures[card, cards.HEALTH]:
        row = max((y - wide) * size // SPAN - 1, 0)
        filled = left + (right - left) * unit[rules.LEFT] // figures[card, cards.HEALTH]
        _box(left, row, right, row + max(size // 96, 1), LACK, picture)
        _box(left, row, max(filled, left + 1), row + max(size // 96, 1), HEALTH, picture)


@compiled
def _draw_panel(figures: Ints, drops: int, deck: Ints, picture: Floats) -> None:
    """Draws what only the player knows."""
    size = picture.shape[2]
    _box(
        ELIXIR_FROM * size // 32,
        size - size * drops // rules.MOST_ELIXIR,
        ELIXIR_TO * size // 32,
        size,
        ELIXIR,
        picture,
    )
    for place in range(5):
        card, first, low = deck[place], HAND_FROM, place * CARD_HEIGHT
        high, last = low + CARD_HEIGHT - 1, HAND_TO
        if place == 4:
            first, last, low, high = HAND_FROM + 2, HAND_TO - 2, NEXT_FROM, NEXT_TO
        paint = figures[card, cards.COLOUR]
        if place < 4 and drops < figures[card, cards.COST] * rules.DROPS:
            paint = paint >> 1 & 0x7F7F7F
        _box(first * size // 32, low * size // 32, last * size // 32, high * size // 32, paint, picture)
        if place < 4:  # its cost, in dots
            for dot in range(figures[card, cards.COST]):
                left, bottom = (2 * first + 1 + 2 * dot) * size // 64, high * size // 32
                _box(left, bottom - max(size // 32, 1), left + max(size // 64, 1), bottom, ELIXIR, picture)


@compiled
def _box(left: int, low: int, right: int, high: int, paint: int, picture: Floats) -> None:
    """Fills a box, in pixels."""
    size = picture.shape[2]
    left, low, right, high = max(left, 0), max(low, 0), min(right, size), min(high, size)
    for channel in range(3):
        part = np.float32(paint >> (16 - 8 * channel) & 255)
        for row in range(low, high):
            for column in range(left, right):
                picture[channel, row, column] = part


@compiled
def _disc(x: int, y: int, radius: int, hole: int, paint: int, picture: Floats) -> None:
    """Fills a disc, perhaps with a hole, around a place in thousandths of a tile from the corner of the arena."""
    size = picture.shape[2]
    first, last = max((x - radius) * size // SPAN, 0), min((x + radius) * size // SPAN + 1, 18 * size // 32)
    for row in range(max((y - radius) * size // SPAN, 0), min((y + radius) * size // SPAN + 1, size)):
        below = (2 * row + 1) * SPAN // (2 * size) - y
        for column in range(first, last):
            beside = (2 * column + 1) * SPAN // (2 * size) - x
            far = beside * beside + below * below
            if far <= radius * radius and far >= hole * hole:
                for channel in range(3):
                    picture[channel, row, column] = np.float32(paint >> (16 - 8 * channel) & 255)
