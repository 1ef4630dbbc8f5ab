"""Which seat of which fight a learner has."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64] | slice | int


class Seats:
    """The seat of each row of an environment: a seat of a fight of its own, or one of a pair's common fight.

    Rows ``2j`` and ``2j + 1`` are a pair. When they play each other, they have seats 0 and 1 of fight ``2j``, and fight
    ``2j + 1`` is idle. Any other row ``r`` plays in fight ``r``.

    Args:
        num_rows: N, also the number of fights.
        seat: of the rows that are not paired.

    Attributes:
        fight: int64 ``(N,)``, the fight of each row.
        seat: int64 ``(N,)``, its seat there.
        paired: int64, the rows that play their partner.
        partner: int64, the partners of these.
        playing: int64, the fights that are played; ``None``: all of them.
    """

    def __init__(self, num_rows: int, seat: int = 0) -> None:
        self._seat = seat
        self.fight = np.arange(num_rows)
        self.seat = np.full(num_rows, seat)
        self.pair(np.zeros(num_rows, bool))

    def pair(self, paired: NDArray[np.bool_]) -> None:
        """Says which rows play their partner, bool ``(N,)``, equal for the rows of a pair."""
        rows = np.arange(len(paired))
        self.fight[:] = np.where(paired, rows & ~1, rows)
        self.seat[:] = np.where(paired, rows & 1, self._seat)
        self.paired = np.flatnonzero(paired)
        self.partner = self.paired ^ 1
        self.playing = np.unique(self.fight) if self.paired.size else None

    def own(self, array: NDArray[Any], rows: Rows = slice(None)) -> NDArray[Any]:
        """What an array ``(N, 2, ...)`` holds of the rows' seats."""
        own: NDArray[Any] = array[self.fight[rows], self.seat[rows]]
        return own

    def facing(self, array: NDArray[Any], rows: Rows = slice(None)) -> NDArray[Any]:
        """What it holds of the seats across."""
        facing: NDArray[Any] = array[self.fight[rows], 1 - self.seat[rows]]
        return facing
