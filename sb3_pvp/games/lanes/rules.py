"""The rules of the lanes, in Numba, with whole numbers only: so that a battle and its mirror image agree in every bit.

Places are thousandths of a tile from the middle of the arena; the first seat's side is below, y < 0, and the second
seat sees everything turned by half a circle. In a tick all choose targets, strike and step by what was before it; then
health falls, all move together, and bodies push each other apart. No seat comes first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.compiled import compiled, compiled_inline, compiled_with_arrays
from sb3_pvp.games.lanes.cards import (
    AIMS,
    BUILDING,
    BUILDINGS,
    COST,
    COUNT,
    DAMAGE,
    DECK_SIZE,
    DEPLOY,
    FLIES,
    GROUND,
    HEALTH,
    KIND,
    LIFE,
    NUM_TOWERS,
    PAUSE,
    RADIUS,
    RANGE,
    SHARE,
    SIGHT,
    SPEED,
    SPELL,
    SPLASH,
    STUN,
    TOWER,
)
from sb3_pvp.games.lanes.layout import COLUMNS, OWN_ROWS, POCKET, ROWS

Ints = NDArray[np.int64]
Units = NDArray[np.int32]
Battles = tuple[Units, Ints, Ints, Ints, Ints, Ints]  #: See `play_battles`.

MOST_UNITS = 32  #: Of a side, with its towers and spells on their way.
#: What is known of a unit; a slot is free while `LEFT`, its health, is 0.
CARD, X, Y, LEFT, TARGET, WAIT, STILL, AGE = range(8)
#: `STILL` of a keep that nobody has woken.
ASLEEP = -1
#: Elixir is counted in drops: one comes in a tick, two in the last minute and after.
DROPS, MOST_ELIXIR, FIRST_ELIXIR = 28, 280, 140
DOUBLE_FROM, SUDDEN_FROM, LAST_TICK = 1200, 1800, 2400
#: How a battle ends.
FIRST_WINS, SECOND_WINS, DRAW = 1, 2, 3

HALF_X, HALF_Y, RIVER = 9000, 16000, 1000
BRIDGE, BRIDGE_HALF, BRIDGE_SIDE = 5500, 700, 1000
#: Splash of those with less range than this is around themselves.
REACH = 2000
TOWER_X, TOWER_Y = np.array([-BRIDGE, BRIDGE, 0]), np.array([-9500, -9500, -13000])
#: Where those that a card brings together stand, around the place that was chosen.
_AROUND = [(0, 0), (-600, 0), (600, 0), (0, -700), (-600, -700), (600, -700), (-1200, -300), (1200, -300)]
RING = np.array([_AROUND[:1] * 8, [(-500, 0), (500, 0)] * 4, *[_AROUND] * 6], np.int64)
#: Scratch of a unit in a tick.
_HURT, _STUNNED, _STEP_X, _STEP_Y = range(4)
#: And of a body that others push.
_AT_X, _AT_Y, _WIDE, _WALKS, _OWNER, _SLOT, _PUSH_X, _PUSH_Y = range(8)
_FAR_AWAY = 1_000_000
_FIRST_POCKET, _POCKETS = ROWS, len(POCKET)
_POCKET_ROW, _OWN_ROWS, _HALF_COLUMNS = POCKET[0], OWN_ROWS, COLUMNS // 2


@compiled_with_arrays
def play_battles(fights: Ints, actions: Ints, figures: Ints, lengths: Ints, battles: Battles, ends: Ints) -> None:
    """Plays a decision of some battles.

    Args:
        fights: numbers of the battles ``(N,)``.
        actions: cards (0: none), columns and rows of both seats, see `sb3_pvp.games.lanes.layout` ``(N, 2, 3)``.
        figures: of cards and towers, see `sb3_pvp.games.lanes.cards.CardTable`.
        lengths: ticks of a decision ``(F,)``.
        battles: what changes: units ``(F, 2, 32, 8)``; the highest slot in use and 1 ``(F, 2)``; drops of elixir
            ``(F, 2)``; decks, the hand first, then what comes next ``(F, 2, 8)``; since how many own cards each card
            has been played, 0 for never ``(F, 2, cards)``; and the ticks since the start ``(F,)``.
        ends: how they have ended, 0 for not at all ``(F,)``; written.
    """
    # Made once: to make them in every tick would take longer than all the rest.
    scratch, bodies = np.zeros((2, MOST_UNITS, 4), np.int64), np.zeros((2 * MOST_UNITS, 8), np.int64)
    for index, fight in enumerate(fights):
        _play_battle(fight, actions[index], figures, lengths[fight], battles, ends, scratch, bodies)


@compiled
def _play_battle(
    fight: int,
    actions: Ints,
    figures: Ints,
    length: int,
    battles: Battles,
    ends: Ints,
    scratch: Ints,
    bodies: Ints,
) -> None:
    units, tops, elixir, decks, played, clocks = battles
    for seat in range(2):
        card = actions[seat, 0] - 1
        if card >= 0 and is_legal(
            card, actions[seat], figures, units[fight], tops[fight], elixir[fight, seat], decks[fight], seat
        ):
            _play_card(card, decks[fight, seat], played[fight, seat])
            elixir[fight, seat] -= figures[card, COST] * DROPS
            _place(card, actions[seat], figures, units[fight, seat], tops[fight], seat)
    for _ in range(length):
        clocks[fight] += 1
        _tick(clocks[fight], figures, units[fight], tops[fight], elixir[fight], scratch, bodies)
        ends[fight] = _verdict(clocks[fight], figures, units[fight])
        if ends[fight] != 0:
            break


@compiled
def is_legal(
    card: int, action: Ints, figures: Ints, units: Units, tops: Ints, drops: int, decks: Ints, seat: int
) -> bool:
    """Returns whether a seat of a battle may play a card there: it has it, can pay it, and the tile is open to it."""
    column, row = action[1], action[2]
    is_spell = figures[card, KIND] == SPELL
    if drops < figures[card, COST] * DROPS or not has_room(card, figures, units[seat], tops[seat]):
        return False
    if row >= _FIRST_POCKET:
        side = (row - _FIRST_POCKET) // _POCKETS
        if is_spell or column // _HALF_COLUMNS != side or not is_open(units, seat, side):
            return False
    elif row >= _OWN_ROWS and not is_spell:
        return False
    for place in range(4):
        if decks[seat, place] == card:
            return True
    return False


@compiled
def is_open(units: Units, seat: int, side: int) -> bool:
    """Returns whether the other seat's guard on this one's left (0) or right (1) has fallen."""
    return bool(units[1 - seat, 1 - side, LEFT] == 0)


@compiled
def has_room(card: int, figures: Ints, own: Units, top: int) -> bool:
    """Returns whether as many slots are free as a card brings units."""
    free = MOST_UNITS - top
    for slot in range(NUM_TOWERS, top):
        free += own[slot, LEFT] == 0
    return bool(free >= figures[card, COUNT])


@compiled
def _play_card(card: int, deck: Ints, played: Ints) -> None:
    """Puts a card of the hand to the end of the deck, and the next one in its place."""
    place = 0
    while deck[place] != card:
        place += 1
    deck[place] = deck[4]
    for later in range(4, DECK_SIZE - 1):
        deck[later] = deck[later + 1]
    deck[DECK_SIZE - 1] = card
    for each in range(len(played)):
        if played[each] > 0:
            played[each] += 1
    played[card] = 1


@compiled
def _place(card: int, action: Ints, figures: Ints, own: Units, tops: Ints, seat: int) -> None:
    """Puts what a card brings on its tile, in the first free slots."""
    row = action[2]
    if row >= _FIRST_POCKET:
        row = _POCKET_ROW + (row - _FIRST_POCKET) % _POCKETS
    sign, radius = 1 - 2 * seat, figures[card, RADIUS]
    middle_x, middle_y = action[1] * 1000 + 500 - HALF_X, row * 1000 + 500 - HALF_Y
    if figures[card, KIND] == BUILDING:
        for tower in range(NUM_TOWERS):  # buildings do not give way: this one stands before the tower
            apart = radius + figures[own[tower, CARD], RADIUS]
            near = abs(middle_x - TOWER_X[tower]) < apart and abs(middle_y - TOWER_Y[tower]) < apart
            if near and own[tower, LEFT] > 0:
                middle_y = TOWER_Y[tower] + apart
    slot, count = NUM_TOWERS, figures[card, COUNT]
    for number in range(count):
        while slot < tops[seat] and own[slot, LEFT] > 0:
            slot += 1
        x, y = middle_x + RING[count - 1, number, 0], middle_y + RING[count - 1, number, 1]
        if count > 1:  # on the same bank as their tile
            y = max(y, RIVER) if middle_y > RIVER else min(y, -RIVER)
        x, y = min(max(x, radius - HALF_X), HALF_X - radius), min(max(y, radius - HALF_Y), HALF_Y - radius)
        own[slot, CARD], own[slot, X], own[slot, Y] = card, sign * x, sign * y
        own[slot, LEFT] = max(figures[card, HEALTH], 1)  # of a spell on its way: no target, but there
        own[slot, TARGET], own[slot, WAIT] = -1, 0
        own[slot, STILL], own[slot, AGE] = figures[card, DEPLOY], figures[card, LIFE]
        tops[seat] = max(tops[seat], slot + 1)


@compiled
def _tick(clock: int, figures: Ints, units: Units, tops: Ints, elixir: Ints, scratch: Ints, bodies: Ints) -> None:
    """Plays a tick of a battle."""
    drops = 2 if clock > DOUBLE_FROM else 1
    for seat in range(2):
        elixir[seat] = min(elixir[seat] + drops, MOST_ELIXIR)
        for slot in range(tops[seat]):
            for column in range(4):
                scratch[seat, slot, column] = 0
    for seat in range(2):
        for slot in range(tops[seat]):
            if units[seat, slot, LEFT] > 0:
                _act(clock, seat, slot, figures, units, tops, scratch)
    for seat in range(2):
        _suffer(seat, figures, units, tops, scratch)
    for seat in range(2):
        while units[seat, tops[seat] - 1, LEFT] == 0 and tops[seat] > NUM_TOWERS:
            tops[seat] -= 1
    if clock & 1:
        _push_apart(figures, units, tops, bodies)


@compiled_inline
def _act(clock: int, seat: int, slot: int, figures: Ints, units: Units, tops: Ints, scratch: Ints) -> None:
    """Lets a unit choose a target, and strike it or walk to it; writes to the scratch only, and to the unit itself."""
    card, other_seat = units[seat, slot, CARD], 1 - seat
    if units[seat, slot, STILL] != 0:
        if units[seat, slot, STILL] > 0:
            units[seat, slot, STILL] -= 1
        if units[seat, slot, STILL] != 0 or figures[card, KIND] != SPELL:
            return
    if figures[card, KIND] == SPELL:
        _burst(units[seat, slot, X], units[seat, slot, Y], other_seat, card, figures, units, tops, scratch)
        units[seat, slot, LEFT] = 0
        return
    if units[seat, slot, AGE] > 0:
        units[seat, slot, AGE] -= 1
        if units[seat, slot, AGE] == 0:
            scratch[seat, slot, _HURT] += units[seat, slot, LEFT]
    if units[seat, slot, WAIT] > 0:
        units[seat, slot, WAIT] -= 1
    target: Any = np.int64(units[seat, slot, TARGET])
    if target < 0 or not _reaches(seat, slot, target, figures, units):
        # Who walks looks round in every third tick, slot by slot, and when its target is gone.
        if target < 0 or (clock + slot) % 3 == 0:
            target = _choose_target(seat, slot, figures, units, tops)
            units[seat, slot, TARGET] = target
        if target < 0 or not _reaches(seat, slot, target, figures, units):
            if target >= 0 and figures[card, SPEED] > 0:
                _step(seat, slot, target, figures, units, scratch)
            return
    if units[seat, slot, WAIT] == 0:
        units[seat, slot, WAIT] = figures[card, PAUSE]
        if figures[card, SPLASH] > 0:
            side, hit = (seat, slot) if figures[card, RANGE] < REACH else (other_seat, target)
            _burst(units[side, hit, X], units[side, hit, Y], other_seat, card, figures, units, tops, scratch)
        else:
            scratch[other_seat, target, _HURT] += figures[card, DAMAGE]


@compiled
def _reaches(seat: int, slot: int, target: int, figures: Ints, units: Units) -> bool:
    """Returns whether a unit can strike another one from where it stands."""
    x = np.int64(units[1 - seat, target, X]) - units[seat, slot, X]
    y = np.int64(units[1 - seat, target, Y]) - units[seat, slot, Y]
    card, other = units[seat, slot, CARD], units[1 - seat, target, CARD]
    reach = figures[card, RANGE] + figures[card, RADIUS] + figures[other, RADIUS]
    return bool(x * x + y * y <= reach * reach)


@compiled
def _may_hit(aims: int, card: int, figures: Ints) -> bool:
    """Returns whether who aims at this may hit a card's units."""
    kind = figures[card, KIND]
    if kind == SPELL:
        return False
    if aims == BUILDINGS:
        return bool(kind in (BUILDING, TOWER))
    return bool(aims != GROUND or figures[card, FLIES] == 0)


@compiled
def _choose_target(seat: int, slot: int, figures: Ints, units: Units, tops: Ints) -> int:
    """Returns the slot of the nearest unit in sight; else, for who can walk, that of the tower ahead; -1 for none."""
    card, best, target, side = units[seat, slot, CARD], np.int64(1) << 60, np.int64(-1), 1 - seat
    x, y, aims = np.int64(units[seat, slot, X]), np.int64(units[seat, slot, Y]), figures[card, AIMS]
    sight = figures[card, SIGHT] + figures[card, RADIUS]
    for other in range(tops[side]):
        if units[side, other, LEFT] > 0:
            far_x, far_y = units[side, other, X] - x, units[side, other, Y] - y
            far = far_x * far_x + far_y * far_y
            limit = sight + figures[units[side, other, CARD], RADIUS]
            if far < best and far <= limit * limit and _may_hit(aims, units[side, other, CARD], figures):
                best, target = far, np.int64(other)
    if target < 0 and figures[card, SPEED] > 0:
        # The guards of the other side are numbered from its own left.
        guard = 1 if x * (1 - 2 * seat) <= 0 else 0
        target = np.int64(guard if units[side, guard, LEFT] > 0 else NUM_TOWERS - 1)
    return int(target)


@compiled
def _part(whole: Any, share: Any, of: Any) -> Any:
    """Returns ``whole * share / of``, cut towards 0, so that it is the same to both sides."""
    return whole * share // of if whole >= 0 else -(-whole * share // of)


@compiled
def _burst(x: int, y: int, seat: int, card: int, figures: Ints, units: Units, tops: Ints, scratch: Ints) -> None:
    """Hurts and stuns all of a seat's units around a place, as far as the splash of a card goes."""
    for slot in range(tops[seat]):
        other = units[seat, slot, CARD]
        if units[seat, slot, LEFT] > 0 and _may_hit(figures[card, AIMS], other, figures):
            far_x, far_y = np.int64(units[seat, slot, X]) - x, np.int64(units[seat, slot, Y]) - y
            reach = figures[card, SPLASH] + figures[other, RADIUS]
            if far_x * far_x + far_y * far_y <= reach * reach:
                share = figures[card, SHARE] if figures[other, KIND] == TOWER else 100
                scratch[seat, slot, _HURT] += figures[card, DAMAGE] * share // 100
                scratch[seat, slot, _STUNNED] = max(scratch[seat, slot, _STUNNED], figures[card, STUN])


@compiled
def _step(seat: int, slot: int, target: int, figures: Ints, units: Units, scratch: Ints) -> None:
    """Writes how far a unit walks in this tick; who cannot fly crosses the river on a bridge."""
    x, y, sign = np.int64(units[seat, slot, X]), np.int64(units[seat, slot, Y]), 1 - 2 * seat
    goal_x: Any = np.int64(units[1 - seat, target, X])
    goal_y: Any = np.int64(units[1 - seat, target, Y])
    card = units[seat, slot, CARD]
    if figures[card, FLIES] == 0:
        bank = 1 if goal_y > 0 or (goal_y == 0 and sign > 0) else -1
        if abs(y) < RIVER or (y > 0) != (bank > 0):
            bridge = BRIDGE * sign if x * sign >= 0 else -BRIDGE * sign
            goal_x = min(max(x, bridge - BRIDGE_HALF), bridge + BRIDGE_HALF)
            # Straight over, once it stands before the bridge.
            goal_y = bank * RIVER if abs(y) < RIVER or x == goal_x else (RIVER if y > 0 else -RIVER)
    x, y = goal_x - x, goal_y - y
    far, speed = np.int64(np.sqrt(np.float64(x * x + y * y))), figures[card, SPEED]
    if far <= speed:
        scratch[seat, slot, _STEP_X], scratch[seat, slot, _STEP_Y] = x, y
    else:
        scratch[seat, slot, _STEP_X], scratch[seat, slot, _STEP_Y] = _part(x, speed, far), _part(y, speed, far)


@compiled
def _suffer(seat: int, figures: Ints, units: Units, tops: Ints, scratch: Ints) -> None:
    """Takes health; who has none left is gone, and nobody aims at it any more. Wakes the keep; who is left steps."""
    for slot in range(tops[seat]):
        if units[seat, slot, LEFT] == 0:
            continue
        if scratch[seat, slot, _STUNNED] > 0 and units[seat, slot, STILL] != ASLEEP:
            units[seat, slot, STILL] = max(units[seat, slot, STILL], scratch[seat, slot, _STUNNED])
        units[seat, slot, LEFT] = max(units[seat, slot, LEFT] - scratch[seat, slot, _HURT], 0)
        units[seat, slot, X] += scratch[seat, slot, _STEP_X]
        units[seat, slot, Y] += scratch[seat, slot, _STEP_Y]
        if units[seat, slot, LEFT] == 0:
            for other in range(tops[1 - seat]):
                if units[1 - seat, other, TARGET] == slot:
                    units[1 - seat, other, TARGET] = -1
    keep = NUM_TOWERS - 1
    hurt = units[seat, keep, LEFT] < figures[units[seat, keep, CARD], HEALTH]
    if units[seat, keep, STILL] == ASLEEP and (hurt or units[seat, 0, LEFT] == 0 or units[seat, 1, LEFT] == 0):
        units[seat, keep, STILL] = 0


@compiled
def _push_apart(figures: Ints, units: Units, tops: Ints, bodies: Ints) -> None:
    """Moves bodies that overlap apart, all together: buildings stay, who flies meets only who flies."""
    count = 0
    for seat in range(2):
        for slot in range(tops[seat]):
            card = units[seat, slot, CARD]
            if units[seat, slot, LEFT] > 0 and figures[card, KIND] != SPELL:
                # Those in the air as if they were far away.
                bodies[count, _AT_X] = units[seat, slot, X] + figures[card, FLIES] * _FAR_AWAY
                bodies[count, _AT_Y], bodies[count, _WIDE] = units[seat, slot, Y], figures[card, RADIUS]
                bodies[count, _WALKS], bodies[count, _OWNER] = figures[card, SPEED] > 0, seat
                bodies[count, _SLOT], bodies[count, _PUSH_X], bodies[count, _PUSH_Y] = slot, 0, 0
                count += 1
    for one in range(count):
        x, y, wide = bodies[one, _AT_X], bodies[one, _AT_Y], bodies[one, _WIDE]
        for two in range(one + 1, count):
            apart = wide + bodies[two, _WIDE]
            if abs(bodies[two, _AT_X] - x) < apart and abs(bodies[two, _AT_Y] - y) < apart:
                _push_pair(one, two, bodies)
    for body in range(count):
        if bodies[body, _WALKS] > 0:
            _put(body, figures, units, bodies)


@compiled
def _push_pair(one: int, two: int, bodies: Ints) -> None:
    """Adds up by how much two bodies are pushed, so that they no longer overlap."""
    apart = bodies[one, _WIDE] + bodies[two, _WIDE]
    x, y = bodies[two, _AT_X] - bodies[one, _AT_X], bodies[two, _AT_Y] - bodies[one, _AT_Y]
    walk = bodies[one, _WALKS] + bodies[two, _WALKS]
    if x * x + y * y >= apart * apart or walk == 0:
        return
    if x == 0 and y == 0:  # at one place: own ones to the sides, others each back to where it came from
        ahead = 1 - 2 * bodies[one, _OWNER]
        x, y = (-ahead, 0) if bodies[one, _OWNER] == bodies[two, _OWNER] else (0, ahead)
    far = max(np.int64(np.sqrt(np.float64(x * x + y * y))), 1)
    push = (apart - far) // walk
    push_x, push_y = _part(x, push, far), _part(y, push, far)
    if walk == 1:  # and to the side, past it: nobody walks against a building for ever
        push_x -= _part(push_y, 1, 2)
    bodies[one, _PUSH_X] -= push_x
    bodies[one, _PUSH_Y] -= push_y
    bodies[two, _PUSH_X] += push_x
    bodies[two, _PUSH_Y] += push_y


@compiled
def _put(body: int, figures: Ints, units: Units, bodies: Ints) -> None:
    """Moves a body to where it was pushed: in the arena, and not into the river where there is no bridge."""
    seat, slot = bodies[body, _OWNER], bodies[body, _SLOT]
    card = units[seat, slot, CARD]
    x, y = units[seat, slot, X] + bodies[body, _PUSH_X], units[seat, slot, Y] + bodies[body, _PUSH_Y]
    wide = bodies[body, _WIDE]
    x, y = min(max(x, wide - HALF_X), HALF_X - wide), min(max(y, wide - HALF_Y), HALF_Y - wide)
    if abs(y) < RIVER and figures[card, FLIES] == 0:
        bridge = BRIDGE if x > 0 else -BRIDGE
        if abs(x - bridge) <= BRIDGE_SIDE + 300:
            x = min(max(x, bridge - BRIDGE_SIDE), bridge + BRIDGE_SIDE)
        else:
            y = RIVER if units[seat, slot, Y] > 0 else -RIVER
    units[seat, slot, X], units[seat, slot, Y] = x, y


@compiled
def _verdict(clock: int, figures: Ints, units: Units) -> int:
    """Returns how a battle has ended, 0 if it goes on."""
    first, second = units[0, NUM_TOWERS - 1, LEFT] > 0, units[1, NUM_TOWERS - 1, LEFT] > 0
    lead = 0
    for tower in range(NUM_TOWERS):
        lead += (units[0, tower, LEFT] > 0) - np.int64(units[1, tower, LEFT] > 0)
    if not first or not second:
        lead = int(first) - int(second)
        return FIRST_WINS if lead > 0 else SECOND_WINS if lead < 0 else DRAW
    if clock == LAST_TICK and lead == 0:  # whose weakest tower has more health
        lead = weakest(figures, units[0]) - weakest(figures, units[1])
    if clock >= SUDDEN_FROM and lead != 0:
        return FIRST_WINS if lead > 0 else SECOND_WINS
    return DRAW if clock == LAST_TICK else 0


@compiled
def weakest(figures: Ints, own: Units) -> int:
    """Returns the least health of a side's towers that stand."""
    least = np.int64(1) << 60
    for tower in range(NUM_TOWERS):
        if own[tower, LEFT] > 0:
            least = min(least, np.int64(own[tower, LEFT]))
    return int(least)


@compiled
def count_towers(fights: Ints, figures: Ints, units: Units, standing: Ints, health: NDArray[np.float64]) -> None:
    """Writes how many towers of both sides stand, and their health as shares of a tower's, both ``(N, 2)``."""
    for index, fight in enumerate(fights):
        for seat in range(2):
            standing[index, seat], health[index, seat] = 0, 0.0
            for tower in range(NUM_TOWERS):
                left = units[fight, seat, tower, LEFT]
                standing[index, seat] += left > 0
                health[index, seat] += left / figures[units[fight, seat, tower, CARD], HEALTH]
