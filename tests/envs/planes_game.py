"""Tic-tac-toe whose observation is an array: two planes of 3 x 3 cells, or a picture of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

from sb3_pvp.game import Game
from sb3_pvp.game.arrays import ArrayWorld
from sb3_pvp.game.contract import Contract, Head, SubAction

LINES = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]])
PLANES, PICTURE, SCALE = (3, 3, 2), (2, 36, 36), 12
HEAD = Head(
    "cell", "Where to draw.", tuple(SubAction(each, ".") for each in ("wait", *(f"draw_{i}" for i in range(9))))
)


class BoardWorld(ArrayWorld):
    """A random side begins, because the baseline always has the second seat."""

    def __init__(self, contract: Contract, num_fights: int, seed: int) -> None:
        super().__init__(contract, num_fights, seed)
        self.boards = np.zeros((num_fights, 2, 9), bool)  # the cells of each seat
        self.movers = np.zeros(num_fights, int)

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        self.boards[fight] = False
        self.movers[fight] = self.random[fight].integers(2)
        self.show(fight)

    def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
        mover, free = self.movers[fight], ~self.boards[fight].any(0)
        cell = actions[mover, 0] - 1
        self.boards[fight, mover, cell if cell >= 0 and free[cell] else np.argmax(free)] = True
        has_won = self.boards[fight, mover][LINES].all(1).any()
        self.movers[fight] = 1 - mover
        self.show(fight)
        if has_won or self.boards[fight].any(0).all():
            self.end(fight, has_won and mover == 0, has_won and mover == 1)

    def show(self, fight: int) -> None:
        for seat in range(2):
            both = self.boards[fight, [seat, 1 - seat]].reshape(2, 3, 3)
            if self.contract.pixels:
                seen: Any = 255 * both.repeat(SCALE, 1).repeat(SCALE, 2)
            else:
                seen = both.transpose(1, 2, 0)
            self.obs[fight, seat] = seen.ravel()
            waits = seat != self.movers[fight]
            self.masks[fight, seat] = [waits, *(~self.boards[fight].any(0) & ~waits)]


class Board(Game):
    def __init__(self, name: str, shape: tuple[int, ...], pixels: bool = False) -> None:
        self.name, self.contract = name, Contract(name, (HEAD,), shape=shape, pixels=pixels)

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> BoardWorld:
        return BoardWorld(self.contract, num_fights, seed)


PLANES_GAME, PICTURE_GAME = Board("planes", PLANES), Board("picture", PICTURE, pixels=True)


class PlanesCnn(BaseFeaturesExtractor):
    """A stranger's features extractor: convolutions over the cells."""

    def __init__(self, observation_space: spaces.Dict, channels: int = 8) -> None:
        shape = observation_space["observation"].shape or ()  # perhaps with an axis of frames
        frames, cells = 1 if len(shape) == 3 else shape[0], shape[-3:]
        super().__init__(observation_space, channels * (cells[0] - 1) * (cells[1] - 1))
        self.frames, self.cells = frames, cells
        self.layers = nn.Sequential(nn.Conv2d(frames * cells[2], channels, 2), nn.ReLU(), nn.Flatten())

    def forward(self, observations: dict[str, th.Tensor]) -> th.Tensor:
        cells = observations["observation"].float().reshape(-1, self.frames, *self.cells)
        return self.layers(cells.permute(0, 1, 4, 2, 3).flatten(1, 2))  # type: ignore[no-any-return]
