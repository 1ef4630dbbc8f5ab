"""Games of one simultaneous decision whose best strategies are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.game import Game
from sb3_pvp.game.arrays import ArrayWorld
from sb3_pvp.game.contract import Contract, Head, Observation, SubAction
from sb3_pvp.game.contract.turn import Turn


class MatrixWorld(ArrayWorld):
    """A world whose fights last one simultaneous decision."""

    def __init__(self, game: MatrixGame, num_fights: int, seed: int = 0) -> None:
        super().__init__(game.contract, num_fights, seed)
        self._payoff = game.payoff
        self.obs[:] = 1.0

    def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
        """Ends the fight with the payoff of both choices."""
        self.end(fight, float(self._payoff[tuple(actions[:, 0])]), 0.0)


class MatrixGame(Game):
    """A symmetric game with a script, ``"champion"``, that plays a fixed mixed strategy.

    Args:
        name: of the game and its contract.
        beats: the choices that lose, by the choice that beats them.
        champion: the champion's strategy, a probability per choice.

    Attributes:
        choices: names of the choices.
        champion: float64 ``(choices,)``.
        payoff: int64 ``(choices, choices)``: 1 if the choice of the row beats that of the column, -1 if it loses.
    """

    def __init__(self, name: str, beats: Mapping[str, Sequence[str]], champion: Sequence[float]) -> None:
        self.name, self.choices, self.champion = name, tuple(beats), np.array(champion)
        actions = tuple(SubAction(choice, f"Choose {choice}.") for choice in beats)
        self.contract = Contract(name, (Head("choice", "The decision.", actions),), (Observation("one", "Always 1."),))
        wins = np.array([[other in beaten for other in beats] for beaten in beats.values()], np.int64)
        self.payoff: NDArray[np.int64] = wins - wins.T
        self.scripts = {"champion": self._play_champion}

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> MatrixWorld:
        """See `sb3_pvp.game.Game`."""
        return MatrixWorld(self, num_fights, seed)

    def best_answer(self, strategy: ArrayLike) -> float:
        """Returns the mean payoff of the best response to a strategy ``(choices,)``; 0 if it cannot be exploited."""
        return float((self.payoff @ np.asarray(strategy)).max())

    def _play_champion(self, turn: Turn) -> None:
        # Inverse transform sampling with the random number of the row.
        chosen = np.searchsorted(self.champion.cumsum(), turn.chance, side="right")
        for number, choice in enumerate(self.choices):
            turn.choose(choice, chosen == number)


ROCK_PAPER_SCISSORS = MatrixGame(
    "rock_paper_scissors", {"rock": ["scissors"], "paper": ["rock"], "scissors": ["paper"]}, champion=(0.5, 0.3, 0.2)
)
#: With a fourth choice, a well: rock and scissors fall into it, paper covers it. The champion never plays the well, and
#: the well wins 0.6 per game against it.
WITH_A_WELL = MatrixGame(
    "rock_paper_scissors_well",
    {"rock": ["scissors"], "paper": ["rock", "well"], "scissors": ["paper"], "well": ["rock", "scissors"]},
    champion=(0.4, 0.2, 0.4, 0.0),
)
