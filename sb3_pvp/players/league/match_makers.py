"""Match makers, which sample the learner's next opponent (self-play.md §4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sb3_pvp.common.arguments import AT_LEAST_0, NonNegative, PositiveInt, Share, checked
from sb3_pvp.common.errors import require_known
from sb3_pvp.common.schedules import parse_schedule
from sb3_pvp.common.snapshots import Snapshot, check_identity
from sb3_pvp.players.league.match_records import BROKEN, SCORES
from sb3_pvp.players.league.players import Player

MATCH_MAKERS: dict[str, type[MatchMaker]] = {}  #: Classes by kind.


class MatchMaker:
    """Samples opponents with probabilities that may depend on the learner's results against them."""

    kind: str

    def __init_subclass__(cls, kind: str) -> None:
        """Registers the subclass in `MATCH_MAKERS`."""
        cls.kind = kind
        MATCH_MAKERS[kind] = cls

    @checked
    def __init__(self) -> None:
        # The record of each player (see _initial_record), in the order in which they were added.
        self._records: dict[Player, list[float]] = {}
        self.trained_rollouts = 0  #: The learner's finished rollouts, the time of all schedules; set by the owner.

    @property
    def players(self) -> tuple[Player, ...]:
        """All players, in the order in which they were added."""
        return tuple(self._records)

    def add(self, player: Player) -> None:
        """Adds a player; does nothing if it is already there."""
        if player not in self._records:
            self._records[player] = self._initial_record()

    def remove(self, player: Player) -> None:
        """Removes a player; does nothing if it is unknown."""
        self._records.pop(player, None)

    def probabilities(self) -> dict[Player, float]:
        """Returns the probability of each player."""
        return dict(zip(self._records, self._distribution().tolist(), strict=True))

    def choose(self, rng: np.random.Generator) -> Player:
        """Samples a player, using one number of ``rng``; raises `ValueError` if there are no players."""
        if not self._records:
            raise ValueError("there are no players to choose from: add a player first")
        # One number per choice, whatever the kind: a resumed run draws the same opponents.
        cumulative = np.cumsum(self._distribution())
        # Scaled by the last entry, as rounding may leave it below 1; trailing players with probability 0 stay excluded.
        index = np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
        return self.players[int(index)]

    def record(self, player: Player, learner_outcome: str, probability: float | None = None) -> None:
        """Records the outcome of the learner's fight against ``player``, as the learner sees it.

        ``probability`` is that of the choice, by default the present one. Broken fights and removed players are
        ignored; raises `ValueError` for outcomes that `MatchRecord` does not have.
        """
        require_known("outcome", learner_outcome, [*SCORES, *BROKEN])
        if learner_outcome in SCORES and player in self._records:
            self._update(player, SCORES[learner_outcome], probability)

    def get_state(self) -> Snapshot:
        """Returns the records of all players as JSON values; settings are not included."""
        records = {str(player): list(record) for player, record in self._records.items()}
        return {"kind": self.kind, "version": 1, "players": records}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores `get_state`; raises `ValueError`, and changes nothing, if another kind or version made it."""
        check_identity(state, {"kind": self.kind, "version": 1})
        self._records = {Player.parse(text): list(map(float, record)) for text, record in state["players"].items()}

    def _initial_record(self) -> list[float]:
        """Returns the record of a player that is being added."""
        return []

    def _update(self, player: Player, score: float, probability: float | None) -> None:
        """Updates a player's record with the learner's score, 0, 0.5 or 1; does nothing by default."""

    def _distribution(self) -> NDArray[np.float64]:
        """Returns probabilities in the order of `players`, which sum to 1 up to rounding."""
        return np.full(len(self._records), 1 / max(len(self._records), 1))


class Uniform(MatchMaker, kind="uniform"):
    """All players with the same probability."""


class Prioritised(MatchMaker, kind="prioritised"):
    """Quality scores as in OpenAI Five (Berner et al., 2019; self-play.md §4).

    A player's probability is the softmax of the qualities. When the learner wins, the player's quality decreases by
    ``learning_rate / (players * probability)``. New players get the highest quality so far. If a player is chosen for
    many fights at once, pass the probability of that choice to `record`: the present one decreases with every win, so
    each decrease of the quality would be larger than the one before.

    Args:
        learning_rate: a number of at least 0, or a schedule of such numbers over trained rollouts (training.md §9).
    """

    @checked
    def __init__(self, learning_rate: Any = 0.01) -> None:
        super().__init__()
        self._learning_rate = parse_schedule(learning_rate)
        self.learning_rate()

    def learning_rate(self) -> float:
        """Returns the present learning rate; raises `ValueError` if the schedule's value is no number of at least 0."""
        return AT_LEAST_0.read("learning_rate", self._learning_rate(self.trained_rollouts))

    def qualities(self) -> dict[Player, float]:
        """Returns the quality of each player."""
        return {player: quality for player, (quality,) in self._records.items()}

    def _initial_record(self) -> list[float]:
        return [max(self.qualities().values(), default=1.0)]

    def _update(self, player: Player, score: float, probability: float | None) -> None:
        if probability is None:
            probability = self.probabilities()[player]
        # The softmax underflows to 0 for very low qualities, which then stay as they are.
        if score == 1 and probability > 0:
            self._records[player][0] -= self.learning_rate() / (len(self._records) * probability)

    def _distribution(self) -> NDArray[np.float64]:
        qualities = np.array([*self.qualities().values()], np.float64)
        weights = np.exp(qualities - qualities.max(initial=-np.inf))  # softmax; without the maximum it would overflow
        return np.asarray(weights / weights.sum())


#: Weight of an opponent by the learner's win rate against it (Vinyals et al., 2019, on AlphaStar).
WEIGHTINGS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "hard": lambda rate: (1 - rate) ** 2,
    "linear": lambda rate: 1 - rate,
    "linear_capped": lambda rate: np.minimum(0.5, 1 - rate),
    "variance": lambda rate: rate * (1 - rate),
}


class PrioritisedFictitious(MatchMaker, kind="prioritised_fictitious"):
    """Prioritised fictitious self-play (PFSP) as in AlphaStar (Vinyals et al., 2019), by the learner's win rates.

    The win rate against a player is ``(wins + ties / 2 + prior_games / 2) / (games + prior_games)``.

    Args:
        weighting: ``"hard"`` (prefers players that beat the learner), ``"linear"``, ``"linear_capped"`` or
            ``"variance"`` (prefers players of the same strength).
        decay: factor of a player's counts at each fight, because the learner of earlier fights was another one.
        prior_games: virtual games, half of them won; with 0 a single win can exclude a player for good.
    """

    @checked
    def __init__(
        self, weighting: str = "hard", decay: Annotated[float, Field(gt=0, le=1)] = 0.99, prior_games: NonNegative = 1.0
    ) -> None:
        super().__init__()
        require_known("weighting", weighting, WEIGHTINGS)
        self.weighting, self.decay, self.prior_games = weighting, decay, prior_games

    def win_rates(self) -> dict[Player, float]:
        """Returns the learner's win rate against each player; 0.5 without any games."""
        points, games = np.array([*self._records.values()], np.float64).reshape(-1, 2).T
        games += self.prior_games
        rates = np.divide(points + self.prior_games / 2, games, out=np.full(len(games), 0.5), where=games > 0)
        return dict(zip(self._records, rates.tolist(), strict=True))

    def _initial_record(self) -> list[float]:
        return [0.0, 0.0]  # the learner's points and games

    def _update(self, player: Player, score: float, probability: float | None) -> None:
        points, games = self._records[player]
        self._records[player] = [points * self.decay + score, games * self.decay + 1]

    def _distribution(self) -> NDArray[np.float64]:
        weights = WEIGHTINGS[self.weighting](np.array([*self.win_rates().values()]))
        total = float(weights.sum())
        return weights / total if total > 0 else super()._distribution()  # uniform where all weights are 0


class WindowLatest(MatchMaker, kind="window_latest"):
    """Only the newest players, as in Unity ML-Agents.

    Args:
        window: how many of the newest players can be chosen.
        latest_ratio: probability of the latest player; otherwise all players of the window are equally likely.
    """

    @checked
    def __init__(self, window: PositiveInt = 10, latest_ratio: Share = 0.5) -> None:
        super().__init__()
        self.window, self.latest_ratio = window, latest_ratio

    def _distribution(self) -> NDArray[np.float64]:
        probabilities = np.zeros(len(self._records))
        if self._records:
            probabilities[-self.window :] = (1 - self.latest_ratio) / min(self.window, len(probabilities))
            probabilities[-1] += self.latest_ratio  # the latest player is in the window too
        return probabilities


def match_maker(kind: str, **settings: Any) -> MatchMaker:
    """Builds the match maker of this kind, see `MATCH_MAKERS`; raises `ValueError` for invalid arguments."""
    require_known("match maker", kind, MATCH_MAKERS)
    return MATCH_MAKERS[kind](**settings)
