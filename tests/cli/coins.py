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


class SidedWorld(CoinWorld):
    def __init__(self, contract: Contract, num_fights: int, seed: int, params: Mapping[str, Any]) -> None:
        super().__init__(contract, num_fights, seed)
        self.params, self.builds = params, ["high"] * num_fights

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        super().begin(fight, options)
        self.builds[fight] = {**self.params, **(options.get("reset_params") or {})}.get("wins", "high")

    def build_name(self, fight: int) -> str:
        return self.builds[fight]

    def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
        super().play_fight(fight, actions if self.builds[fight] == "high" else -actions)


class Sided(Coins):
    """The higher coin wins in the build "high", the lower one in "low"; the script throws the lower one."""

    build_param, builds = "wins", ("high", "low")

    def __init__(self) -> None:
        super().__init__()
        self.scripts = {"lower": lambda turn: turn.choose("side_0", np.ones(len(turn.chance), bool))}

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> SidedWorld:
        return SidedWorld(self.contract, num_fights, seed, params)
