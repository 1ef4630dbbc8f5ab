"""Who beat whom how often."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from math import nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.selfplay.match_log import MatchRecord
from sb3_pvp.selfplay.players import Player


class Counts(NamedTuple):
    """Counted fights as one side sees them."""

    wins: int = 0
    ties: int = 0
    losses: int = 0

    @property
    def games(self) -> int:
        """All of them."""
        return sum(self)

    @property
    def win_rate(self) -> float:
        """Share of wins, with ties as half wins; NaN without games."""
        return (self.wins + self.ties / 2) / self.games if self.games else nan

    def reversed(self) -> Counts:
        """The same as the other side sees it."""
        return Counts(self.losses, self.ties, self.wins)

    def plus(self, other: Counts) -> Counts:
        """The sum."""
        return Counts(*(a + b for a, b in zip(self, other, strict=True)))


class Payoff:
    """Wins, ties and losses of every pair of players.

    Args:
        records: matches to begin with.
    """

    def __init__(self, records: Iterable[MatchRecord] = ()) -> None:
        # Under both orders of a pair, so that nobody has to ask who comes first.
        self._counts: dict[Player, dict[Player, Counts]] = {}
        self.update(records)

    def update(self, records: Iterable[MatchRecord]) -> None:
        """Adds matches; those that are not counted are left out."""
        for record in records:
            if record.counted:
                result = Counts(*(int(record.score == score) for score in (1, 0.5, 0)))
                self.add(record.player_a, record.player_b, result)

    def add(self, a: Player, b: Player, result: Counts) -> None:
        """Adds games between ``a`` and ``b``, as ``a`` sees them."""
        for one, other, own in ((a, b, result), (b, a, result.reversed())):
            against = self._counts.setdefault(one, {})
            against[other] = own.plus(against.get(other, Counts()))

    @property
    def players(self) -> list[Player]:
        """All who have played, in order."""
        return sorted(self._counts)

    def pairs(self) -> list[tuple[Player, Player, Counts]]:
        """Every pair that has played once, in order, with its games as the first sees them."""
        return [(a, b, self._counts[a][b]) for a in self.players for b in sorted(self._counts[a]) if a < b]

    def counts(self, a: Player, b: Player) -> Counts:
        """The games between two players, as ``a`` sees them."""
        return self._counts.get(a, {}).get(b, Counts())

    def total(self, player: Player) -> Counts:
        """All games of a player."""
        return reduce(Counts.plus, self._counts.get(player, {}).values(), Counts())

    def win_rate(self, a: Player, b: Player) -> float:
        """How often ``a`` wins against ``b``, ties as half wins; NaN if they have not played."""
        return self.counts(a, b).win_rate

    def matrix(self, players: Sequence[Player]) -> NDArray[np.float64]:
        """Win rates ``(n, n)`` of the row's player against the column's; NaN where they have not played."""
        return np.array([[self.win_rate(a, b) for b in players] for a in players]).reshape(len(players), len(players))
