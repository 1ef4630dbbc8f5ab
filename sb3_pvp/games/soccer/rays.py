"""What agents see: rays that name what they meet first, and how far it is. In Numba."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.soccer.physics import compiled
from sb3_pvp.games.soccer.pitch import AGENT_CAST, BALL_CAST, BOXES, CAST_RADIUS, KIND, NOTHING, RAY_LENGTH

#: Whoever is pressed against a wall may be in it by so much.
PRESSED = 0.01

# The inner faces of walls, moved inwards by the radius of a cast: what its centre can reach. Sides at z = +- SIDE;
# corners where CORNER_X * |x| + CORNER_Z * |z| = CORNER, down to |z| = CORNER_END.
PLAIN = len(BOXES)
SIDE = float(BOXES[0, 1] - BOXES[0, 3] - CAST_RADIUS)
_X, _Z, _LENGTH, _THICKNESS = BOXES[2, :4].tolist()
CORNER_X, CORNER_Z = math.cos(math.radians(30)), math.sin(math.radians(30))
CORNER = CORNER_X * _X + CORNER_Z * _Z - _THICKNESS - CAST_RADIUS
SIDE_END = (CORNER - CORNER_Z * SIDE) / CORNER_X
CORNER_END = _Z - CORNER_Z * (_THICKNESS + CAST_RADIUS) - CORNER_X * _LENGTH
#: Where a wall before a goal begins to hide the corners.
BLOCKER_END = 5.0
#: Boxes that are further behind a ray's start than this cannot be met.
FAR = 4.0


@compiled
def see(
    fights: NDArray[np.int64],
    agents: NDArray[np.int64],
    places: NDArray[np.float64],
    yaws: NDArray[np.float64],
    boxes: NDArray[np.float64],
    angles: NDArray[np.float64],
    num_tags: int,
    ball_tag: int,
    box_tags: NDArray[np.int64],
    agent_tags: NDArray[np.int64],
    out: NDArray[np.float32],
    begins: NDArray[np.int64],
) -> None:
    """Casts the rays of one sensor of some agents on some pitches, as the newest of the frames in ``out``.

    Args:
        fights: numbers of the pitches ``(N,)``.
        agents: numbers of the agents ``(A,)``.
        places: of the agents and of the ball ``(F, K + 1, 2)``.
        yaws: of the agents, in degrees ``(F, K)``.
        boxes: what stands, see `sb3_pvp.games.soccer.pitch.BOXES`.
        angles: of the rays, in degrees clockwise from the yaw ``(R,)``.
        num_tags: how many kinds of things the sensor tells apart.
        ball_tag: the ball's.
        box_tags: those of walls, the blue and the purple goal, by agent ``(A, 3)``; -1: it cannot be told.
        agent_tags: those of the other agents, by agent ``(A, K)``.
        out: all that is seen on the pitches, ``(F, numbers)``, contiguous.
        begins: where the three frames of each agent's sensor begin there ``(A,)``, oldest first. A frame has for each
            ray the tags, of which one is 1, a flag that is 1 if nothing is met, and the distance in ray lengths.
    """
    cosines, sines = np.cos(np.radians(angles)), np.sin(np.radians(angles))
    values, ball = num_tags + 2, places.shape[1] - 1
    size = len(angles) * values
    around = np.empty((ball, 4))
    for index in range(len(fights)):
        fight = fights[index]
        for number in range(len(agents)):
            agent, begin = agents[number], begins[number]
            frames = out[fight, begin : begin + 3 * size]
            for entry in range(2 * size):
                frames[entry] = frames[entry + size]
            newest = frames[2 * size :]
            newest[:] = 0.0
            x, z = places[fight, agent]
            others = 0
            for other in range(ball + 1):
                if other != agent:
                    around[others, 0], around[others, 1] = places[fight, other, 0] - x, places[fight, other, 1] - z
                    around[others, 2] = BALL_CAST if other == ball else AGENT_CAST
                    around[others, 3] = ball_tag if other == ball else agent_tags[number, other]
                    others += 1
            yaw = math.radians(yaws[fight, agent])
            ahead_x, ahead_z = math.sin(yaw), math.cos(yaw)
            for ray in range(len(angles)):
                ray_x = ahead_x * cosines[ray] + ahead_z * sines[ray]
                ray_z = ahead_z * cosines[ray] - ahead_x * sines[ray]
                box, distance = meet_box(x, z, ray_x, ray_z, boxes)
                tag = NOTHING if box < 0 else box_tags[number, int(boxes[box, KIND])]
                for other in range(others):
                    met = meet_circle(around[other, 0], around[other, 1], ray_x, ray_z, around[other, 2])
                    if met < distance:
                        tag, distance = int(around[other, 3]), met
                if tag >= 0:
                    newest[ray * values + tag] = 1.0
                elif tag == NOTHING:
                    newest[ray * values + num_tags] = 1.0
                newest[ray * values + num_tags + 1] = distance / RAY_LENGTH


@compiled
def meet_circle(x: float, z: float, ray_x: float, ray_z: float, radius: float) -> float:
    """Returns how far a ray goes to a circle around a point, seen from its start; infinity if never, or from inside."""
    along, square = x * ray_x + z * ray_z, x * x + z * z
    gap = square - along * along - radius * radius
    if along <= 0.0 or gap > 0.0 or square <= radius * radius:
        return math.inf
    return along - math.sqrt(-gap)


@compiled
def meet_box(x: float, z: float, ray_x: float, ray_z: float, boxes: NDArray[np.float64]) -> tuple[int, float]:
    """Returns the box that a cast meets first, and how far it goes; -1 and `RAY_LENGTH` if there is none.

    Like Unity's, a cast does not see what its start overlaps. Who is pressed against a wall sees it all the same.
    """
    reached, side, inside = RAY_LENGTH, -1, _room(x, z) > -PRESSED
    if inside:
        # The quick way, for almost all casts: from within the walls, whose order is that of `BOXES`.
        if abs(ray_z) > 1e-9:
            ahead = SIDE - z if ray_z > 0.0 else SIDE + z
            distance = max(ahead, 0.0) / abs(ray_z)
            if distance < reached:
                reached, side = distance, 0 if ray_z > 0.0 else 1
                if abs(x + reached * ray_x) < SIDE_END:
                    return side, reached
        for corner in range(4):
            along, across = CORNER_X if corner < 2 else -CORNER_X, CORNER_Z if corner % 2 == 0 else -CORNER_Z
            closing = along * ray_x + across * ray_z
            away = max(CORNER - along * x - across * z, 0.0)
            if closing > 1e-9 and away < reached * closing:
                reached, side = away / closing, 2 + corner
        if side < 2 or abs(z + reached * ray_z) > (CORNER_END if len(boxes) == PLAIN else BLOCKER_END):
            return side, reached
        # It goes between the corners, into a goal.
        reached, side = RAY_LENGTH, -1
    inside = inside and abs(x) < SIDE_END
    for box in range(len(boxes)):
        centre = boxes[box, 0]
        # From before the corners into a goal, only what stands on its side can be met.
        if centre * ray_x > 0.0 if inside else abs(centre) < 1.0 or (centre - x) * ray_x > -FAR:
            distance = _cast_to_box(x, z, ray_x, ray_z, boxes[box])
            if distance < reached:
                reached, side = distance, box
    return side, reached


@compiled
def _room(x: float, z: float) -> float:
    """Returns how far a cast's start is within the walls, less than 0 if it overlaps one, or is in a goal."""
    return float(min(SIDE - abs(z), CORNER - CORNER_X * abs(x) - CORNER_Z * abs(z)))


@compiled
def _cast_to_box(x: float, z: float, ray_x: float, ray_z: float, box: NDArray[np.float64]) -> float:
    """Returns how far a cast goes to a box; infinity if it does not meet it, or overlaps it at its start."""
    centre_x, centre_z, half_x, half_z, cos, sin = box[0], box[1], box[2], box[3], box[4], box[5]
    own_x = cos * (x - centre_x) + sin * (z - centre_z)
    own_z = cos * (z - centre_z) - sin * (x - centre_x)
    along_x, along_z = cos * ray_x + sin * ray_z, cos * ray_z - sin * ray_x
    away_x, away_z = max(abs(own_x) - half_x, 0.0), max(abs(own_z) - half_z, 0.0)
    if away_x * away_x + away_z * away_z < (CAST_RADIUS - PRESSED) ** 2:
        return math.inf
    # Where it enters the box grown by its radius.
    enters, leaves = -math.inf, math.inf
    for start, along, half in ((own_x, along_x, half_x), (own_z, along_z, half_z)):
        half += CAST_RADIUS
        if abs(along) < 1e-12:
            if abs(start) >= half:
                return math.inf
        else:
            one, other = (-half - start) / along, (half - start) / along
            enters, leaves = max(enters, min(one, other)), min(leaves, max(one, other))
    if enters > leaves or leaves <= 0.0:
        return math.inf
    enters = max(enters, 0.0)
    at_x, at_z = own_x + enters * along_x, own_z + enters * along_z
    if abs(at_x) <= half_x or abs(at_z) <= half_z:
        return enters if (own_x * along_x if abs(at_z) <= half_z else own_z * along_z) <= 0.0 else math.inf
    # At a corner the grown box is round.
    corner_x, corner_z = math.copysign(half_x, at_x), math.copysign(half_z, at_z)
    return meet_circle(corner_x - own_x, corner_z - own_z, along_x, along_z, CAST_RADIUS)
