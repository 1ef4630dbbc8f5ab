"""What players of the lanes see as numbers, and what they may choose, in Numba."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.compiled import compiled, compiled_with_arrays
from sb3_pvp.games.lanes import cards, rules
from sb3_pvp.games.lanes.cards import NUM_TOWERS
from sb3_pvp.games.lanes.layout import BANDS, COLUMNS, FOREMOST, MAP_FACTS, POCKET, ROWS, UNIT_FACTS
from sb3_pvp.games.lanes.rules import Battles, Ints, Units

Floats = NDArray[np.float32]
_MAP, _UNIT, _POCKETS = len(MAP_FACTS), len(UNIT_FACTS), len(POCKET)
_BAND = 2 * rules.HALF_Y // BANDS


@compiled
def allow(fights: Ints, figures: Ints, battles: Battles, masks: NDArray[np.bool_]) -> None:
    """Writes the masks of both seats, ``masks (F, 2, A)``: what rules between heads do not say already."""
    units, tops, elixir, decks = battles[:4]
    num_cards = battles[4].shape[2]
    for fight in fights:
        for seat in range(2):
            mask = masks[fight, seat]
            mask[1 : 1 + num_cards] = False
            for place in range(4):
                card = decks[fight, seat, place]
                paid = elixir[fight, seat] >= figures[card, cards.COST] * rules.DROPS
                mask[1 + card] = paid and rules.has_room(card, figures, units[fight, seat], tops[fight, seat])
            for side in range(2):
                first = 1 + num_cards + COLUMNS + ROWS + side * _POCKETS
                mask[first : first + _POCKETS] = rules.is_open(units[fight], seat, side)


@compiled_with_arrays
def see(fights: Ints, figures: Ints, battles: Battles, obs: Floats, only: int) -> None:
    """Writes what both seats see, or ``only`` one of them if that is no less than 0, to ``obs (F, 2, D)``."""
    chosen = np.empty(FOREMOST, np.int64)
    for fight in fights:
        for seat in range(2):
            if only < 0 or seat == only:
                _see(fight, seat, figures, battles, chosen, obs[fight, seat])


@compiled
def _see(fight: int, seat: int, figures: Ints, battles: Battles, chosen: Ints, seen: Floats) -> None:
    units, tops, elixir, decks, played, clocks = battles
    num_cards, clock, sign = played.shape[2], clocks[fight], 1 - 2 * seat
    seen[:] = 0.0
    seen[0] = np.float32(clock / rules.LAST_TICK)
    seen[1], seen[2] = clock >= rules.DOUBLE_FROM, clock >= rules.SUDDEN_FROM
    seen[3] = np.float32(elixir[fight, seat] / rules.MOST_ELIXIR)
    for place in range(4):
        seen[4 + decks[fight, seat, place]] = 1.0
    seen[4 + num_cards + decks[fight, seat, 4]] = 1.0
    first = 4 + 2 * num_cards
    for card in range(num_cards):
        seen[first + card] = np.float32(min(played[fight, 1 - seat, card], 8) / 8)
    first += num_cards
    for side in range(2):
        whose = seat if side == 0 else 1 - seat
        _see_towers(units[fight, whose], side, figures, seen[first + 4 * side :])
        map_first = first + 8 + side * 2 * BANDS * _MAP
        _see_map(units[fight, whose], tops[fight, whose], sign, figures, seen[map_first:])
        unit_first = first + 8 + 4 * BANDS * _MAP + side * FOREMOST * _UNIT
        ahead = sign if side == 0 else -sign
        _see_foremost(units[fight, whose], tops[fight, whose], sign, ahead, figures, chosen, seen[unit_first:])


@compiled
def _see_towers(own: Units, side: int, figures: Ints, seen: Floats) -> None:
    for tower in range(NUM_TOWERS):
        place = tower if side == 0 or tower == 2 else 1 - tower  # by the left of who sees it
        seen[place] = np.float32(own[tower, rules.LEFT] / figures[own[tower, rules.CARD], cards.HEALTH])
    seen[3] = own[2, rules.STILL] != rules.ASLEEP


@compiled
def _power(card: int, figures: Ints) -> np.float32:
    """Returns the damage a second of a card's unit, in hundreds."""
    return np.float32(figures[card, cards.DAMAGE] * 0.1 / max(figures[card, cards.PAUSE], 1))


@compiled
def _see_map(own: Units, top: int, sign: int, figures: Ints, seen: Floats) -> None:
    """Adds up a side's units in lanes and bands."""
    for slot in range(NUM_TOWERS, top):
        unit = own[slot]
        card = unit[rules.CARD]
        if unit[rules.LEFT] == 0 or figures[card, cards.KIND] == cards.SPELL:
            continue
        lane = 1 if unit[rules.X] * sign > 0 else 0
        band = min((unit[rules.Y] * sign + rules.HALF_Y) // _BAND, BANDS - 1)
        first = (lane * BANDS + band) * _MAP
        flies, aims = figures[card, cards.FLIES], figures[card, cards.AIMS]
        seen[first + flies] += np.float32(unit[rules.LEFT] / 1000)
        seen[first + (3 if aims == cards.BUILDINGS else 2)] += _power(card, figures)


@compiled
def _see_foremost(own: Units, top: int, sign: int, ahead: int, figures: Ints, chosen: Ints, seen: Floats) -> None:
    """Writes the facts of the units that have come furthest, the first one first; ``chosen`` is scratch."""
    count = 0
    for slot in range(NUM_TOWERS, top):
        if own[slot, rules.LEFT] == 0 or figures[own[slot, rules.CARD], cards.KIND] == cards.SPELL:
            continue
        place, way = count, own[slot, rules.Y] * ahead
        while place > 0 and own[chosen[place - 1], rules.Y] * ahead < way:
            if place < FOREMOST:
                chosen[place] = chosen[place - 1]
            place -= 1
        if place < FOREMOST:
            chosen[place] = slot
            count = min(count + 1, FOREMOST)
    for number in range(count):
        unit, first = own[chosen[number]], number * _UNIT
        card = unit[rules.CARD]
        aims = figures[card, cards.AIMS]
        seen[first] = 1.0
        seen[first + 1] = np.float32(unit[rules.X] * sign / rules.HALF_X)
        seen[first + 2] = np.float32(unit[rules.Y] * sign / rules.HALF_Y)
        seen[first + 3] = np.float32(unit[rules.LEFT] / 1000)
        seen[first + 4] = _power(card, figures)
        seen[first + 5] = np.float32(figures[card, cards.RANGE] / 10_000)
        seen[first + 6] = np.float32(figures[card, cards.SPEED] / 100)
        seen[first + 7], seen[first + 8] = figures[card, cards.FLIES], aims == cards.BUILDINGS
        seen[first + 9], seen[first + 10] = aims == cards.ANY, np.float32(figures[card, cards.SPLASH] / 1000)
        seen[first + 11] = np.float32(max(unit[rules.STILL], 0) / 10)
