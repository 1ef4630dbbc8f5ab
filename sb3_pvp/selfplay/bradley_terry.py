"""Bradley-Terry ratings, with 95 % intervals on Elo's scale, and whose fights would make them certain soonest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.selfplay.match_log import Payoff
from sb3_pvp.selfplay.players import Player

SCALE = 400 / log(10)  #: Elo points of one unit of log-odds.
Z95 = 1.959964  #: Half of a 95 % interval in standard deviations.


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
        ends = [self.ratings, self.ratings - self.half_widths, self.ratings + self.half_widths]
        rounded = np.column_stack(ends).round(4).tolist()  # the last bits depend on how the machine multiplies matrices
        return {player: Interval(*figures) for player, figures in zip(self.players, rounded, strict=True)}


def fit_bradley_terry(
    payoff: Payoff,
    players: Collection[Player] = (),
    anchors: Mapping[Player, float] | None = None,
    center: float = 1500,
    prior_deviation: float = 1000,
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
    free = np.flatnonzero([player not in fixed for player in everybody])
    index = {player: i for i, player in enumerate(everybody)}
    pairs = [(index[a], index[b], *counts) for a, b, counts in payoff.pairs()]
    first, second, wins, ties, losses = np.array(pairs, int).reshape(-1, 5).T
    games, won, precision = wins + ties + losses, wins + ties / 2, (SCALE / prior_deviation) ** 2
    for _ in range(200):
        gradient, information = -precision * strengths, np.zeros((len(everybody), len(everybody)))
        # How likely the first one beats the second; written so that nothing overflows.
        chances = np.exp(-np.logaddexp(0, strengths[second] - strengths[first]))
        np.add.at(gradient, first, won - games * chances)
        np.subtract.at(gradient, second, won - games * chances)
        information[first, second] = -games * chances * (1 - chances)
        information += information.T
        np.fill_diagonal(information, precision - information.sum(1))
        direction = np.zeros_like(strengths)
        direction[free] = np.linalg.solve(information[np.ix_(free, free)], gradient[free])
        if np.abs(direction).max(initial=0) < 1e-10:
            break
        # Newton's method, in steps that move no lead by more than 1.5: up to 1.79 the curvature changes so little (by a
        # factor of e to the power of that at most) that none leads downhill.
        strengths += direction * 1.5 / np.abs(direction[first] - direction[second]).max(initial=1.5)
    covariance = np.zeros_like(information)
    covariance[np.ix_(free, free)] = np.linalg.inv(information[np.ix_(free, free)])
    if not fixed and everybody:
        # What all strengths have in common is known from the prior only, and no fight depends on it.
        covariance -= covariance.mean(0)
        covariance -= covariance.mean(1)[:, None]
    return BradleyTerry(everybody, center + SCALE * strengths, SCALE**2 * covariance)


def informative_pairs(
    fit: BradleyTerry,
    candidates: Collection[Player],
    half_width: float,
    num_pairs: int,
    games: int,
    excluded: Collection[tuple[Player, Player]] = (),
) -> list[tuple[Player, Player]]:
    """The pairs whose next ``games`` fights each lower the uncertain ratings' variances most, one after the other.

    By shares of what they are: whoever is out of everybody's reach, of whom each fight tells next to nothing, does not
    keep the others waiting. Each choice takes into account what the ones before will tell, so a pair may come twice.
    ``candidates`` are in the fit. Those whose 95 % interval is narrower than ``half_width`` Elo points on either side
    only serve as partners; there are fewer pairs than ``num_pairs`` once everybody is expected to be certain.
    ``excluded`` are pairs who shall not fight, the lesser player first.
    """

    def of_lead(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """The quadratic form of ``e_i - e_j``, for all i and j."""
        diagonal = np.diag(matrix)
        return np.asarray(diagonal[:, None] + diagonal - 2 * matrix)

    players = sorted(candidates)
    index = np.array([fit.players.index(player) for player in players], int)
    # Everything in log-odds, in which one game has the information p (1 - p).
    covariance = fit.covariance[np.ix_(index, index)] / SCALE**2
    chances = 1 / (1 + np.exp(np.subtract.outer(fit.ratings[index], fit.ratings[index]) / -SCALE))
    information = games * chances * (1 - chances)
    information *= np.triu([[(a, b) not in excluded for b in players] for a in players] or covariance, 1)
    pairs = []
    for _ in range(num_pairs):
        uncertain = Z95 * SCALE * np.sqrt(np.maximum(np.diag(covariance), 0)) > half_width
        rows = covariance[uncertain]
        # By what share of their sum a pair's games lower uncertain variances (Sherman and Morrison's formula).
        squares = of_lead(rows.T @ (rows / np.diag(covariance)[uncertain, None]))
        gains = information * squares / (1 + information * of_lead(covariance))
        if not uncertain.any() or gains.max(initial=0) <= 0:
            break
        a, b = np.unravel_index(int(gains.argmax()), gains.shape)
        pairs.append((players[a], players[b]))
        lead = covariance[:, a] - covariance[:, b]
        weight = information[a, b] / (1 + information[a, b] * (lead[a] - lead[b]))
        covariance = covariance - weight * np.outer(lead, lead)
    return pairs
