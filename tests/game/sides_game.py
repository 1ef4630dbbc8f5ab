"""Two against one: each agent sees a coin and names its side; who plays in one seat does not play in the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import Game
from sb3_pvp.game.arrays import ArrayWorld
from sb3_pvp.game.contract import Agent, Contract, Head, Observation, SubAction

NAMES, SEATS = ("left", "right", "alone"), (0, 0, 1)
CONTRACT = Contract(
    "coins_of_sides",
    tuple(Head(f"{name}_side", "", (SubAction(f"{name}_tails", ""), SubAction(f"{name}_heads", ""))) for name in NAMES),
    tuple(Observation(f"{name}_{what}", "") for name in NAMES for what in ("coin", "plays")),
    tuple(
        Agent(name, (2 * number, 2 * number + 2), (number, number + 1), active=f"{name}_plays", seats=(SEATS[number],))
        for number, name in enumerate(NAMES)
    ),
)


class CoinsOfSidesWorld(ArrayWorld):
    """A fight is one decision; the side with the larger share of right answers wins."""

    def __init__(self, num_fights: int, seed: int) -> None:
        super().__init__(CONTRACT, num_fights, seed)

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        for seat in range(2):
            plays = np.equal(SEATS, seat)
            self.obs[fight, seat] = np.stack([self.random[fight].integers(2, size=3) * plays, plays], -1).ravel()
            self.masks[fight, seat] = np.stack([np.ones(3), plays], -1).ravel()

    def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
        coins, plays = self.obs[fight, :, 0::2], self.obs[fight, :, 1::2]
        points = ((actions == coins) * plays).sum(axis=1) / plays.sum(axis=1)
        self.end(fight, float(points[0]), float(points[1]))


class CoinsOfSides(Game):
    name, contract = CONTRACT.name, CONTRACT

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> CoinsOfSidesWorld:
        return CoinsOfSidesWorld(num_fights, seed)
