"""Bradley-Terry ratings: the strengths that explain all matches best, with 95 % intervals, on Elo's scale.

And which pairs of players should fight so that these become certain soonest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.selfplay.match_log import Payoff
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
    """Fitted ratings of n players.

    Without anchors only differences can be known: ratings, and so their covariance, are relative to the mean of all.
    """

    players: tuple[Player, ...]
    ratings: NDArray[np.float64]  #: Elo points ``(n,)``.
    covariance: NDArray[np.float64]  #: Squared Elo points ``(n, n)``; zero for anchors.

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

    The prior keeps ratings finite of players who have won, or lost, all their games, or have not played. The intervals
    come from the information matrix; since a tie counts as two halves, they are a little wide where many are tied.

    ``players`` are rated besides those who have played. ``anchors`` have given ratings; those who do not play are left
    out. Without anchors ``center`` is the mean of all ratings. All in Elo points.
    """
    everybody = tuple(sorted({*payoff.players, *players}))
    fixed = {player: rating for player, rating in (anchors or {}).items() if player in everybody}
    strengths = np.array([(fixed.get(player, center) - center) / SCALE for player in everybody])
    free = np.array([player not in fixed for player in everybody], bool)
    index = {player: i for i, player in enumerate(everybody)}
    pairs = [(index[a], index[b], *counts) for a, b, counts in payoff.pairs()]
    first, second, wins, ties, losses = np.array(pairs, int).reshape(-1, 5).T
    posterior = _Posterior(first, second, wins + ties / 2, losses + ties / 2, (SCALE / prior_deviation) ** 2)
    strengths = posterior.highest(strengths, free)
    covariance = _covariance(posterior.derivatives(strengths)[1], free)
    return BradleyTerry(everybody, center + SCALE * strengths, SCALE**2 * covariance)


class _Posterior(NamedTuple):
    """How likely strengths are, in log-odds: of each pair that has played ``(pairs,)``, what the first has won and lost
    against the second, ties as half of each; and the precision of the prior."""

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    won: NDArray[np.float64]
    lost: NDArray[np.float64]
    precision: float

    def logarithm(self, strengths: NDArray[np.float64]) -> float:
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

    def highest(self, strengths: NDArray[np.float64], free: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Newton's method for the strengths that are free, with steps that are halved until they lead upwards."""
        for _ in range(_MAX_STEPS):
            direction = np.zeros_like(strengths)
            gradient, information = self.derivatives(strengths)
            direction[free] = np.linalg.solve(information[np.ix_(free, free)], gradient[free])
            length, lowest = 1.0, self.logarithm(strengths)
            lowest -= _ROUNDING * abs(lowest)
            while self.logarithm(strengths + length * direction) < lowest:
                length /= 2
            strengths = strengths + length * direction
            if np.abs(direction).max(initial=0) < _TOLERANCE:
                break
        return strengths


def _covariance(information: NDArray[np.float64], free: NDArray[np.bool_]) -> NDArray[np.float64]:
    covariance = np.zeros_like(information)
    covariance[np.ix_(free, free)] = np.linalg.inv(information[np.ix_(free, free)])
    if free.all() and free.size:
        # What all strengths have in common is known from the prior only, and no fight depends on it.
        covariance -= covariance.mean(0)
        covariance -= covariance.mean(1)[:, None]
    return covariance


def informative_pairs(
    fit: BradleyTerry,
    candidates: Collection[Player],
    half_width: float,
    num_pairs: int,
    games: int,
    excluded: Collection[tuple[Player, Player]] = (),
) -> list[tuple[Player, Player]]:
    """The pairs whose next ``games`` fights each lower the uncertain ratings' variances most, one after the other.

    Variances are lowered by shares of what they are: whoever is out of everybody's reach, of whom each fight tells
    next to nothing, does not keep the others waiting. Each choice takes into account what the ones before will tell,
    so a pair may come twice.

    Args:
        fit: what is known.
        candidates: who can fight; all of them are in the fit.
        half_width: Elo points; players whose 95 % interval is narrower than this on either side only serve as partners.
        num_pairs: how many pairs to choose; fewer once everybody is expected to be certain.
        games: at least 1.
        excluded: pairs who shall not fight, the lesser player first.
    """
    players = sorted(candidates)
    index = np.array([fit.players.index(player) for player in players], int)
    # Everything in log-odds, in which one game has the information p (1 - p).
    covariance = fit.covariance[np.ix_(index, index)] / SCALE**2
    chances = 1 / (1 + np.exp(np.subtract.outer(fit.ratings[index], fit.ratings[index]) / -SCALE))
    information = games * chances * (1 - chances)
    information *= [[(a, b) not in excluded for b in players] for a in players] or 1
    pairs = []
    for _ in range(num_pairs):
        uncertain = Z95 * SCALE * np.sqrt(np.maximum(np.diag(covariance), 0)) > half_width
        gains = _gains(covariance, information, uncertain)
        if not uncertain.any() or gains.max(initial=0) <= 0:
            break
        a, b = np.unravel_index(int(gains.argmax()), gains.shape)
        pairs.append((players[a], players[b]))
        lead = covariance[:, a] - covariance[:, b]
        weight = information[a, b] / (1 + information[a, b] * (lead[a] - lead[b]))
        covariance = covariance - weight * np.outer(lead, lead)
    return pairs


def _gains(
    covariance: NDArray[np.float64], information: NDArray[np.float64], uncertain: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The sum of shares by which games of each pair lower uncertain variances (Sherman and Morrison's formula)."""
    rows = covariance[uncertain]
    squares = rows.T @ (rows / np.diag(covariance)[uncertain, None])
    gains = information * _of_difference(squares) / (1 + information * _of_difference(covariance))
    return np.asarray(np.triu(gains, 1))


def _of_difference(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The quadratic form of ``e_i - e_j``, for all i and j."""
    diagonal = np.diag(matrix)
    return np.asarray(diagonal[:, None] + diagonal[None, :] - 2 * matrix)
