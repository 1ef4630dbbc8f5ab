"""Two small games of a user's own: the higher coin wins; dice are coins with six sides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import Game
from sb3_pvp.game.arrays import ArrayWorld
from sb3_pvp.game.contract import Contract, Head, Observation, SubAction


class CoinWorld(ArrayWorld):
    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        self.obs[fight] = 1.0

    def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
        self.end(fight, *actions[:, 0].tolist())


class Coins(Game):
    sides = 2

    def __init__(self) -> None:
        sides = tuple(SubAction(f"side_{each}", "A side.") for each in range(self.sides))
        self.name = type(self).__name__
        self.contract = Contract(self.name, (Head("side", "A side.", sides),), (Observation("one", "Always 1."),))

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> CoinWorld:
        return CoinWorld(self.contract, num_fights, seed)


class Dice(Coins):
    sides = 6


class Loaded(Coins):
    """Cannot be made without knowing how."""

    def __init__(self, side: int) -> None:
        super().__init__()
