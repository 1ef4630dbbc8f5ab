"""Who plays in a game of soccer, what they see and decide, and the contract of that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract import Agent, Contract, Head, Observation, SubAction
from sb3_pvp.games.soccer.pitch import BLOCKER, BOXES, FRAMES, UNTOLD

#: What a sensor may tell apart, from the point of view of the agent that has it.
BALL, OWN_GOAL, OTHER_GOAL, BARRIER, TEAMMATE, OPPONENT = "ball", "own_goal", "goal", "wall", "teammate", "opponent"
TAGS = (BALL, OWN_GOAL, OTHER_GOAL, BARRIER, TEAMMATE, OPPONENT)
#: What an agent decides: the moves of each branch, in Unity's order.
BRANCHES = (
    ("run", ("stay", "forward", "backward")),
    ("strafe", ("straight", "right", "left")),
    ("turn", ("ahead", "turn_left", "turn_right")),
)


@dataclass(frozen=True)
class Sensor:
    """Rays from the centre of an agent: the middle one, then one to the right, one to the left, and so on."""

    name: str  #: In the ids of observations.
    degrees: float  #: Between the outermost ray and the middle one.
    each_side: int  #: How many rays there are on each side of the middle one.
    back: bool = False  #: Whether it looks backwards.

    @cached_property
    def angles(self) -> NDArray[np.float64]:
        """Clockwise from the agent's yaw, in degrees ``(R,)``."""
        step = self.degrees / self.each_side
        sides = [sign * step * number for number in range(1, self.each_side + 1) for sign in (1, -1)]
        return np.array([0.0, *sides]) + 180.0 * self.back


@dataclass(frozen=True)
class SoccerPlayer:
    """An agent: ``seat`` 0 is blue, ``position`` a key of `SPEED_FACTORS`, ``tags`` what its sensors tell apart."""

    name: str
    seat: int
    position: str
    sensors: tuple[Sensor, ...]
    tags: tuple[str, ...] = TAGS

    @cached_property
    def angles(self) -> NDArray[np.float64]:
        """Those of all its rays ``(R,)``, see `Sensor.angles`."""
        return np.concatenate([sensor.angles for sensor in self.sensors])

    def rays(self, seen: NDArray[Any]) -> NDArray[Any]:
        """Returns what it sees ``(N, numbers)`` ray by ray, ``(N, FRAMES, R, tags + 2)``, the oldest frame first."""
        values, parts = len(self.tags) + 2, []
        begin = seen.shape[1] - FRAMES * values * len(self.angles)  # before that may stand whether it plays
        for sensor in self.sensors:
            shape = len(seen), FRAMES, len(sensor.angles), values
            begin, end = begin + FRAMES * values * len(sensor.angles), begin
            parts.append(seen[:, end:begin].reshape(shape))
        return np.concatenate(parts, axis=2)

    def observations(self) -> Iterator[Observation]:
        """Yields what it sees, in Unity's order."""
        for sensor in self.sensors:
            for age, (ray, degrees) in product(reversed(range(FRAMES)), enumerate(sensor.angles)):
                for value in (*self.tags, "nothing", "distance"):
                    said = f"{value} on ray {ray} of the {sensor.name} sensor ({degrees:g} degrees)"
                    yield Observation(f"{self.name}_{sensor.name}_{age}_{ray}_{value}", f"{said}, {age} decisions ago")


@dataclass(frozen=True)
class Layout:
    """The players of a game, the boxes that stand on its pitch, and whether one policy can play all of a team."""

    name: str
    players: tuple[SoccerPlayer, ...]
    shared: bool
    boxes: NDArray[np.float64]

    @cached_property
    def roles(self) -> tuple[SoccerPlayer, ...]:
        """The agents of a seat: each one's own, or all of both teams where these differ."""
        return tuple(each for each in self.players if each.seat == 0) if self.shared else self.players

    @cached_property
    def contract(self) -> Contract:
        """Observations and heads of a seat, agent after agent."""
        seen: list[Observation] = []
        heads: list[Head] = []
        agents: list[Agent] = []
        for role in self.roles:
            begins, active = (len(seen), len(heads)), None if self.shared else f"{role.name}_plays"
            seen += [Observation(active, "1 on the seat whose agent this is.")] if active else []
            seen += role.observations()
            for branch, moves in BRANCHES:
                choices = tuple(SubAction(f"{role.name}_{move}", f"{role.name}: {move}") for move in moves)
                heads.append(Head(f"{role.name}_{branch}", f"{role.name}: {branch}", choices))
            ranges = (begins[0], len(seen)), (begins[1], len(heads))
            agents.append(Agent(role.name, *ranges, active, (0, 1) if self.shared else (role.seat,)))
        return Contract(self.name, tuple(heads), tuple(seen), tuple(agents), self.shared)

    def tags(self, player: SoccerPlayer) -> NDArray[np.int64]:
        """Returns a player's tags of walls, the blue and the purple goal, all K agents and the ball, ``(4 + K,)``."""
        goals = (OWN_GOAL, OTHER_GOAL) if player.seat == 0 else (OTHER_GOAL, OWN_GOAL)
        agents = (TEAMMATE if other.seat == player.seat else OPPONENT for other in self.players)
        names = (BARRIER, *goals, *agents, BALL)
        return np.array([player.tags.index(name) if name in player.tags else UNTOLD for name in names])


_FRONT, _BACK, _AROUND = Sensor("front", 60.0, 5), Sensor("back", 45.0, 1, back=True), Sensor("around", 180.0, 20)
_STRIKER = "striker", (_FRONT, _BACK), (BALL, OTHER_GOAL, BARRIER, TEAMMATE, OPPONENT)
_GOALIE = "goalie", (_AROUND,), (BALL, OWN_GOAL, BARRIER, OPPONENT)
_TWOS = [SoccerPlayer(f"agent{number}", seat, "generic", (_FRONT, _BACK)) for seat in range(2) for number in range(2)]
_THREE = *(SoccerPlayer(f"striker{number}", 0, *_STRIKER) for number in range(2)), SoccerPlayer("goalie", 1, *_GOALIE)

SOCCER_TWOS = Layout("SoccerTwos-v0", tuple(_TWOS), shared=True, boxes=BOXES)
#: Only the purple goal counts, and a wall stands before the other one.
STRIKERS_VS_GOALIE = Layout("StrikersVsGoalie-v0", _THREE, shared=False, boxes=np.vstack([BOXES, BLOCKER]))
