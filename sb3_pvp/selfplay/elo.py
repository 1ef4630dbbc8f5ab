"""Elo ratings of self-play.md §6, as a function of the match log alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from typing import Any

from sb3_pvp.selfplay.match_log import MatchRecord
from sb3_pvp.selfplay.players import Player, predecessor

#: So many outcomes are applied at the same time.
BATCH_SIZE = 10


def expected_score(own: float, other: float) -> float:
    """What a player with rating ``own`` scores on average against one with rating ``other`` (self-play.md §6)."""
    return 1 / (1 + 10 ** ((other - own) / 400))


def shuffled(records: Iterable[MatchRecord]) -> list[MatchRecord]:
    """The counted records in an order that depends on their keys only, and not on the one in which fights ended.

    Short fights end first; ratings that are moved in batches should not see the fast ones in one lump.
    """
    counted = (record for record in records if record.counted)
    return sorted(counted, key=lambda record: hashlib.blake2b(record.key.encode(), digest_size=16).digest())


class Elo:
    """Ratings that every fight moves a little (self-play.md §6).

    Args:
        k: how far a single fight moves a rating at most.
        initial: rating of a new player who has no predecessor (`sb3_pvp.selfplay.players.predecessor`).
        anchors: ratings that stay as they are.

    Attributes:
        ratings: of all players who have fought, and the anchors.
    """

    def __init__(self, k: float = 16, initial: float = 1500, anchors: Mapping[Player, float] | None = None) -> None:
        self.k, self.initial, self.anchors = k, initial, dict(anchors or {})
        self.ratings: dict[Player, float] = {player: float(rating) for player, rating in self.anchors.items()}

    def rating(self, player: Player) -> float:
        """The rating; for an unknown player the one that he would enter with."""
        if player in self.ratings:
            return self.ratings[player]
        before = predecessor(player, self.ratings)
        return self.initial if before is None else self.ratings[before]

    def update(self, records: Iterable[MatchRecord]) -> None:
        """Rates the matches of one roll-out, which is what one `MatchLog.append` has added.

        New players enter first. Then the counted matches are shuffled, and applied in batches of 10: all ratings of
        a batch move at once, by sums that do not depend on its order.
        """
        matches = shuffled(records)
        for player in sorted({player for match in matches for player in (match.player_a, match.player_b)}):
            self.ratings[player] = self.rating(player)
        for start in range(0, len(matches), BATCH_SIZE):
            self.apply(matches[start : start + BATCH_SIZE])

    def apply(self, batch: Sequence[MatchRecord]) -> None:
        """Moves the ratings of known players by all matches of a batch at the same time."""
        changes: dict[Player, list[float]] = {}
        for match in batch:
            a, b = match.player_a, match.player_b
            change = self.k * (match.score - expected_score(self.ratings[a], self.ratings[b]))
            changes.setdefault(a, []).append(change)
            changes.setdefault(b, []).append(-change)
        for player in changes.keys() - self.anchors.keys():
            self.ratings[player] += fsum(changes[player])

    def get_state(self) -> dict[str, float]:
        """All ratings, as values that JSON can hold."""
        return {str(player): rating for player, rating in self.ratings.items()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from `get_state`."""
        self.ratings = {Player.parse(text): float(rating) for text, rating in state.items()}
