"""Ids of agents."""

from __future__ import annotations

import itertools
import secrets

#: The range of the first id: ids count up from it, and stay below 2**31 for servers that parse them as 32-bit integers.
_LARGEST = 2_000_000_000
_SMALLEST = 1_000_000


class AgentIds:
    """Generates decimal ids that count up from ``first``, by default a random number, so that processes do not collide.

    Numbers are not changed by the server's formatting of names, and it selects builds by them (protocol.md §2.1, §3.1).
    Seat 0 of all fights comes before seat 1: fight ``i`` has the build of ``first + i``, the smaller id of its pair.
    """

    def __init__(self, num_fights: int, first: int | None = None) -> None:
        self._first = secrets.randbelow(_LARGEST - _SMALLEST) + _SMALLEST if first is None else first
        self._num_fights = num_fights
        self._fresh = itertools.count(self._first + 2 * num_fights)

    def first(self, fight: int, seat: int) -> str:
        """Returns the id of the first agent on a seat."""
        return str(self._first + seat * self._num_fights + fight)

    def fresh(self) -> str:
        """Returns an unused id, since a server may keep state of an old one (protocol-observed.md, surprise 10)."""
        return str(next(self._fresh))
