"""Rock, paper and scissors, sixteen rounds; both see how often the other has shown what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import Game
from sb3_pvp.game.arrays import ArrayWorld
from sb3_pvp.game.contract import Contract, Head, Observation, SubAction
from sb3_pvp.games.team_alone import TEAM_REPORT, TeamRewards

THROWS, ROUNDS = ("rock", "paper", "scissors"), 16
CONTRACT = Contract(
    "throwing",
    (Head("throw", "", tuple(SubAction(each, "") for each in THROWS)),),
    (Observation("rounds", ""), *(Observation(f"other_{each}", "") for each in THROWS)),
)


class ThrowingWorld(ArrayWorld):
    """A round is worth 1 to the winner and -1 to the loser; who has more at the end has won."""

    def __init__(self, num_fights: int, seed: int) -> None:
        super().__init__(CONTRACT, num_fights, seed, TEAM_REPORT)
        self.shown = np.zeros((num_fights, 2, 3))  #: How often each seat has shown what.
        self.points = np.zeros((num_fights, 2))

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        self.obs[fight] = self.shown[fight] = self.points[fight] = 0
        self.report[fight] = 0

    def play_fights(self, fights: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        throws = actions[..., 0]
        won = np.array([0, 1, -1])[(throws[:, 0] - throws[:, 1]) % 3]
        self.report["reward"][fights] = np.stack([won, -won], 1)
        self.points[fights] += np.stack([won, -won], 1)
        self.shown[fights] += np.eye(3)[throws]
        self.obs[fights, :, 0] = self.ticks[fights, np.newaxis] / ROUNDS
        self.obs[fights, :, 1:] = self.shown[fights, ::-1] / self.ticks[fights, np.newaxis, np.newaxis]
        for fight in fights[self.ticks[fights] == ROUNDS].tolist():
            self.end(fight, *self.points[fight].tolist())


class Throwing(Game):
    name, contract, rewards = CONTRACT.name, CONTRACT, TeamRewards()

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> ThrowingWorld:
        return ThrowingWorld(num_fights, seed)
