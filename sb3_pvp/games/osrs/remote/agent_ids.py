"""Names for agents."""

from __future__ import annotations

import itertools
import secrets

#: Ids stay far below this, so that a server may hold them in 32 bits.
_LARGEST = 2_000_000_000
_SMALLEST = 1_000_000


class AgentIds:
    """Decimal numbers, which every server takes as they are: they do not change when names are formatted, and builds
    are drawn from them (protocol.md §2.1 and §3.1).

    They count up from a number drawn by chance for each process and run, so that others are not met. The agents of
    seat 0 come first: fight ``i`` of a world draws its build from ``first + i``.
    """

    def __init__(self, num_fights: int, first: int | None = None) -> None:
        self._first = secrets.randbelow(_LARGEST - _SMALLEST) + _SMALLEST if first is None else first
        self._num_fights = num_fights
        self._fresh = itertools.count(self._first + 2 * num_fights)

    def first(self, fight: int, seat: int) -> str:
        """The id that an agent starts with."""
        return str(self._first + seat * self._num_fights + fight)

    def fresh(self) -> str:
        """An id that was never used: a server may still hold something against the old one."""
        return str(next(self._fresh))
