"""Match makers: whom the learner fights next, out of all players that it may meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sb3_pvp.common.arguments import AT_LEAST_0, NonNegative, PositiveInt, Share, checked
from sb3_pvp.common.names import require_known
from sb3_pvp.common.snapshots import Snapshot, check_identity
from sb3_pvp.schedules import parse_schedule
from sb3_pvp.selfplay.match_log import BROKEN, SCORES
from sb3_pvp.selfplay.players import Player

MATCH_MAKERS: dict[str, type[MatchMaker]] = {}  #: By name.


class MatchMaker:
    """Chooses opponents with probabilities that may depend on how the learner did against them."""

    kind: str

    def __init_subclass__(cls, kind: str) -> None:
        cls.kind = kind
        MATCH_MAKERS[kind] = cls

    @checked
    def __init__(self) -> None:
        self._known: dict[Player, list[float]] = {}  #: What is known of each player (`_newcomer`), as they were added.
        self.trained_rollouts = 0  #: Of the learner, the time of all schedules; the owner sets it.

    @property
    def players(self) -> tuple[Player, ...]:
        """All who may be chosen, in the order in which they were added."""
        return tuple(self._known)

    def add(self, player: Player) -> None:
        """Lets a player take part; nothing happens if he does already."""
        if player not in self._known:
            self._known[player] = self._newcomer()

    def remove(self, player: Player) -> None:
        """Leaves a player out from now on; nothing happens if he is unknown."""
        self._known.pop(player, None)

    def probabilities(self) -> dict[Player, float]:
        return dict(zip(self._known, self._distribution().tolist(), strict=True))

    def choose(self, rng: np.random.Generator) -> Player:
        """Draws a player, with one number of ``rng``; raises `ValueError` if there is none."""
        if not self._known:
            raise ValueError("there is nobody to fight: add a player first")
        chances = np.cumsum(self._distribution())
        # The sum of all may be a rounding error below 1, and those after the last chance have none.
        index = np.searchsorted(chances, rng.random() * chances[-1], side="right")
        return self.players[int(index)]

    def record(self, player: Player, learner_outcome: str, probability: float | None = None) -> None:
        """Takes note of how the learner's fight against ``player``, chosen with this ``probability``, ended.

        Broken fights, and those against players who have been removed, teach nothing; `ValueError` for other outcomes
        than those of `MatchRecord`. ``None``: the probability of now.
        """
        require_known("outcome", learner_outcome, [*SCORES, *BROKEN])
        if learner_outcome in SCORES and player in self._known:
            self._learn(player, SCORES[learner_outcome], probability)

    def get_state(self) -> Snapshot:
        """All that was learned, as values that JSON can hold; settings are not in it."""
        known = {str(player): list(figures) for player, figures in self._known.items()}
        return {"kind": self.kind, "version": 1, "players": known}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from `get_state`; raises `ValueError`, and changes nothing, if another kind or version made it."""
        check_identity(state, {"kind": self.kind, "version": 1})
        self._known = {Player.parse(text): list(map(float, known)) for text, known in state["players"].items()}

    def _newcomer(self) -> list[float]:
        """What is known of a player who has just been added."""
        return []

    def _learn(self, player: Player, score: float, probability: float | None) -> None:
        """Takes note of the learner's score, 0, 0.5 or 1, against a known player; most match makers need none."""

    def _distribution(self) -> NDArray[np.float64]:
        """Probabilities in the order of `players`; they sum to 1 up to rounding."""
        return np.full(len(self._known), 1 / max(len(self._known), 1))


class Uniform(MatchMaker, kind="uniform"):
    """Everybody alike."""


class Prioritised(MatchMaker, kind="prioritised"):
    """Quality scores as in OpenAI Five (self-play.md §4).

    An opponent is chosen with the softmax of the qualities. When the learner wins, the opponent's quality falls by
    ``learning_rate / (players * probability)``; nothing else changes it. A newcomer gets the highest quality there is.
    Whoever chooses a player for many fights at once must keep the probability of the choice for `record`: that of now
    is smaller after every win, and so each fall of the quality would be greater than the one before.

    ``learning_rate``: a non-negative number, or a schedule of such over trained rollouts (training.md §9).
    """

    @checked
    def __init__(self, learning_rate: Any = 0.01) -> None:
        super().__init__()
        self._learning_rate = parse_schedule(learning_rate)
        self.learning_rate()

    def learning_rate(self) -> float:
        """The present one; raises `ValueError` if the schedule gives something else than a non-negative number."""
        return AT_LEAST_0.read("learning_rate", self._learning_rate(self.trained_rollouts))

    def qualities(self) -> dict[Player, float]:
        return {player: quality for player, (quality,) in self._known.items()}

    def _newcomer(self) -> list[float]:
        return [max(self.qualities().values(), default=1.0)]

    def _learn(self, player: Player, score: float, probability: float | None) -> None:
        if probability is None:
            probability = self.probabilities()[player]
        # Who is so far behind that his chance is too small for a number stays where he is.
        if score == 1 and probability > 0:
            self._known[player][0] -= self.learning_rate() / (len(self._known) * probability)

    def _distribution(self) -> NDArray[np.float64]:
        qualities = np.array([*self.qualities().values()], np.float64)
        weights = np.exp(qualities - qualities.max(initial=-np.inf))
        return np.asarray(weights / weights.sum())


#: Weight of an opponent against whom the learner wins with this rate (the PFSP weightings of AlphaStar).
WEIGHTINGS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "hard": lambda rate: (1 - rate) ** 2,
    "linear": lambda rate: 1 - rate,
    "linear_capped": lambda rate: np.minimum(0.5, 1 - rate),
    "variance": lambda rate: rate * (1 - rate),
}


class PrioritisedFictitious(MatchMaker, kind="prioritised_fictitious"):
    """Prioritised fictitious self-play (PFSP) as in AlphaStar: by the learner's win rate against each opponent.

    The rate is ``(wins + ties / 2 + prior_games / 2) / (games + prior_games)``. All counts of an opponent are
    multiplied by ``decay`` whenever the learner has met him, since the learner that met him long ago was another one.
    Without prior games a single win would rule an opponent out for good; with none and no games the rate is one half.

    ``weighting``: ``"hard"`` (who beats the learner), ``"linear"``, ``"linear_capped"`` or ``"variance"`` (who is as
    good as the learner).
    """

    @checked
    def __init__(
        self, weighting: str = "hard", decay: Annotated[float, Field(gt=0, le=1)] = 0.99, prior_games: NonNegative = 1.0
    ) -> None:
        super().__init__()
        require_known("weighting", weighting, WEIGHTINGS)
        self.weighting, self.decay, self.prior_games = weighting, decay, prior_games

    def win_rates(self) -> dict[Player, float]:
        points, games = np.array([*self._known.values()], np.float64).reshape(-1, 2).T
        games += self.prior_games
        rates = np.divide(points + self.prior_games / 2, games, out=np.full(len(games), 0.5), where=games > 0)
        return dict(zip(self._known, rates.tolist(), strict=True))

    def _newcomer(self) -> list[float]:
        return [0.0, 0.0]  # points and games of the learner

    def _learn(self, player: Player, score: float, probability: float | None) -> None:
        points, games = self._known[player]
        self._known[player] = [points * self.decay + score, games * self.decay + 1]

    def _distribution(self) -> NDArray[np.float64]:
        weights = WEIGHTINGS[self.weighting](np.array([*self.win_rates().values()]))
        total = float(weights.sum())
        return weights / total if total > 0 else super()._distribution()


class WindowLatest(MatchMaker, kind="window_latest"):
    """The newest players only, as in ml-agents: the latest with probability ``latest_ratio``, else one of the window.

    ``window``: how many of the newest players may be chosen, the latest among them.
    """

    @checked
    def __init__(self, window: PositiveInt = 10, latest_ratio: Share = 0.5) -> None:
        super().__init__()
        self.window, self.latest_ratio = window, latest_ratio

    def _distribution(self) -> NDArray[np.float64]:
        chances = np.zeros(len(self._known))
        if self._known:
            chances[-self.window :] = (1 - self.latest_ratio) / min(self.window, len(chances))
            chances[-1] += self.latest_ratio
        return chances


def match_maker(kind: str, **settings: Any) -> MatchMaker:
    """One of `MATCH_MAKERS`; raises `ValueError` for wrong names and settings."""
    require_known("match maker", kind, MATCH_MAKERS)
    return MATCH_MAKERS[kind](**settings)
