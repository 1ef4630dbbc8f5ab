"""Games of one simultaneous decision, whose best strategies are known: a world in about a hundred lines.

An example of a `sb3_pvp.game.World` that is written from scratch, with all fights in arrays. Games that exist as
PettingZoo environments need none of this: see ``connect_four.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.contract import Contract, Head, Observation, SubAction
from sb3_pvp.contract.actions import fight_numbers, joint_actions
from sb3_pvp.game import Outcome
from sb3_pvp.games.osrs.report import META_DTYPE


@dataclass(frozen=True)
class MatrixGame:
    """A symmetric game of one decision; give it to ``NhVecEnv(world=...)``.

    Attributes:
        name: of its contract.
        choices: what there is to choose.
        beats: for each choice, those that lose against it.
        bot: how often the world's own bot, "baseline", chooses what.
    """

    name: str
    choices: tuple[str, ...]
    beats: tuple[tuple[str, ...], ...]
    bot: tuple[float, ...]

    @cached_property
    def contract(self) -> Contract:
        """One decision, and nothing to see."""
        actions = tuple(SubAction(choice, f"Choose {choice}.") for choice in self.choices)
        return Contract(self.name, (Head("choice", "The decision.", actions),), (Observation("one", "Always 1."),))

    @cached_property
    def payoff(self) -> NDArray[np.int64]:
        """1 where the choice of the row beats that of the column, -1 where it loses, 0 for a tie."""
        wins = np.array([[other in beaten for other in self.choices] for beaten in self.beats], np.int64)
        payoff: NDArray[np.int64] = wins - wins.T
        return payoff

    def best_answer(self, strategy: ArrayLike) -> float:
        """What the best answer wins on average against a strategy ``(choices,)``: 0 if that cannot be exploited."""
        return float((self.payoff @ np.asarray(strategy)).max())

    def __call__(
        self, num_fights: int = 1, seed: int = 0, reset_params: Any = None, contract: Any = None
    ) -> MatrixWorld:
        """A world in which it is played."""
        return MatrixWorld(self, num_fights, seed)


ROCK_PAPER_SCISSORS = MatrixGame(
    "rock_paper_scissors",
    ("rock", "paper", "scissors"),
    (("scissors",), ("rock",), ("paper",)),
    bot=(0.5, 0.3, 0.2),
)
#: With a well, into which rock and scissors fall and which paper covers. The champion, its bot, never plays it, and can
#: be exploited: the well wins 0.6 per game against it.
WITH_A_WELL = MatrixGame(
    "rock_paper_scissors_well",
    ("rock", "paper", "scissors", "well"),
    (("scissors",), ("rock", "well"), ("paper",), ("rock", "scissors")),
    bot=(0.4, 0.2, 0.4, 0.0),
)


class MatrixWorld:
    """F fights of one tick each; see `sb3_pvp.game.World` for the attributes.

    Args:
        game: what is played.
        num_fights: F.
        seed: fight ``i`` is seeded with ``seed + i``.
    """

    def __init__(self, game: MatrixGame, num_fights: int = 1, seed: int = 0) -> None:
        self.contract, self.num_fights = game.contract, num_fights
        self._payoff, self._bot_chances = game.payoff, np.cumsum(game.bot)
        self.obs = np.ones((num_fights, 2, 1), np.float32)
        self.masks = np.ones((num_fights, 2, len(game.choices)), np.bool_)
        self.meta: NDArray[np.void] = np.zeros((num_fights, 2), META_DTYPE)
        self.outcome = np.zeros((num_fights, 2), np.uint8)
        self._bots = np.zeros(num_fights, bool)
        self._random = [np.random.default_rng(seed + fight) for fight in range(num_fights)]

    def reset(
        self, fights: ArrayLike | None = None, options: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        """Starts new fights; of the options ``seed`` and ``bots`` mean something here."""
        which = fight_numbers(fights, self.num_fights)
        shared = options is None or isinstance(options, Mapping)
        for fight, given in zip(which.tolist(), [options or {}] * len(which) if shared else options, strict=True):  # type: ignore[arg-type]
            if "seed" in given:
                self._random[fight] = np.random.default_rng(given["seed"])
            self._bots[fight] = given.get("bots", (None, None))[1] is not None
        self.outcome[which] = Outcome.RUNNING
        self.meta["episode_ticks"][which] = 0

    def step(self, actions: ArrayLike, fights: ArrayLike | None = None) -> None:
        """Both have chosen; the fight is over."""
        which = fight_numbers(fights, self.num_fights)
        first, second = joint_actions(actions, len(which), self.contract)[:, :, 0].T
        second = second.copy()
        for row in np.flatnonzero(self._bots[which]):
            second[row] = np.searchsorted(self._bot_chances, self._random[which[row]].random(), side="right")
        score = self._payoff[first, second]
        results = np.array([Outcome.TIED, Outcome.WON, Outcome.LOST])  # -1 is the last
        self.outcome[which] = np.stack([results[score], results[-score]], axis=1)
        self.meta["episode_ticks"][which] += 1

    def close(self) -> None:
        """Nothing is held."""

    def get_state(self) -> dict[str, Any]:
        """A snapshot, with which runs can be resumed exactly."""
        random = [dict(rng.bit_generator.state) for rng in self._random]
        return {"random": random, "bots": self._bots.copy(), "outcome": self.outcome.copy(), "meta": self.meta.copy()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes back to the moment of `get_state`."""
        for rng, words in zip(self._random, state["random"], strict=True):
            rng.bit_generator.state = words
        self._bots[:], self.outcome[:], self.meta[:] = state["bots"], state["outcome"], state["meta"]
