"""Which pairs of players should fight so that ratings become certain soonest."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.selfplay.bradley_terry import SCALE, Z95, BradleyTerry
from sb3_pvp.selfplay.players import Player


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
    next to nothing, does not keep the others waiting.

    Args:
        fit: what is known.
        candidates: who can fight; all of them are in the fit.
        half_width: Elo points; players whose 95 % interval is narrower than this on either side are certain enough,
            and only serve as partners.
        num_pairs: how many pairs to choose; each choice takes into account what the ones before will tell, so a pair
            may come twice. There are fewer once everybody is expected to be certain.
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
