"""Bradley-Terry ratings with 95 % intervals on the Elo scale, and the most informative next matches."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import fsum, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.players.league.payoff import Payoff
from sb3_pvp.players.league.players import Player

SCALE = 400 / log(10)  #: Elo points per unit of log-odds.
Z95 = 1.959964  #: Half-width of a 95 % interval in standard deviations.
CENTER = 1500.0  #: Mean of ratings where no anchor fixes the scale.


def center_of(anchors: Collection[float]) -> float:
    """Returns where new players stand: at the mean of the fixed ratings, so that all ratings move with these."""
    return fsum(anchors) / len(anchors) if anchors else CENTER


class Interval(NamedTuple):
    """A rating and its 95 % interval, in Elo points."""

    rating: float  #: The fitted rating.
    low: float  #: Lower end of the interval.
    high: float  #: Upper end of the interval.


@dataclass(frozen=True)
class BradleyTerry:
    """Fitted ratings of n players.

    Without anchors only differences are identified, so ratings and covariance are relative to the mean of all players.
    """

    players: tuple[Player, ...]  #: The rated players, sorted.
    ratings: NDArray[np.float64]  #: Ratings ``(n,)``, in Elo points.
    covariance: NDArray[np.float64]  #: Covariance ``(n, n)``, in squared Elo points; zero for anchors.

    @property
    def half_widths(self) -> NDArray[np.float64]:
        """Half-widths of the 95 % intervals, Elo points ``(n,)``."""
        return Z95 * np.sqrt(np.maximum(np.diag(self.covariance), 0))

    def intervals(self) -> dict[Player, Interval]:
        """Returns each player's rating and 95 % interval, rounded to 4 decimals."""
        ends = [self.ratings, self.ratings - self.half_widths, self.ratings + self.half_widths]
        # The last bits depend on the machine's BLAS; rounded, leaderboards are equal everywhere.
        rounded = np.column_stack(ends).round(4).tolist()
        return {player: Interval(*values) for player, values in zip(self.players, rounded, strict=True)}


def fit_bradley_terry(
    payoff: Payoff,
    players: Collection[Player] = (),
    anchors: Mapping[Player, float] | None = None,
    prior_deviation: float = 1000,
) -> BradleyTerry:
    """Fits Bradley-Terry ratings to all games (Bradley and Terry, 1952), with ties as half wins.

    Maximises the posterior under a weak normal prior, which keeps the ratings of players finite that have won all their
    games, lost them all, or not played. Intervals come from the information matrix; as a tie counts as two half games,
    they are slightly too wide for players with many ties.

    Args:
        payoff: the games.
        players: players to rate besides those in ``payoff``.
        anchors: fixed ratings, in Elo points; their mean is that of the prior. Without anchors this is 1500, and so is
            the mean of all ratings.
        prior_deviation: standard deviation of the prior, in Elo points.
    """
    center = center_of((anchors or {}).values())
    rated = tuple(sorted({*payoff.players, *players}))
    fixed = {player: rating for player, rating in (anchors or {}).items() if player in rated}
    strengths = np.array([(fixed.get(player, center) - center) / SCALE for player in rated])
    free = np.flatnonzero([player not in fixed for player in rated])
    index = {player: i for i, player in enumerate(rated)}
    pairs = [(index[a], index[b], *counts) for a, b, counts in payoff.pairs()]
    first, second, wins, ties, losses = np.array(pairs, int).reshape(-1, 5).T
    games, won, precision = wins + ties + losses, wins + ties / 2, (SCALE / prior_deviation) ** 2
    for _ in range(200):
        gradient, information = -precision * strengths, np.zeros((len(rated), len(rated)))
        # Probability that the first player beats the second; logaddexp does not overflow.
        chances = np.exp(-np.logaddexp(0, strengths[second] - strengths[first]))
        np.add.at(gradient, first, won - games * chances)
        np.subtract.at(gradient, second, won - games * chances)
        # Minus the Hessian of the log-posterior: a graph's Laplacian, weighted by how uncertain each pairing is.
        information[first, second] = -games * chances * (1 - chances)
        information += information.T
        np.fill_diagonal(information, precision - information.sum(1))
        direction = np.zeros_like(strengths)
        direction[free] = np.linalg.solve(information[np.ix_(free, free)], gradient[free])
        if np.abs(direction).max(initial=0) < 1e-10:
            break
        # Newton's method, with steps that change no difference of strengths by more than 1.5. Up to 1.79 the curvature
        # changes by so small a factor (at most e to that power) that every step increases the posterior.
        strengths += direction * 1.5 / np.abs(direction[first] - direction[second]).max(initial=1.5)
    covariance = np.zeros_like(information)
    covariance[np.ix_(free, free)] = np.linalg.inv(information[np.ix_(free, free)])
    if not fixed and rated:
        # The mean of all strengths is known from the prior only, and no game depends on it: remove its variance.
        covariance -= covariance.mean(0)
        covariance -= covariance.mean(1)[:, None]
    return BradleyTerry(rated, center + SCALE * strengths, SCALE**2 * covariance)


def informative_pairs(
    fit: BradleyTerry,
    candidates: Collection[Player],
    half_width: float,
    num_pairs: int,
    games: int,
    excluded: Collection[tuple[Player, Player]] = (),
) -> list[tuple[Player, Player]]:
    """Greedily selects the pairs whose next games reduce the relative variances of uncertain ratings most.

    Relative, because games say little about a player far stronger or weaker than all others, which would otherwise take
    all matches. Each selection accounts for the information expected from earlier ones, so a pair may occur twice.

    Args:
        candidates: players of the ``fit`` to choose from.
        half_width: a player is certain if its 95 % interval is at most this wide on either side, in Elo points; certain
            players only serve as opponents of uncertain ones.
        num_pairs: maximum number of pairs, of ``games`` each; fewer once all players are expected to be certain.
        excluded: pairs that must not be selected, each in the order of `Player`.
    """

    def of_differences(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the quadratic form of ``e_i - e_j``, ``(n, n)`` for all i and j."""
        diagonal = np.diag(matrix)
        return np.asarray(diagonal[:, None] + diagonal - 2 * matrix)

    players = sorted(candidates)
    index = np.array([fit.players.index(player) for player in players], int)
    # In log-odds, where one game has the Fisher information p (1 - p).
    covariance = fit.covariance[np.ix_(index, index)] / SCALE**2
    chances = 1 / (1 + np.exp(np.subtract.outer(fit.ratings[index], fit.ratings[index]) / -SCALE))
    information = games * chances * (1 - chances)
    information *= np.triu([[(a, b) not in excluded for b in players] for a in players] or covariance, 1)
    pairs = []
    for _ in range(num_pairs):
        uncertain = Z95 * SCALE * np.sqrt(np.maximum(np.diag(covariance), 0)) > half_width
        rows = covariance[uncertain]
        # Sum of the relative reductions of uncertain variances by each pair's games (Sherman-Morrison formula).
        squares = of_differences(rows.T @ (rows / np.diag(covariance)[uncertain, None]))
        gains = information * squares / (1 + information * of_differences(covariance))
        if not uncertain.any() or gains.max(initial=0) <= 0:
            break
        a, b = np.unravel_index(int(gains.argmax()), gains.shape)
        pairs.append((players[a], players[b]))
        # A rank-one update (Sherman-Morrison) instead of a new inverse for each pair.
        difference = covariance[:, a] - covariance[:, b]
        weight = information[a, b] / (1 + information[a, b] * (difference[a] - difference[b]))
        covariance = covariance - weight * np.outer(difference, difference)
    return pairs
