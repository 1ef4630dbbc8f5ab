"""Bradley-Terry ratings: the strengths that explain all matches of a log best, with 95 % intervals, on Elo's scale."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.selfplay.payoff import Payoff
from sb3_pvp.selfplay.players import Player

#: Elo points of one unit of log-odds.
SCALE = 400 / log(10)
#: Standard deviation, in Elo points, of the strengths that are thought possible before a fight was fought.
PRIOR_DEVIATION = 1000.0
#: Half of a 95 % interval in standard deviations.
Z95 = 1.959964
#: Ratings are rounded to so many digits: the last bits depend on how the machine multiplies matrices.
DIGITS = 4

_TOLERANCE = 1e-10
_MAX_STEPS = 200
#: What rounding may do to a sum over all games.
_ROUNDING = 1e-9


class Interval(NamedTuple):
    """A rating and its 95 % interval, in Elo points."""

    rating: float
    low: float
    high: float


@dataclass(frozen=True)
class BradleyTerry:
    """Fitted ratings.

    Attributes:
        players: whom they belong to, n of them.
        ratings: Elo points ``(n,)``.
        covariance: of the ratings, squared Elo points ``(n, n)``; zero for anchors. Without anchors only differences
            can be known: ratings are then relative to the mean of all players, and so is the covariance.
    """

    players: tuple[Player, ...]
    ratings: NDArray[np.float64]
    covariance: NDArray[np.float64]

    @property
    def half_widths(self) -> NDArray[np.float64]:
        """Half of every player's 95 % interval, Elo points ``(n,)``."""
        return Z95 * np.sqrt(np.maximum(np.diag(self.covariance), 0))

    def intervals(self) -> dict[Player, Interval]:
        """Every player's rating with its interval, rounded."""
        ends = [self.ratings, self.ratings - self.half_widths, self.ratings + self.half_widths]
        rounded = np.column_stack(ends).round(DIGITS).tolist()
        return {player: Interval(*figures) for player, figures in zip(self.players, rounded, strict=True)}


def fit_bradley_terry(
    payoff: Payoff,
    players: Collection[Player] = (),
    anchors: Mapping[Player, float] | None = None,
    center: float = 1500,
    prior_deviation: float = PRIOR_DEVIATION,
) -> BradleyTerry:
    """Maximises the likelihood of all games, ties as half wins, under a weak normal prior around ``center``.

    The prior keeps the ratings of players finite who have won, or lost, all their games, or who have not played. The
    intervals come from the information matrix; since a tie counts as two halves, they are a little wide where many
    games are tied.

    Args:
        payoff: the games.
        players: to be rated besides those who have played.
        anchors: Elo ratings of players that are given; those who do not play are left out.
        center: Elo points; the mean of all ratings if there are no anchors.
        prior_deviation: Elo points.
    """
    everybody = tuple(sorted({*payoff.players, *players}))
    fixed = {player: rating for player, rating in (anchors or {}).items() if player in everybody}
    strengths = np.array([(fixed.get(player, center) - center) / SCALE for player in everybody])
    free = np.array([player not in fixed for player in everybody], bool)
    index = {player: i for i, player in enumerate(everybody)}
    pairs = [(index[a], index[b], *counts) for a, b, counts in payoff.pairs()]
    first, second, wins, ties, losses = np.array(pairs, int).reshape(-1, 5).T
    likelihood = _Likelihood(first, second, wins + ties / 2, losses + ties / 2, (SCALE / prior_deviation) ** 2)
    strengths = _climb(likelihood, strengths, free)
    covariance = _covariance(likelihood.derivatives(strengths)[1], free)
    return BradleyTerry(everybody, center + SCALE * strengths, SCALE**2 * covariance)


@dataclass(frozen=True)
class _Likelihood:
    """Logarithm of the posterior of strengths in log-odds, its gradient and its information matrix.

    Attributes:
        first, second: players of each pair that has played ``(pairs,)``.
        won, lost: what the first has won and lost against the second, ties as half of each ``(pairs,)``.
        precision: of the prior.
    """

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    won: NDArray[np.float64]
    lost: NDArray[np.float64]
    precision: float

    def value(self, strengths: NDArray[np.float64]) -> float:
        leads = strengths[self.first] - strengths[self.second]
        surprise = self.won * np.logaddexp(0, -leads) + self.lost * np.logaddexp(0, leads)
        return float(-surprise.sum() - self.precision / 2 * (strengths**2).sum())

    def derivatives(self, strengths: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The gradient ``(n,)`` and the information matrix ``(n, n)``."""
        # How likely the first one beats the second; written so that nothing overflows.
        chances = np.exp(-np.logaddexp(0, strengths[self.second] - strengths[self.first]))
        expected, gradient = (self.won + self.lost) * chances, -self.precision * strengths
        np.add.at(gradient, self.first, self.won - expected)
        np.subtract.at(gradient, self.second, self.won - expected)
        matrix = np.zeros((strengths.size, strengths.size))
        matrix[self.first, self.second] = -expected * (1 - chances)
        matrix += matrix.T
        np.fill_diagonal(matrix, self.precision - matrix.sum(1))
        return gradient, matrix


def _climb(likelihood: _Likelihood, strengths: NDArray[np.float64], free: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Newton's method for the strengths that are free, with steps that are halved until they lead upwards."""
    for _ in range(_MAX_STEPS if free.any() else 0):
        direction = np.zeros_like(strengths)
        gradient, information = likelihood.derivatives(strengths)
        direction[free] = np.linalg.solve(information[np.ix_(free, free)], gradient[free])
        length, lowest = 1.0, likelihood.value(strengths)
        lowest -= _ROUNDING * abs(lowest)
        while likelihood.value(strengths + length * direction) < lowest:
            length /= 2
        strengths = strengths + length * direction
        if np.abs(direction).max() < _TOLERANCE:
            break
    return strengths


def _covariance(information: NDArray[np.float64], free: NDArray[np.bool_]) -> NDArray[np.float64]:
    covariance = np.zeros_like(information)
    if free.any():
        covariance[np.ix_(free, free)] = np.linalg.inv(information[np.ix_(free, free)])
    if free.all() and free.size:
        # What all strengths have in common is known from the prior only, and no fight depends on it.
        covariance -= covariance.mean(0)
        covariance -= covariance.mean(1)[:, None]
    return covariance
