"""Scripted teams of three strengths: they see what every agent sees, rays, for all matches at once.

They are yardsticks: a change of their play makes earlier results incomparable. ``python -m benchmarks soccer`` measures
them against each other. What makes them differ is above all how often they run, which is left to chance: where they act
without chance, they always run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract.turn import Turn
from sb3_pvp.games.soccer.layout import BALL, BARRIER, OTHER_GOAL, OWN_GOAL, SoccerPlayer
from sb3_pvp.games.soccer.pitch import BALL_CAST, FRAMES, RAY_LENGTH

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
Players = tuple[SoccerPlayer, ...]

#: Degrees within which something is in front, and is straight ahead, so that an agent may run: it is fast.
_FRONT, _AHEAD, _PLAY = 65.0, 11.0, 7.0
#: How far an agent turns from the direction of its attack, and how far from it the ball may lie to be pushed.
_TURNED, _PUSH = 35.0, 65.0
#: Metres before the own goal between which an agent looks for the ball, and at which a goalkeeper stands.
_NEAR, _FAR, _KEEPER, _SLACK = 3.0, 8.0, 3.0, 1.0
_OUT_OF_SIGHT = 1000.0


class _Agent:
    """What an agent of N matches sees, and what it decides.

    It faces the other goal when it begins, and never turns far from that: so it knows where it attacks, and nearly
    always pushes the ball away from its own goal. Angles are in degrees, clockwise from where it looks.
    """

    def __init__(self, turn: Turn, player: SoccerPlayer, pace: float) -> None:
        self._turn, self._player, angles = turn, player, _turned(player.angles)
        order = np.argsort(angles, kind="stable")
        rays = player.rays(turn.agent(player.name))
        self._angles, self._rays = angles[order], rays[:, :, order].astype(np.float64)
        self._front, self._directions = np.abs(self._angles) <= 60.0, np.radians(self._angles)
        self._runs = turn.chance < pace
        self.attack = self._attack()
        self.sees_ball, self.angle, self.distance = self._ball()
        #: Whether the ball is where it can be pushed away from the own goal.
        off = np.abs(_turned(self.angle - self.attack))
        self.can_push = self.sees_ball & (np.abs(self.angle) < _FRONT) & (off < _PUSH)

    def strike(self, where: Booleans) -> None:
        """Runs at the ball if it can push it; otherwise goes up and down before its goal until it can."""
        push, attack = where & self.can_push, self.attack
        self._face(np.clip(self.angle, attack - _TURNED, attack + _TURNED), push)
        self._sidestep(self.angle, _AHEAD, push)
        self._choose("forward", push & (np.abs(self.angle) < _AHEAD) & self._runs)
        search = where & ~self.can_push
        self._face(attack, search)
        # Whoever runs backward into the ball pushes it into the own goal.
        self._sidestep(-self.angle, 0.0, search & self.sees_ball & (np.abs(self.angle) > 120.0))
        room, before = self._room(), self._room(age=1)
        leaves = (room < _NEAR) | ((room < _FAR) & (room > before + 0.01))
        self._choose("forward", search & leaves)
        self._choose("backward", search & ~leaves)

    def keep(self, where: Booleans) -> None:
        """Stands before the own goal, where the ball would come."""
        self._face(self.attack, where)
        room, across = self._room(), self.distance * np.sin(np.radians(self.angle))
        home = where & self.sees_ball & (np.abs(self.angle) < 90.0) & (room < _KEEPER + _SLACK)
        self._sidestep(across, 0.5, home)
        self._choose("backward", where & (room > _KEEPER + _SLACK))
        self._choose("forward", where & (room < _KEEPER - _SLACK))

    def _sees(self, thing: str, age: int = 0) -> Booleans:
        """Returns which rays met a thing, or nothing, so many decisions ago ``(N, rays)``."""
        tags = (*self._player.tags, "nothing")
        if thing not in tags:
            return np.zeros(self._rays[:, 0, :, 0].shape, np.bool_)
        return np.asarray(self._rays[:, FRAMES - 1 - age, :, tags.index(thing)] > 0.5)

    def _far(self, age: int = 0) -> Floats:
        """Returns how far the rays went, in metres ``(N, rays)``."""
        return np.asarray(self._rays[:, FRAMES - 1 - age, :, -1] * RAY_LENGTH)

    def _ball(self) -> tuple[Booleans, Floats, Floats]:
        """Returns whether the ball is seen, the angle to its centre, and the distance in metres."""
        far, rows = self._far(), np.arange(len(self._rays))
        gaps = np.where(self._sees(BALL), far, np.inf)
        seen: Booleans = np.asarray(np.isfinite(gaps).any(axis=1))
        first = gaps.argmin(axis=1)
        gaps[np.abs(np.arange(gaps.shape[1]) - first[:, None]) != 1] = np.inf
        second = gaps.argmin(axis=1)
        ends = far * np.exp(1j * self._directions)
        one, other = ends[rows, first], ends[rows, second]
        # Both ends are on a circle around the ball; a lone one is taken to be its nearest point.
        half = (other - one) / 2
        normal = 1j * half / np.maximum(np.abs(half), 1e-9)
        normal = np.where((normal * np.conj(one + half)).real < 0.0, -normal, normal)
        both = one + half + normal * np.sqrt(np.maximum(BALL_CAST**2 - np.abs(half) ** 2, 0.0))
        alone = one * (1.0 + BALL_CAST / np.maximum(np.abs(one), 1e-9))
        centre = np.where(np.isfinite(gaps[rows, second]), both, alone)
        return seen, np.degrees(np.angle(centre)), np.where(seen, np.abs(centre), _OUT_OF_SIGHT)

    def _attack(self) -> Floats:
        """Returns the angle to the other goal, by what is seen of the goals, and by how far one can see."""
        angle: Floats = self._angles[(self._far() * self._front).argmax(axis=1)]
        known = np.zeros(len(angle), np.bool_)
        front, back = self._front, ~self._front
        looks = (OTHER_GOAL, front), ("nothing", front), (OWN_GOAL, back), ("nothing", back)
        for age, (thing, rays) in product(range(FRAMES), looks):
            met = self._sees(thing, age) & rays
            middle = np.degrees(np.angle(met @ np.exp(1j * self._directions)))
            new = met.any(axis=1) & ~known
            angle = np.where(new, middle if rays is front else _turned(middle + 180.0), angle)
            known |= new
        return angle

    def _room(self, age: int = 0) -> Floats:
        """Returns how many metres there are to the own goal, or to a wall before it."""
        behind = self._sees(OWN_GOAL, age) & ~self._front
        behind |= self._sees(BARRIER, age) & (np.abs(self._angles) > 170.0)
        return np.asarray(np.where(behind, self._far(age), np.inf).min(axis=1))

    def _choose(self, move: str, where: Booleans) -> None:
        self._turn.choose(f"{self._player.name}_{move}", where)

    def _face(self, angle: Floats, where: Booleans) -> None:
        self._choose("turn_right", where & (angle > _PLAY))
        self._choose("turn_left", where & (angle < -_PLAY))

    def _sidestep(self, across: Floats, least: float, where: Booleans) -> None:
        self._choose("right", where & (across > least))
        self._choose("left", where & (across < -least))


def _turned(angle: Floats) -> Floats:
    """Returns the same angle between -180 and 180 degrees."""
    return (angle + 180.0) % 360.0 - 180.0


def _chaser(players: Players, turn: Turn) -> None:
    """All go for the ball, slowly: they run in a tenth of the decisions."""
    for player in players:
        agent = _Agent(turn, player, 0.07)
        agent.strike(np.ones_like(agent.sees_ball))


def _striker(players: Players, turn: Turn) -> None:
    """The first one attacks, at a third of the pace; the others keep the goal, and clear the ball when it is near."""
    for number, player in enumerate(players):
        agent = _Agent(turn, player, 0.22)
        strikes = agent.can_push & (agent.distance < 4.0) & (np.abs(agent.angle) < 40.0) | (number == 0)
        agent.strike(strikes)
        agent.keep(~strikes)


def _positional(players: Players, turn: Turn) -> None:
    """Whoever is nearest to the ball attacks, and who is near enough; the others keep the goal."""
    team = [_Agent(turn, player, 1.0) for player in players]
    reach = np.stack([np.where(each.can_push, each.distance, _OUT_OF_SIGHT) for each in team])
    for agent, own in zip(team, reach, strict=True):
        strikes = (own <= reach.min(axis=0)) | (own < 9.0)
        agent.strike(strikes)
        agent.keep(~strikes)


def scripts_of(players: Players) -> Mapping[str, Callable[[Turn], None]]:
    """Returns the scripts of a game with these agents of a seat by name, the weakest first."""
    teams = {"chaser": _chaser, "striker": _striker, "positional": _positional}
    return {name: partial(team, players) for name, team in teams.items()}
