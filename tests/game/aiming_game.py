"""Two against two: each agent sees a number, is to set the same one, and to say whether it is positive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import Game
from sb3_pvp.game.arrays import ArrayWorld
from sb3_pvp.game.contract import Agent, Contract, Head, Observation, SubAction
from sb3_pvp.game.contract.turn import Turn
from sb3_pvp.games.team_alone import TEAM_REPORT, TeamRewards

NAMES = ("first", "second")


def heads_of(name: str) -> tuple[Head, Head]:
    """The choice first, so that its place is not the one among what networks decide."""
    sides = tuple(SubAction(f"{name}_{each}", "") for each in ("negative", "positive"))
    return Head(f"{name}_side", "", sides), Head(f"{name}_amount", "", number=True)


CONTRACT = Contract(
    "aim_for_two",
    tuple(head for name in NAMES for head in heads_of(name)),
    tuple(Observation(f"{name}_sees", "") for name in NAMES),
    (Agent("first", (0, 1), (0, 2)), Agent("second", (1, 2), (2, 4))),
    shared_weights=True,
)


class AimForTwoWorld(ArrayWorld):
    """A fight is one decision; the team with more points wins, of which each has 1 for the best."""

    def __init__(self, num_fights: int, seed: int) -> None:
        super().__init__(CONTRACT, num_fights, seed, TEAM_REPORT)

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        self.obs[fight] = self.random[fight].uniform(-1, 1, (2, 2))
        self.report[fight] = 0

    def play_fights(self, fights: NDArray[np.int64], actions: NDArray[np.float32]) -> None:
        seen, sides, amounts = self.obs[fights], actions[..., 0::2], actions[..., 1::2]
        points = ((1 - np.abs(amounts - seen)) * (sides == (seen > 0))).mean(-1)
        self.report["reward"][fights] = points
        for fight, (one, other) in zip(fights.tolist(), points.tolist(), strict=True):
            self.end(fight, one, other)


def half(turn: Turn) -> None:
    """Sets half of what is right."""
    for name in NAMES:
        seen = turn.see(f"{name}_sees")
        turn.choose(f"{name}_positive", seen > 0)
        turn.set(f"{name}_amount", seen / 2)


class AimForTwo(Game):
    name, contract, rewards, scripts = CONTRACT.name, CONTRACT, TeamRewards(), {"half": half}

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> AimForTwoWorld:
        return AimForTwoWorld(num_fights, seed)
