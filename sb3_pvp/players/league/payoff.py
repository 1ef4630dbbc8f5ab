"""The payoff matrix: how often each player has won against each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from math import nan
from operator import add
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.players.league.match_records import SCORES, MatchRecord
from sb3_pvp.players.league.players import Player


class Counts(NamedTuple):
    """Counted fights, as one side sees them."""

    wins: int = 0  #: Fights that this side won.
    ties: int = 0  #: Fights without a winner.
    losses: int = 0  #: Fights that the other side won.

    @property
    def games(self) -> int:
        """Number of fights."""
        return sum(self)

    @property
    def win_rate(self) -> float:
        """Share of wins, with ties as half wins; NaN without games."""
        return (self.wins + self.ties / 2) / self.games if self.games else nan

    def reversed(self) -> Counts:
        """Returns the same fights as the other side sees them."""
        return Counts(self.losses, self.ties, self.wins)

    def plus(self, other: Counts) -> Counts:
        """Returns the sum of both; ``+`` would concatenate the tuples."""
        return Counts(*map(add, self, other))


class Payoff:
    """Wins, ties and losses of each pair of players, starting with the counted ``records``."""

    def __init__(self, records: Iterable[MatchRecord] = ()) -> None:
        self._counts: dict[Player, dict[Player, Counts]] = {}  # under both orders of a pair
        self.update(records)

    def update(self, records: Iterable[MatchRecord]) -> None:
        """Adds the counted matches among ``records``."""
        for record in records:
            if record.counted:
                result = Counts(*(int(record.outcome == each) for each in SCORES))
                self.add(record.player_a, record.player_b, result)

    def add(self, a: Player, b: Player, result: Counts) -> None:
        """Adds games between ``a`` and ``b``, as ``a`` sees them."""
        for one, other, own in ((a, b, result), (b, a, result.reversed())):
            against = self._counts.setdefault(one, {})
            against[other] = own.plus(against.get(other, Counts()))

    @property
    def players(self) -> list[Player]:
        """All players with games, sorted."""
        return sorted(self._counts)

    def pairs(self) -> list[tuple[Player, Player, Counts]]:
        """Returns all pairs with games, sorted, each in one order only, with the counts of the first player."""
        return [(a, b, self._counts[a][b]) for a in self.players for b in sorted(self._counts[a]) if a < b]

    def counts(self, a: Player, b: Player) -> Counts:
        """Returns the games between two players, as ``a`` sees them."""
        return self._counts.get(a, {}).get(b, Counts())

    def total(self, player: Player) -> Counts:
        """Returns all games of a player."""
        return reduce(Counts.plus, self._counts.get(player, {}).values(), Counts())

    def matrix(self, players: Sequence[Player]) -> NDArray[np.float64]:
        """Returns win rates ``(n, n)`` of the row's player against the column's; NaN without games."""
        return np.array([[self.counts(a, b).win_rate for b in players] for a in players]).reshape(2 * (len(players),))
