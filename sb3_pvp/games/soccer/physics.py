"""The physics of a pitch, in Numba: agents run, turn and kick, bodies collide, and a goal is seen.

Bodies are circles: the agents, then the ball. All contacts of a moment are resolved together: one after another, the
team whose contacts come first would win more often.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.soccer.pitch import (
    AGENT_DRAG,
    AGENT_MASS,
    AGENT_RADIUS,
    BALL_DRAG,
    BALL_MASS,
    BALL_RADIUS,
    CLEAR_X,
    CLEAR_Z,
    GOAL_LINE,
    KICK,
    LEAST_BOUNCE,
    RESTITUTION,
    ROLLING,
    RUN,
    STEP,
    STEPS_PER_DECISION,
    TOUCH,
    TURN,
)

Function = TypeVar("Function", bound=Callable[..., Any])
_njit: Any = numba.njit
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
Contacts = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]
WALL = -1


def compiled(function: Function) -> Function:
    """Compiles a function, and keeps its machine code on disk."""
    return cast(Function, _njit(cache=True, error_model="numpy", nogil=True)(function))


@compiled
def play(
    fights: NDArray[np.int64],
    places: NDArray[np.float64],
    speeds: NDArray[np.float64],
    yaws: NDArray[np.float64],
    kicks: NDArray[np.float64],
    touching: NDArray[np.bool_],
    steps: NDArray[np.int64],
    actions: NDArray[np.int64],
    forward: NDArray[np.float64],
    lateral: NDArray[np.float64],
    always_kicks: NDArray[np.bool_],
    boxes: NDArray[np.float64],
    goals: NDArray[np.int8],
    touches: NDArray[np.int64],
) -> None:
    """Plays the steps of one decision on some pitches.

    Args:
        fights: numbers of the pitches ``(N,)``.
        places: of the K agents and of the ball ``(F, K + 1, 2)``; changed, like the next five.
        speeds: ``(F, K + 1, 2)``.
        yaws: of the agents, in degrees ``(F, K)``.
        kicks: momentum that the ball gets in the next step ``(F, 2)``.
        touching: which agents touch the ball ``(F, K)``.
        steps: played since the start ``(F,)``.
        actions: 0 to 2 for running, running sideways and turning of each agent ``(N, K, 3)``, see `_run`.
        forward: speed factors ``(K,)``.
        lateral: speed factors ``(K,)``.
        always_kicks: which agents kick also when they do not run forward ``(K,)``.
        boxes: what stands, see `sb3_pvp.games.soccer.pitch.BOXES`.
        goals: who has scored, 1 for blue, -1 for purple, 0 for nobody ``(F,)``; written.
        touches: how often each agent has begun to touch the ball ``(F, K)``; written.
    """
    ball = len(forward)
    # Made once: to make them in every step would take longer than all the rest.
    contacts = np.empty((_MOST, 2), np.int64), np.empty((_MOST, 2)), np.empty(_MOST)
    for index in range(len(fights)):
        fight = fights[index]
        goals[fight], touches[fight] = 0, 0
        for _ in range(STEPS_PER_DECISION):
            steps[fight] += 1
            _run(actions[index], forward, lateral, yaws[fight], speeds[fight])
            for axis in range(2):
                pushed = speeds[fight, ball, axis] + ROLLING * kicks[fight, axis] / BALL_MASS
                speeds[fight, ball, axis] = pushed * (1.0 - BALL_DRAG * STEP)
                kicks[fight, axis] = 0.0
            _move(places[fight], speeds[fight], boxes, contacts)
            for agent in range(ball):
                x = places[fight, ball, 0] - places[fight, agent, 0]
                z = places[fight, ball, 1] - places[fight, agent, 1]
                touch = x * x + z * z < (AGENT_RADIUS + BALL_RADIUS + TOUCH) ** 2
                if touch and not touching[fight, agent]:
                    touches[fight, agent] += 1
                    if actions[index, agent, 0] == 1 or always_kicks[agent]:
                        # A force that is added after a step acts in the next one.
                        distance = math.sqrt(x * x + z * z)
                        kicks[fight, 0] += KICK * x / distance
                        kicks[fight, 1] += KICK * z / distance
                touching[fight, agent] = touch
            x = places[fight, ball, 0]
            if abs(x) > GOAL_LINE:
                goals[fight] = 1 if x > 0.0 else -1
                break


@compiled
def _run(
    actions: NDArray[np.int64],
    forward: NDArray[np.float64],
    lateral: NDArray[np.float64],
    yaws: NDArray[np.float64],
    speeds: NDArray[np.float64],
) -> None:
    """Lets agents run and turn; to run sideways replaces to run forward or backward."""
    for agent in range(len(forward)):
        ahead, aside, turn = actions[agent]
        yaw = math.radians(yaws[agent])  # before the turn
        along = 0.0 if ahead == 0 or aside != 0 else (RUN if ahead == 1 else -RUN) * forward[agent]
        across = 0.0 if aside == 0 else (RUN if aside == 1 else -RUN) * lateral[agent]
        x, z = math.sin(yaw), math.cos(yaw)
        speeds[agent, 0] = (speeds[agent, 0] + along * x + across * z) * (1.0 - AGENT_DRAG * STEP)
        speeds[agent, 1] = (speeds[agent, 1] + along * z - across * x) * (1.0 - AGENT_DRAG * STEP)
        if turn != 0:
            yaws[agent] += TURN if turn == 2 else -TURN


@compiled
def _move(
    places: NDArray[np.float64], speeds: NDArray[np.float64], boxes: NDArray[np.float64], contacts: Contacts
) -> None:
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
def _find_contacts(places: NDArray[np.float64], boxes: NDArray[np.float64], contacts: Contacts) -> int:
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
        if abs(x) < CLEAR_X - radius and abs(z) < CLEAR_Z - radius:
            continue
        for box in range(len(boxes)):
            away_x, away_z, distance = _from_box(x, z, boxes[box])
            if distance < radius and count < _MOST:
                bodies[count, 0], bodies[count, 1], depths[count] = one, WALL, radius - distance
                normals[count, 0], normals[count, 1] = away_x, away_z
                count += 1
    return count


@compiled
def _from_box(x: float, z: float, box: NDArray[np.float64]) -> tuple[float, float, float]:
    """Returns the direction from the nearest point of a box to a point outside of it, and the distance."""
    centre_x, centre_z, half_x, half_z, cos, sin = box[0], box[1], box[2], box[3], box[4], box[5]
    own_x = cos * (x - centre_x) + sin * (z - centre_z)
    own_z = cos * (z - centre_z) - sin * (x - centre_x)
    away_x = own_x - min(max(own_x, -half_x), half_x)
    away_z = own_z - min(max(own_z, -half_z), half_z)
    distance = max(math.sqrt(away_x * away_x + away_z * away_z), 1e-9)
    return (cos * away_x - sin * away_z) / distance, (sin * away_x + cos * away_z) / distance, distance


@compiled
def _mass(body: int, ball: int) -> float:
    return BALL_MASS if body == ball else AGENT_MASS


@compiled
def collide(speeds: NDArray[np.float64], bodies: NDArray[np.int64], normals: NDArray[np.float64]) -> None:
    """Changes the speeds of bodies ``(K + 1, 2)``, the last of which is the ball, by their contacts (`Contacts`).

    Two phases, after Poisson: impulses that end all approaches, then for contacts with the ball a share of them again.
    Without walls momentum stays; energy never grows.
    """
    count, ball = len(bodies), len(speeds) - 1
    sums, changes, approach = np.zeros(count), np.empty(count), np.empty(count)
    degree = np.zeros(len(speeds), np.int64)
    for each in range(count):
        one, other = bodies[each]
        degree[one] += 1
        if other != WALL:
            degree[other] += 1
        approach[each] = _approach(speeds, one, other, normals[each])
    before = _energy(speeds)
    # Contacts that have no body in common are done at once.
    for _ in range(_ROUNDS if degree.max() > 1 else 1):
        for each in range(count):
            one, other = bodies[each]
            ease = 1.0 / _mass(one, ball) + (1.0 / _mass(other, ball) if other != WALL else 0.0)
            shared = max(degree[one], degree[other] if other != WALL else 0)
            wanted = _approach(speeds, one, other, normals[each]) / ease / shared
            changes[each] = max(sums[each] + wanted, 0.0) - sums[each]
        for each in range(count):
            sums[each] += changes[each]
            _apply(speeds, bodies[each, 0], bodies[each, 1], normals[each], changes[each])
    settled = speeds.copy()
    for each in range(count):
        one, other = bodies[each]
        if one == ball and approach[each] > LEAST_BOUNCE:
            _apply(speeds, one, other, normals[each], RESTITUTION * sums[each])
    if _energy(speeds) > before:  # possible where contacts with and without a bounce act against each other
        speeds[:] = settled


@compiled
def _approach(speeds: NDArray[np.float64], one: int, other: int, normal: NDArray[np.float64]) -> float:
    x, z = speeds[one, 0], speeds[one, 1]
    if other != WALL:
        x, z = x - speeds[other, 0], z - speeds[other, 1]
    return float(-(x * normal[0] + z * normal[1]))


@compiled
def _apply(speeds: NDArray[np.float64], one: int, other: int, normal: NDArray[np.float64], impulse: float) -> None:
    ball = len(speeds) - 1
    for axis in range(2):
        speeds[one, axis] += impulse * normal[axis] / _mass(one, ball)
        if other != WALL:
            speeds[other, axis] -= impulse * normal[axis] / _mass(other, ball)


@compiled
def _energy(speeds: NDArray[np.float64]) -> float:
    ball, total = len(speeds) - 1, 0.0
    for body in range(ball + 1):
        total += 0.5 * _mass(body, ball) * (speeds[body, 0] ** 2 + speeds[body, 1] ** 2)
    return total


@compiled
def _push_apart(
    places: NDArray[np.float64],
    bodies: NDArray[np.int64],
    normals: NDArray[np.float64],
    depths: NDArray[np.float64],
    walls: bool,
) -> None:
    """Moves bodies that overlap out of walls, or else apart, the lighter one further."""
    ball = len(places) - 1
    for each in range(len(bodies)):
        one, other = bodies[each]
        if (other == WALL) != walls:
            continue
        mass, its = _mass(one, ball), math.inf if walls else _mass(other, ball)
        share = 1.0 if walls else its / (mass + its)
        for axis in range(2):
            push = normals[each, axis] * depths[each]
            places[one, axis] += push * share
            if not walls:
                places[other, axis] -= push * (1.0 - share)
