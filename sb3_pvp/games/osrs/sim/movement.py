"""Walking, following and reach on open ground (mechanics.md §4.4 and §13)."""

from __future__ import annotations

import numpy as np

from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.rng import below
from sb3_pvp.games.osrs.sim.state import FREEZE_TIMER, NO_SPELL_SELECTED, Fight, Seat

#: A follower gives up beyond this many tiles in x or y (mechanics.md §13.2).
MAX_FOLLOW = 15
MELEE_REACH = 1
_FAR = 1 << 30  # more than any distance
# Offsets of neighbour tiles. The order decides ties when following, and which tile a random draw picks when walking.
_SOUTH_NORTH_WEST_EAST = np.array([(0, -1), (0, 1), (-1, 0), (1, 0)], np.int64)
_CARDINAL_OR_DIAGONAL = np.array([[(-1, 0), (1, 0), (0, -1), (0, 1)], [(-1, -1), (1, -1), (-1, 1), (1, 1)]], np.int64)
#: Ticks of running: 100 points, and 2 that come back while a fight lasts (disagreements.md §4).
FULL_RUN_ENERGY = 102


@rule
def distance(me: Seat, foe: Seat) -> int:
    """Returns the Chebyshev distance in tiles."""
    return int(max(abs(me.x - foe.x), abs(me.y - foe.y)))


@rule
def is_diagonal(me: Seat, foe: Seat) -> bool:
    """Whether the seats are exactly one diagonal step apart."""
    return bool(abs(me.x - foe.x) == 1 and abs(me.y - foe.y) == 1)


@rule
def is_frozen(seat: Seat) -> bool:
    """Whether the freeze timer runs."""
    return bool(seat.timer[FREEZE_TIMER] > 0)


@rule
def in_reach(me: Seat, foe: Seat, reach: int) -> bool:
    """Runs the reach test of mechanics.md §4.4; ``reach`` 1 means melee."""
    apart = distance(me, foe)
    if apart == 0:
        return False  # on one tile neither side can attack
    if reach > MELEE_REACH:
        return apart <= reach
    if apart > MELEE_REACH + (1 if me.moving and foe.moving else 0):
        return False
    return bool(foe.moving) or not is_diagonal(me, foe)  # only a moving target can be hit diagonally


@rule
def stop(seat: Seat) -> None:
    """Clears the step queue and the moving flag."""
    seat.walking = 0
    seat.moving = 0
    seat.goal_x = seat.x
    seat.goal_y = seat.y


@rule
def queue_path(seat: Seat, x: int, y: int) -> None:
    """Queues the shortest path to a tile, which on open ground is given by its end; nothing while frozen."""
    if is_frozen(seat):
        return
    seat.goal_x = x
    seat.goal_y = y
    seat.walking = 1 if x != seat.x or y != seat.y else 0


@rule
def walk_to(seat: Seat, x: int, y: int) -> None:
    """Walks by an order, which drops the spell, the combat target and the old path (nh-actions.md §5.10)."""
    stop(seat)
    seat.spell = NO_SPELL_SELECTED
    seat.targeting = 0
    queue_path(seat, x, y)


@rule
def queue_beside(me: Seat, foe: Seat) -> None:
    """Queues a path to the best of the four cardinal neighbours of the target (mechanics.md §13.2)."""
    best, best_x, best_y = _FAR, me.x, me.y
    for k in range(len(_SOUTH_NORTH_WEST_EAST)):
        x, y = foe.x + _SOUTH_NORTH_WEST_EAST[k, 0], foe.y + _SOUTH_NORTH_WEST_EAST[k, 1]
        away = max(abs(me.x - x), abs(me.y - y))
        aligned = x == me.x or y == me.y
        if away < best or (away == best and aligned):
            best, best_x, best_y = away, x, y
    queue_path(me, best_x, best_y)


@rule
def follow(me: Seat, foe: Seat, reach: int) -> None:
    """Rebuilds the path towards the combat target, unless it is within reach already (mechanics.md §13.2)."""
    stop(me)  # first: the moving flag would lengthen the own melee reach by a tile
    if in_reach(me, foe, reach):
        return
    dx, dy = me.x - foe.x, me.y - foe.y
    if abs(dx) > MAX_FOLLOW or abs(dy) > MAX_FOLLOW:
        me.targeting = 0
    elif reach == MELEE_REACH or (dx == 0 and dy == 0):
        queue_beside(me, foe)
    else:  # beyond the ring of radius `reach`, its nearest tile is the clamped offset
        queue_path(me, foe.x + min(max(dx, -reach), reach), foe.y + min(max(dy, -reach), reach))


@rule
def _step(seat: Seat) -> None:
    """Takes one step: straight along the longer axis first, diagonal at the end (mechanics.md §13.3)."""
    dx, dy = seat.goal_x - seat.x, seat.goal_y - seat.y
    if abs(dx) >= abs(dy) and dx != 0:
        seat.x += 1 if dx > 0 else -1
    if abs(dy) >= abs(dx) and dy != 0:
        seat.y += 1 if dy > 0 else -1
    seat.walking = 1 if seat.x != seat.goal_x or seat.y != seat.goal_y else 0


@rule
def advance(seat: Seat) -> None:
    """Takes up to two queued steps, one without run energy, and sets the moving flag (mechanics.md §13.1)."""
    seat.moving = 0
    if not seat.walking:
        return
    _step(seat)
    if seat.running and seat.walking:
        _step(seat)
    seat.moving = 1
    if seat.run_energy > 0:
        seat.run_energy -= 1
        if seat.run_energy == 0:
            seat.running = 0


@rule
def walk_to_nearest_on_ring(fight: Fight, me: Seat, radius: int) -> None:
    """Walks to the nearest tile at distance ``radius`` from the target's last seen tile (mechanics.md §13.5)."""
    if max(abs(me.x - me.last_x), abs(me.y - me.last_y)) == radius:
        return
    best, ties, goal_x, goal_y = _FAR, 0, me.x, me.y
    for x in range(me.last_x - radius, me.last_x + radius + 1):
        on_side = abs(x - me.last_x) == radius
        for y in range(me.last_y - radius, me.last_y + radius + 1, 1 if on_side else 2 * radius):
            away = max(abs(me.x - x), abs(me.y - y))
            # The k-th of equally near tiles replaces the choice with probability 1/k: all are equally likely.
            ties = ties + 1 if away == best else 1 if away < best else ties
            if away < best or (away == best and below(fight, ties) == 0):
                best, goal_x, goal_y = away, x, y
    walk_to(me, goal_x, goal_y)


@rule
def walk_beside(fight: Fight, me: Seat, diagonal: bool) -> None:
    """Walks to the nearest cardinal or diagonal neighbour of the target's last seen tile, ties at random."""
    best, ties, goal_x, goal_y = _FAR, 0, me.x, me.y
    offsets = _CARDINAL_OR_DIAGONAL[1 if diagonal else 0]
    for k in range(len(offsets)):
        x, y = me.last_x + offsets[k, 0], me.last_y + offsets[k, 1]
        away = max(abs(me.x - x), abs(me.y - y))
        ties = ties + 1 if away == best else 1 if away < best else ties
        if away < best or (away == best and below(fight, ties) == 0):
            best, goal_x, goal_y = away, x, y
    if best > 0:
        walk_to(me, goal_x, goal_y)
