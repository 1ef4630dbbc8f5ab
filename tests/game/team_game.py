"""Two against two: each agent sees a coin and names its side; the second agent sits some fights out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import Game
from sb3_pvp.game.arrays import ArrayWorld
from sb3_pvp.game.contract import Agent, Contract, Head, Observation, SubAction

NAMES = ("first", "second")
SEEN = tuple(Observation(f"{name}_{what}", "") for name in NAMES for what in ("coin", "plays"))
HEADS = tuple(
    Head(f"{name}_side", "", (SubAction(f"{name}_tails", ""), SubAction(f"{name}_heads", ""))) for name in NAMES
)
AGENTS = (
    Agent("first", (0, 2), (0, 1)),
    Agent("second", (2, 4), (1, 2), active="second_plays"),
)
CONTRACT = Contract("coins_for_two", HEADS, SEEN, AGENTS, shared_weights=True)


class CoinsForTwoWorld(ArrayWorld):
    """A fight is one decision; the team with more right answers wins."""

    def __init__(self, num_fights: int, seed: int) -> None:
        super().__init__(CONTRACT, num_fights, seed)

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        for seat in range(2):
            first, second = self.random[fight].integers(2, size=2).tolist()
            plays = int(self.random[fight].random() < 0.8)
            self.obs[fight, seat] = [first, 1, second * plays, plays]
            # An agent that is out of the game has one legal action.
            self.masks[fight, seat] = [True, True, True, bool(plays)]

    def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
        coins, plays = self.obs[fight, :, [0, 2]].T, self.obs[fight, :, [1, 3]].T
        points = ((actions == coins) * plays).sum(axis=1) / plays.sum(axis=1)
        self.end(fight, float(points[0]), float(points[1]))


class CoinsForTwo(Game):
    name, contract = CONTRACT.name, CONTRACT

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> CoinsForTwoWorld:
        return CoinsForTwoWorld(num_fights, seed)
