"""The physics of a pitch, in Numba: agents run, turn and kick, bodies collide, and a goal is seen.

Bodies are circles: the agents, then the ball. All contacts of a moment are resolved together: one after another, the
team whose contacts come first would win more often.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.compiled import compiled, compiled_with_arrays
from sb3_pvp.games.soccer import pitch
from sb3_pvp.games.soccer.pitch import AGENT_MASS, AGENT_RADIUS, BALL_MASS, BALL_RADIUS, ROLLING, STEP

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: The furthest that a body may move before collisions are looked for: less than half of its radius.
_REACH = 0.25
#: Rounds in which the impulses of all contacts, and the distances of all bodies, are improved together.
_ROUNDS, _PUSHES = 8, 3
#: Metres of an overlap that does not matter.
_RESTING = 1e-12
#: Contacts of five bodies: ten pairs, and three walls each.
_MOST = 25
#: The two bodies of each contact ``(C, 2)``, the second of which may be a wall; their normals, which lead to the first
#: one ``(C, 2)``; and how deep they overlap ``(C,)``.
Contacts = tuple[Ints, Floats, Floats]
WALL = -1


@compiled_with_arrays
def play(
    fights: Ints,
    actions: Ints,
    state: tuple[Floats, Floats, Floats, Floats, NDArray[np.bool_], Ints],
    factors: Floats,
    always_kicks: NDArray[np.bool_],
    boxes: Floats,
    goals: NDArray[np.int8],
    touches: Ints,
) -> None:
    """Plays the steps of one decision on some pitches.

    Args:
        fights: numbers of the pitches ``(N,)``.
        actions: 0 to 2 for running, running sideways and turning of each agent ``(N, K, 3)``, see `_run`.
        state: what changes: places and speeds of the K agents and of the ball, both ``(F, K + 1, 2)``; the agents' yaws
            in degrees ``(F, K)``; the momentum that the ball gets in the next step ``(F, 2)``; which agents touch it
            ``(F, K)``; and the steps since the start ``(F,)``.
        factors: of the agents' speeds, forward and sideways ``(K, 2)``.
        always_kicks: which agents kick also when they do not run forward ``(K,)``.
        boxes: what stands, see `sb3_pvp.games.soccer.pitch.BOXES`.
        goals: who has scored, 1 for blue, -1 for purple, 0 for nobody ``(F,)``; written.
        touches: how often each agent has begun to touch the ball ``(F, K)``; written.
    """
    places, speeds, yaws, kicks, touching, steps = state
    ball = len(factors)
    # Made once: to make them in every step would take longer than all the rest.
    contacts = np.empty((_MOST, 2), np.int64), np.empty((_MOST, 2)), np.empty(_MOST)
    for index, fight in enumerate(fights):
        goals[fight], touches[fight] = 0, 0
        for _ in range(pitch.STEPS_PER_DECISION):
            steps[fight] += 1
            _run(actions[index], factors, yaws[fight], speeds[fight])
            for axis in range(2):
                pushed = speeds[fight, ball, axis] + ROLLING * kicks[fight, axis] / BALL_MASS
                speeds[fight, ball, axis] = pushed * (1.0 - pitch.BALL_DRAG * STEP)
                kicks[fight, axis] = 0.0
            _move(places[fight], speeds[fight], boxes, contacts)
            for agent in range(ball):
                x = places[fight, ball, 0] - places[fight, agent, 0]
                z = places[fight, ball, 1] - places[fight, agent, 1]
                touch = x * x + z * z < (AGENT_RADIUS + BALL_RADIUS + pitch.TOUCH) ** 2
                if touch and not touching[fight, agent]:
                    touches[fight, agent] += 1
                    if actions[index, agent, 0] == 1 or always_kicks[agent]:
                        # A force that is added after a step acts in the next one.
                        distance = math.sqrt(x * x + z * z)
                        kicks[fight, 0] += pitch.KICK * x / distance
                        kicks[fight, 1] += pitch.KICK * z / distance
                touching[fight, agent] = touch
            x = places[fight, ball, 0]
            if abs(x) > pitch.GOAL_LINE:
                goals[fight] = 1 if x > 0.0 else -1
                break


@compiled
def _run(actions: Ints, factors: Floats, yaws: Floats, speeds: Floats) -> None:
    """Lets agents run and turn; to run sideways replaces to run forward or backward."""
    for agent in range(len(factors)):
        ahead, aside, turn = actions[agent]
        yaw = math.radians(yaws[agent])  # before the turn
        along = 0.0 if ahead == 0 or aside != 0 else (pitch.RUN if ahead == 1 else -pitch.RUN) * factors[agent, 0]
        across = 0.0 if aside == 0 else (pitch.RUN if aside == 1 else -pitch.RUN) * factors[agent, 1]
        x, z = math.sin(yaw), math.cos(yaw)
        speeds[agent, 0] = (speeds[agent, 0] + along * x + across * z) * (1.0 - pitch.AGENT_DRAG * STEP)
        speeds[agent, 1] = (speeds[agent, 1] + along * z - across * x) * (1.0 - pitch.AGENT_DRAG * STEP)
        if turn != 0:
            yaws[agent] += pitch.TURN if turn == 2 else -pitch.TURN


@compiled_with_arrays
def _move(places: Floats, speeds: Floats, boxes: Floats, contacts: Contacts) -> None:
    """Moves all bodies for one step; where they meet, they collide."""
    bodies, normals, depths = contacts
    fastest = 0.0
    for body in range(len(places)):
        fastest = max(fastest, speeds[body, 0] ** 2 + speeds[body, 1] ** 2)
    # In parts, so that nobody passes through anything.
    parts = int(math.sqrt(fastest) * STEP / _REACH) + 1
    for _ in range(parts):
        for body in range(len(places)):
            places[body, 0] += speeds[body, 0] * STEP / parts
            places[body, 1] += speeds[body, 1] * STEP / parts
        count = _find_contacts(places, boxes, contacts)
        if count:
            ball = len(speeds) - 1
            before_x, before_z = speeds[ball, 0], speeds[ball, 1]
            collide(speeds, bodies[:count], normals[:count])
            speeds[ball, 0] = before_x + ROLLING * (speeds[ball, 0] - before_x)
            speeds[ball, 1] = before_z + ROLLING * (speeds[ball, 1] - before_z)
            for push in range(2 * _PUSHES):  # walls last, so that nobody is left in one
                if depths[:count].max() < _RESTING:
                    break
                _push_apart(places, bodies[:count], normals[:count], depths[:count], push % 2 == 1)
                count = _find_contacts(places, boxes, contacts)
                if count == 0:
                    break


@compiled
def _find_contacts(places: Floats, boxes: Floats, contacts: Contacts) -> int:
    """Writes which bodies overlap, and returns how many do."""
    bodies, normals, depths = contacts
    count, ball = 0, len(places) - 1
    for one in range(ball + 1):
        radius = BALL_RADIUS if one == ball else AGENT_RADIUS
        x, z = places[one]
        for other in range(one):
            reach = radius + AGENT_RADIUS
            away_x, away_z = x - places[other, 0], z - places[other, 1]
            square = away_x * away_x + away_z * away_z
            if square < reach * reach:
                distance = max(math.sqrt(square), 1e-9)
                bodies[count, 0], bodies[count, 1], depths[count] = one, other, reach - distance
                normals[count, 0], normals[count, 1] = away_x / distance, away_z / distance
                count += 1
        if abs(x) < pitch.CLEAR_X - radius and abs(z) < pitch.CLEAR_Z - radius:
            continue
        for box in range(len(boxes)):
            away_x, away_z, distance = _from_box(x, z, boxes[box])
            if distance < radius and count < _MOST:
                bodies[count, 0], bodies[count, 1], depths[count] = one, WALL, radius - distance
                normals[count, 0], normals[count, 1] = away_x, away_z
                count += 1
    return count


@compiled
def _from_box(x: float, z: float, box: Floats) -> tuple[float, float, float]:
    """Returns the direction from the nearest point of a box to a point outside of it, and the distance."""
    centre_x, centre_z, half_x, half_z, cos, sin = box[0], box[1], box[2], box[3], box[4], box[5]
    own_x = cos * (x - centre_x) + sin * (z - centre_z)
    own_z = cos * (z - centre_z) - sin * (x - centre_x)
    away_x = own_x - min(max(own_x, -half_x), half_x)
    away_z = own_z - min(max(own_z, -half_z), half_z)
    distance = max(math.sqrt(away_x * away_x + away_z * away_z), 1e-9)
    return (cos * away_x - sin * away_z) / distance, (sin * away_x + cos * away_z) / distance, distance


@compiled_with_arrays
def collide(speeds: Floats, bodies: Ints, normals: Floats) -> None:
    """Changes the speeds of bodies ``(K + 1, 2)``, the last of which is the ball, by their contacts (`Contacts`).

    Two phases, after Poisson: impulses that end all approaches, then for contacts with the ball a share of them again.
    Without walls momentum stays; energy never grows.
    """
    count, ball = len(bodies), len(speeds) - 1
    # Behind the ball a wall, for all of them: it stands still, whatever meets it.
    moving, masses = np.zeros((ball + 2, 2)), np.full(ball + 2, AGENT_MASS)
    masses[ball], masses[WALL] = BALL_MASS, math.inf
    _copy(speeds, moving)
    sums, changes, approach = np.zeros(count), np.empty(count), np.empty(count)
    degree = np.zeros(ball + 2, np.int64)
    for each in range(count):
        one, other = bodies[each]
        degree[one] += 1
        degree[other] += 1
        approach[each] = _approach(moving, one, other, normals[each])
    degree[WALL] = 0
    before = _energy(speeds, masses)
    # Contacts that have no body in common are done at once.
    for _ in range(_ROUNDS if degree.max() > 1 else 1):
        for each in range(count):
            one, other = bodies[each]
            ease = 1.0 / masses[one] + 1.0 / masses[other]
            wanted = _approach(moving, one, other, normals[each]) / ease / max(degree[one], degree[other])
            changes[each] = max(sums[each] + wanted, 0.0) - sums[each]
        for each in range(count):
            sums[each] += changes[each]
            _apply(moving, masses, bodies[each], normals[each], changes[each])
    _copy(moving, speeds)
    for each in range(count):
        if bodies[each, 0] == ball and approach[each] > pitch.LEAST_BOUNCE:
            _apply(moving, masses, bodies[each], normals[each], pitch.RESTITUTION * sums[each])
    if _energy(moving[:-1], masses) <= before:  # else contacts with and without a bounce act against each other
        _copy(moving, speeds)


@compiled
def _copy(bodies: Floats, into: Floats) -> None:
    """Writes the first pairs of numbers; for a slice Numba would also compile the words of an error, for seconds."""
    for body in range(min(len(bodies), len(into))):
        into[body, 0], into[body, 1] = bodies[body, 0], bodies[body, 1]


@compiled
def _approach(speeds: Floats, one: int, other: int, normal: Floats) -> float:
    x, z = speeds[one, 0] - speeds[other, 0], speeds[one, 1] - speeds[other, 1]
    return float(-(x * normal[0] + z * normal[1]))


@compiled
def _apply(speeds: Floats, masses: Floats, bodies: Ints, normal: Floats, impulse: float) -> None:
    one, other = bodies
    for axis in range(2):
        speeds[one, axis] += impulse * normal[axis] / masses[one]
        speeds[other, axis] -= impulse * normal[axis] / masses[other]


@compiled
def _energy(speeds: Floats, masses: Floats) -> float:
    total = 0.0
    for body in range(len(speeds)):
        total += 0.5 * masses[body] * (speeds[body, 0] ** 2 + speeds[body, 1] ** 2)
    return total


@compiled
def _push_apart(places: Floats, bodies: Ints, normals: Floats, depths: Floats, walls: bool) -> None:
    """Moves bodies that overlap out of walls, or else apart, the lighter one further."""
    ball = len(places) - 1
    for each in range(len(bodies)):
        one, other = bodies[each]
        if (other == WALL) == walls:
            mass = BALL_MASS if one == ball else AGENT_MASS
            share = 1.0 if walls else AGENT_MASS / (mass + AGENT_MASS)  # the other one is an agent
            for axis in range(2):
                push = normals[each, axis] * depths[each]
                places[one, axis] += push * share
                if not walls:
                    places[other, axis] -= push * (1.0 - share)
