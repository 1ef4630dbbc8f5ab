"""What agents see: rays that name what they meet first, and how far it is. In Numba."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.compiled import compiled, compiled_with_arrays
from sb3_pvp.games.soccer.physics import Floats, Ints
from sb3_pvp.games.soccer.pitch import AGENT_CAST, BALL_CAST, BOXES, CAST_RADIUS, KIND, NUM_KINDS, RAY_LENGTH, UNTOLD

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


@compiled_with_arrays
def see(
    fights: Ints,
    places: Floats,
    yaws: Floats,
    boxes: Floats,
    out: NDArray[np.float32],
    agent: int,
    angles: Floats,
    frames: Ints,
    num_tags: int,
    tags: Ints,
) -> None:
    """Casts the rays of an agent on some pitches, as the newest of its frames in ``out``.

    Args:
        fights, places, yaws, boxes: see `sb3_pvp.games.soccer.physics.play`.
        out: all that is seen on the pitches, ``(F, numbers)``.
        agent: its number.
        angles: of its rays, in degrees clockwise from the yaw ``(R,)``.
        frames: where the numbers of each ray begin in ``out``, in the three frames, the oldest first ``(R, 3)``. These
            are the tags, of which one is 1, a flag that is 1 if nothing is met, and the distance in ray lengths.
        num_tags: how many kinds of things its sensors tell apart.
        tags: those of everything, see `sb3_pvp.games.soccer.layout.Layout.tags`.
    """
    cosines, sines, ball = np.cos(np.radians(angles)), np.sin(np.radians(angles)), places.shape[1] - 1
    for fight in fights:
        bodies, seen = places[fight], out[fight]
        x, z = bodies[agent]
        yaw = math.radians(yaws[fight, agent])
        ahead_x, ahead_z = math.sin(yaw), math.cos(yaw)
        for ray in range(len(angles)):
            ray_x = ahead_x * cosines[ray] + ahead_z * sines[ray]
            ray_z = ahead_z * cosines[ray] - ahead_x * sines[ray]
            box, distance = meet_box(x, z, ray_x, ray_z, boxes)
            tag = num_tags if box < 0 else tags[int(boxes[box, KIND])]
            for body in range(ball + 1):  # its own one is around its start, and never met
                away_x, away_z = bodies[body, 0] - x, bodies[body, 1] - z
                met = meet_circle(away_x, away_z, ray_x, ray_z, BALL_CAST if body == ball else AGENT_CAST)
                if met < distance:
                    tag, distance = tags[NUM_KINDS + body], met
            oldest, older, newest = frames[ray]
            for value in range(num_tags + 2):
                seen[oldest + value] = seen[older + value]
                seen[older + value] = seen[newest + value]
                seen[newest + value] = 0.0
            if tag != UNTOLD:
                seen[newest + tag] = 1.0
            seen[newest + num_tags + 1] = distance / RAY_LENGTH


@compiled
def meet_circle(x: float, z: float, ray_x: float, ray_z: float, radius: float) -> float:
    """Returns how far a ray goes to a circle around a point, seen from its start; infinity if never, or from inside."""
    along, square = x * ray_x + z * ray_z, x * x + z * z
    gap = square - along * along - radius * radius
    if along <= 0.0 or gap > 0.0 or square <= radius * radius:
        return math.inf
    return along - math.sqrt(-gap)


@compiled
def meet_box(x: float, z: float, ray_x: float, ray_z: float, boxes: Floats) -> tuple[int, float]:
    """Returns the box that a cast meets first, and how far it goes; -1 and `RAY_LENGTH` if there is none.

    Like Unity's, a cast does not see what its start overlaps. Who is pressed against a wall sees it all the same.
    """
    reached, side = RAY_LENGTH, -1
    # Whether its start is within the walls: it overlaps none, and is in no goal.
    inside = min(SIDE - abs(z), CORNER - CORNER_X * abs(x) - CORNER_Z * abs(z)) > -PRESSED
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
def _cast_to_box(x: float, z: float, ray_x: float, ray_z: float, box: Floats) -> float:
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
