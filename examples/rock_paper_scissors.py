"""Rock, paper, scissors: all that a game needs; ``python examples/rock_paper_scissors.py`` trains it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.contract import Contract, Head, Observation, SubAction
from sb3_pvp.game import Game
from sb3_pvp.simple_game import ArrayWorld

CHOICES = ("rock", "paper", "scissors")
CONTRACT = Contract(
    "rock_paper_scissors",
    (Head("choice", "The decision.", tuple(SubAction(each, f"Choose {each}.") for each in CHOICES)),),
    (Observation("one", "Always 1."),),
)


class RpsWorld(ArrayWorld):
    """Every fight is one decision of both."""

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        self.obs[fight] = 1.0

    def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
        first, second = actions[:, 0].tolist()
        self.end(fight, (first - second) % 3 == 1, (second - first) % 3 == 1)


class RockPaperScissors(Game):
    """Paper beats rock, scissors beat paper, rock beats scissors."""

    name = CONTRACT.name
    contract = CONTRACT

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> RpsWorld:
        return RpsWorld(self.contract, num_fights, seed)


if __name__ == "__main__":
    from league_training import main

    main(["rock_paper_scissors:RockPaperScissors", "--steps", "20000"])
