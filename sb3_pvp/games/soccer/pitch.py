"""The pitch of SoccerTwos: where everything is, how heavy, and how fast (metres, seconds, kilograms, degrees).

x runs along the pitch: the blue team defends -x and attacks +x. z runs across. A yaw of 0 looks along +z, 90 along +x.
The figures are those of Unity's example as of 2024-09-11 (Project/Assets/ML-Agents/Examples/Soccer): its prefabs,
scenes and scripts.
"""

from __future__ import annotations

from math import cos, radians, sin, sqrt

import numpy as np
from numpy.typing import NDArray

#: Seconds of a physics step, steps of a decision, and of a match that nobody wins.
STEP, STEPS_PER_DECISION, MAX_STEPS = 0.02, 5, 5000
#: Speed factors of an agent forward and sideways, by its position in the team.
SPEED_FACTORS = {"generic": (1.0, 0.3), "striker": (1.3, 0.3), "goalie": (1.0, 1.0)}

AGENT_RADIUS, AGENT_MASS, AGENT_DRAG = 0.5, 50.0, 3.0
BALL_RADIUS, BALL_MASS, BALL_DRAG = 0.6242, 3.0, 1.0
#: What is left of a change of the ball's speed when it rolls again: the floor takes the rest to turn it.
ROLLING = 5 / 7
#: How much of the speed of a collision with the ball comes back, and the least speed for that. All else is plastic.
RESTITUTION, LEAST_BOUNCE = 0.8, 2.0
#: Metres per second that an agent gains in a step by running, and degrees that it turns.
RUN, TURN = 2.0, 2.0
#: Momentum of a kick: a force of 2000 for one step.
KICK = 2000 * STEP
#: Two bodies touch at this distance between their surfaces.
TOUCH = 0.02

#: Where an agent starts, +- along x; how far around it; the lines across of two teammates; the ball's spread.
START_X, SPREAD_X, LINE_Z, SPREAD_BALL = 8.19, 5.0, 1.2, 2.5
GOALIE_X = 9.0
START_YAW = (80.0, 100.0)

#: The ball overlaps the floor of a goal, which is solid, from this distance on; then it is a goal.
GOAL_LINE = 15.126

#: Casts are circles of this radius, at a height at which they meet a ball and an agent with these radii.
RAY_LENGTH, CAST_RADIUS = 20.0, 0.5
BALL_CAST = sqrt((CAST_RADIUS + BALL_RADIUS) ** 2 - 0.25)
AGENT_CAST = sqrt((CAST_RADIUS + AGENT_RADIUS) ** 2 - 0.25)

#: Decisions that an agent remembers, with the present one.
FRAMES = 3
#: What a ray has met that its sensor cannot tell.
UNTOLD = -1

#: The column that says what a box is: of the wall, or of a goal.
KIND, NUM_KINDS = 6, 3
WALL, BLUE_GOAL, PURPLE_GOAL = range(NUM_KINDS)


def _box(kind: int, x: float, z: float, half_x: float, half_z: float, degrees: float = 0.0) -> list[float]:
    return [x, z, half_x, half_z, cos(radians(degrees)), sin(radians(degrees)), kind]


def solid(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns boxes as bodies meet them: Unity's purple net stands a little nearer than its mirror image."""
    moved = boxes.copy()
    nets = moved[:, KIND] == PURPLE_GOAL
    moved[nets, 0] -= np.where(moved[nets, 2] == 1.0, 0.03, 0.013)
    return moved


def _boxes() -> NDArray[np.float64]:
    sides = [_box(WALL, 0.0, z * (7.75 - 0.0116), 15.5, 0.23035) for z in (1, -1)]
    corners = [_box(WALL, x * 14.46, z * 6.41, 2.4, 0.23035, -60 * x * z) for x in (1, -1) for z in (1, -1)]
    nets = []
    for goal, x in ((BLUE_GOAL, -1), (PURPLE_GOAL, 1)):
        nets += [_box(goal, x * 16.5, z * 4.2, 1.0, 0.05) for z in (1, -1)]
        nets.append(_box(goal, x * (17.373 + 0.05), 0.0, 0.05, 4.2))
    return np.array([*sides, *corners, *nets])


#: Everything that stands, ``(boxes, 7)``: centre x and z, half sizes, cosine and sine of its turn, and what it is.
BOXES = _boxes()
#: A wall before the blue goal, for strikers against a goalie.
BLOCKER = np.array([_box(WALL, -15.51, 0.0, 0.5, 7.915 / 2)])
#: Nothing stands nearer to the centre than this (along x and across).
CLEAR_X, CLEAR_Z = 12.9, 7.5
