"""A sequential test of whether one player is better than another: it stops by itself, as soon as the fights say so.

Fights come in pairs: same seed, seats swapped. What a seed gives to one seat, such as an advantage, both players get in
turn. Its two fights thus depend on each other, and a pair is one observation with five outcomes (*pentanomial*).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, log, log10
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.common.arguments import COUNT, NUMBER, POSITIVE
from sb3_pvp.players.league.bradley_terry import Z95, Interval
from sb3_pvp.players.league.ratings import expected_score

MAX_ELO = 2000.0  #: Largest difference that can be asked for; beyond it one of 100,000 fights would be lost.
PAIRS_PER_STEP = 16  #: After so many pairs `run_sprt` looks at the results.
SCORES = np.arange(5) / 4  #: Mean score of a pair whose two fights gave 0, ½, 1, 1½ or 2 points.
_HALVINGS = 60  # of a bracket: hardly a double is left between its ends

Verdict = Literal["better", "not better"]


def shortfall(pairs: ArrayLike, score: ArrayLike) -> NDArray[np.float64]:
    """Returns by how much the log-likelihood falls if the mean score must be ``score``.

    The distribution p over the five outcomes that is most likely to give counts n, among those of mean s, is
    ``p_i = n_i / N / (1 + t (a_i - s))``, where t maximises ``sum n_i log(1 + t (a_i - s))`` while all factors stay
    at least 0; this maximum is the shortfall. An outcome that is missing in n needs no made-up count: if a mean cannot
    be reached without it, t is at the end of its interval, and p has the rest of the probability there.

    Sources: M. Van den Bergh, "The generalized maximum likelihood ratio for the expectation value of a distribution"
    (2019), for fishtest; A. Owen, "Empirical likelihood ratio confidence intervals" (1988).

    Args:
        pairs: counts ``(..., 5)`` of pairs with 0, ½, 1, 1½ and 2 points.
        score: above 0 and below 1; ``(...)``.
    """
    counts, means = np.broadcast_arrays(np.asarray(pairs, float), np.asarray(score, float)[..., None])
    above, seen, ends = SCORES - means, counts > 0, means[..., :1]

    def slope(t: NDArray[np.float64]) -> NDArray[np.float64]:
        terms = np.divide(counts * above, 1 + t * above, out=np.zeros_like(above), where=seen)
        return np.asarray(terms.sum(-1, keepdims=True))

    t = _root(slope, -1 / (1 - ends), 1 / ends)
    return np.asarray((counts * np.log1p(t * above, out=np.zeros_like(above), where=seen)).sum(-1))


def _root(
    falling: Callable[[NDArray[np.float64]], NDArray[np.float64]], low: NDArray[np.float64], high: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns where a falling function is 0 between ``low`` and ``high``, or the end nearer to it."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        positive = falling(middle) > 0
        low, high = np.where(positive, middle, low), np.where(positive, high, middle)
    return low


@dataclass(frozen=True)
class Sprt:
    """A sequential probability ratio test between two Elo differences (Wald, 1945); `ValueError` for wrong ones."""

    elo0: float = 0.0  #: At this difference or less, ``"better"`` is an error; at least ``-MAX_ELO``.
    elo1: float = 20.0  #: At this difference or more, ``"not better"`` is an error; at most ``MAX_ELO``.
    alpha: float = 0.05  #: Greatest probability of ``"better"`` at ``elo0``, below 0.5.
    beta: float = 0.05  #: Greatest probability of ``"not better"`` at ``elo1``, below 0.5.

    def __post_init__(self) -> None:
        NUMBER.check(elo0=self.elo0, elo1=self.elo1, alpha=self.alpha, beta=self.beta)
        if not -MAX_ELO <= self.elo0 < self.elo1 <= MAX_ELO:
            raise ValueError(f"elo0 must be below elo1, both within {MAX_ELO:g} of 0, got {self.elo0:g}, {self.elo1:g}")
        if not (0 < self.alpha < 0.5 and 0 < self.beta < 0.5):
            raise ValueError(f"alpha and beta must be above 0 and below 0.5, got {self.alpha:g} and {self.beta:g}")

    @property
    def bounds(self) -> tuple[float, float]:
        """The log-likelihood ratios at which the test ends, at most the first or at least the second (Wald's).

        They give exactly both error rates if every test ends on a bound; as steps end beyond them, the rates are lower.
        """
        return log(self.beta / (1 - self.alpha)), log((1 - self.beta) / self.alpha)

    def llr(self, pairs: Sequence[int]) -> float:
        """Returns the generalised log-likelihood ratio of ``elo1`` to ``elo0``, see `shortfall`.

        Args:
            pairs: how many pairs gave 0, ½, 1, 1½ and 2 points. `ValueError` unless these are five counts.
        """
        if len(pairs) != len(SCORES):
            raise ValueError(f"pairs must be five counts, of those with 0, ½, 1, 1½ and 2 points, got {len(pairs)}")
        for count in pairs:
            COUNT.read("a count of pairs", count)
        fall0, fall1 = shortfall(pairs, [expected_score(self.elo0, 0), expected_score(self.elo1, 0)])
        return float(fall0 - fall1)

    def verdict(self, pairs: Sequence[int]) -> Verdict | None:
        """Returns what these counts say, ``None`` if it takes more pairs; for ``pairs`` see `llr`."""
        llr, (lower, upper) = self.llr(pairs), self.bounds
        return "better" if llr >= upper else "not better" if llr <= lower else None


@dataclass(frozen=True)
class SprtResult:
    """What a sequential test has found so far."""

    pairs: tuple[int, ...]  #: How many pairs gave 0, ½, 1, 1½ and 2 points.
    llr: float  #: See `Sprt.llr`.
    verdict: Verdict | None  #: ``None``: it takes more pairs.

    @property
    def num_fights(self) -> int:
        """Number of fights, two a pair."""
        return 2 * sum(self.pairs)

    @property
    def elo(self) -> Interval:
        """The Elo difference, and as its 95 % interval all differences of a small `shortfall`.

        With many pairs this interval is that of the pairs' variance. It is infinite if one player won every fight. As
        the test stops at an extreme, the difference is overestimated a little.
        """
        mean = float(np.dot(self.pairs, SCORES) / sum(self.pairs))

        def falling(score: NDArray[np.float64]) -> NDArray[np.float64]:  # to the left and to the right of the mean
            return (shortfall(self.pairs, score) - Z95**2 / 2) * (1, -1)

        with np.errstate(divide="ignore", invalid="ignore"):  # if one player won all
            low, high = _root(falling, np.array([0, mean]), np.array([mean, 1])).tolist()
        return Interval(_elo(mean), _elo(low), _elo(high))


def _elo(score: float) -> float:  # the inverse of `expected_score`
    return 400 * log10(score / (1 - score)) if 0 < score < 1 else (inf if score else -inf)


def run_sprt(
    test: Sprt,
    play: Callable[[int], Iterable[tuple[float, float]]],
    pairs_per_step: int = PAIRS_PER_STEP,
    max_pairs: int | None = None,
) -> Iterator[SprtResult]:
    """Plays pairs of fights, and yields the result after each step; ends by itself at a verdict.

    It also ends, without one, after ``max_pairs``, or when ``play`` has no more. Larger steps do not raise the error
    rates, as the ratio is looked at less often, but cost the pairs that are played beyond a bound.

    Args:
        play: plays the next n pairs, or reads them from a log, and returns the first player's scores: 1 for a win, 0.5
            for a tie, 0 for a loss. If it left out long fights, say, the verdict would be biased.
        pairs_per_step, max_pairs: positive; `ValueError` if they are not, or for other scores.
    """
    POSITIVE.check(pairs_per_step=pairs_per_step, max_pairs=1 if max_pairs is None else max_pairs)
    counts = [0] * len(SCORES)
    while (left := pairs_per_step if max_pairs is None else min(pairs_per_step, max_pairs - sum(counts))) > 0:
        if not (played := list(play(left))):
            return
        for scores in played:
            if len(scores) != 2 or not {*scores} <= {0, 0.5, 1}:
                raise ValueError(f"a pair must have two scores, each of them 0, 0.5 or 1, got {scores!r:.100}")
            counts[round(2 * sum(scores))] += 1
        yield (result := SprtResult(tuple(counts), test.llr(counts), test.verdict(counts)))
        if result.verdict:
            return
