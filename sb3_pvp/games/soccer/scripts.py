"""Scripted teams of three strengths. They see what every agent sees: rays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract.turn import Turn
from sb3_pvp.games.soccer.layout import BALL, OTHER_GOAL, OWN_GOAL, SOCCER_TWOS, SoccerPlayer
from sb3_pvp.games.soccer.pitch import RAY_LENGTH
from sb3_pvp.games.soccer.rays import FRAMES

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

_AGENTS = SOCCER_TWOS.roles
#: Degrees within which something is straight ahead, and those within which an agent runs while it turns.
_AHEAD, _ROUGHLY_AHEAD = 6.0, 20.0
#: Degrees between ball and goal within which a kick is worth it, and metres at which an agent runs around the ball.
_GOOD_AIM, _ROUND = 25.0, 2.0
#: Metres from which a goalkeeper runs at the ball, and that it keeps from its net.
_CLEARS, _BEFORE_GOAL = 7.0, 5.0


class _Agent:
    """What an agent of N matches sees, and what it decides."""

    def __init__(self, turn: Turn, player: SoccerPlayer) -> None:
        self._turn, self._player = turn, player
        self._rays = [(sensor.name, ray) for sensor in player.sensors for ray in range(len(sensor.angles))]
        angles = np.concatenate([sensor.angles for sensor in player.sensors])
        self._angles = (angles + 180.0) % 360.0 - 180.0
        self.count = len(turn.chance)

    def _see(self, value: str, age: int = 0) -> Floats:
        """Returns a value of all rays, ``(N, rays)``."""
        ids = [f"{self._player.name}_{sensor}_{age}_{ray}_{value}" for sensor, ray in self._rays]
        return np.stack([self._turn.see(each) for each in ids], axis=1).astype(np.float64)

    def find(self, thing: str, age: int = 0) -> tuple[Booleans, Floats, Floats]:
        """Returns where a thing is seen, its angle clockwise in degrees, and its distance in ray lengths."""
        seen: Booleans = self._see(thing, age) > 0
        distances = self._see("distance", age)
        # Several rays meet one thing: its middle is the mean of their directions, the nearest counting most.
        weights = seen / (distances + 0.01) ** 2
        radians = np.radians(self._angles)
        across, along = weights @ np.sin(radians), weights @ np.cos(radians)
        nearest: Floats = np.where(seen, distances, np.inf).min(axis=1)
        anywhere: Booleans = np.asarray(seen.any(axis=1))
        return anywhere, np.degrees(np.arctan2(across, along)), nearest

    def choose(self, move: str, where: Booleans) -> None:
        """Chooses a move where it is wanted; the first one chosen in a branch counts."""
        self._turn.choose(f"{self._player.name}_{move}", where)

    def face(self, angle: Floats, where: Booleans) -> None:
        """Turns towards an angle."""
        self.choose("turn_right", where & (angle > _AHEAD))
        self.choose("turn_left", where & (angle < -_AHEAD))


def _turned(angle: Floats) -> Floats:
    """Returns the same angle between -180 and 180 degrees."""
    return (angle + 180.0) % 360.0 - 180.0


def _to_the_goal(agent: _Agent) -> tuple[Booleans, Floats]:
    """Returns whether the direction of the attack is known, and its angle: to the goal, or away from the own one."""
    known = np.zeros(agent.count, np.bool_)
    angle = np.zeros(agent.count)
    for age in range(FRAMES):  # a decision ago it was nearly the same
        for thing, offset in ((OTHER_GOAL, 0.0), (OWN_GOAL, 180.0)):
            seen, found, _ = agent.find(thing, age)
            angle = np.where(seen & ~known, _turned(found + offset), angle)
            known |= seen
    return known, angle


def _strike(agent: _Agent, where: Booleans) -> None:
    """Runs at the ball from the side of the own goal; otherwise around it first."""
    seen, angle, distance = agent.find(BALL)
    known, goal = _to_the_goal(agent)
    off = np.where(known, _turned(angle - goal), 0.0)
    near = np.where(seen, distance, 0.0) * RAY_LENGTH + 0.5
    detour = np.degrees(np.arctan2(_ROUND, near)) * np.clip(np.abs(off) / 60.0, 0.0, 1.0)
    wanted = _turned(angle + np.where(np.abs(off) > _GOOD_AIM, np.sign(off) * detour, 0.0))
    agent.face(wanted, where & seen)
    agent.choose("turn_right", where & ~seen)
    agent.choose("forward", where & seen & (np.abs(wanted) < _ROUGHLY_AHEAD))


def _keep(agent: _Agent, where: Booleans, room: float) -> None:
    """Stays so many metres before the own goal, with its back to it."""
    known, goal = _to_the_goal(agent)
    seen, _, distance = agent.find(OWN_GOAL)
    agent.face(goal, where & known)
    agent.choose("turn_right", where & ~known)
    far = ~seen | (distance * RAY_LENGTH > room)
    straight = known & (np.abs(goal) < _ROUGHLY_AHEAD)
    agent.choose("backward", where & straight & far)


def _chasers(turn: Turn) -> None:
    """Both run at the ball."""
    for player in _AGENTS:
        agent = _Agent(turn, player)
        _strike(agent, np.ones(agent.count, np.bool_))


def _keeper_and_striker(turn: Turn) -> None:
    """One attacks, the other one stays before the goal and clears the ball."""
    striker, keeper = (_Agent(turn, player) for player in _AGENTS)
    _strike(striker, np.ones(striker.count, np.bool_))
    seen, _, distance = keeper.find(BALL)
    clears = seen & (distance * RAY_LENGTH < _CLEARS)
    _strike(keeper, clears)
    _keep(keeper, ~clears, _BEFORE_GOAL)


SCRIPTS: dict[str, Callable[[Turn], None]] = {"chasers": _chasers, "keeper_and_striker": _keeper_and_striker}
