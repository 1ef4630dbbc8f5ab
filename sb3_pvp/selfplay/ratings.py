"""What follows from a match log alone, fight by fight: Elo (self-play.md §6), OpenSkill and who beat whom."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import fsum
from typing import Any, Generic, NamedTuple, TypeVar

from openskill.models import PlackettLuce

from sb3_pvp.common.snapshots import Snapshot, check_identity
from sb3_pvp.selfplay.bradley_terry import BradleyTerry, fit_bradley_terry
from sb3_pvp.selfplay.match_log import Counts, MatchLog, MatchRecord, Payoff
from sb3_pvp.selfplay.players import Player, predecessor

Rating = TypeVar("Rating")


def expected_score(own: float, other: float) -> float:
    """What a player with Elo rating ``own`` scores on average against one with ``other`` (self-play.md §6)."""
    return 1 / (1 + 10 ** ((other - own) / 400))


def shuffled(records: Iterable[MatchRecord]) -> list[MatchRecord]:
    """The counted records in an order of their keys: short fights end first, and should not be seen in one lump."""
    counted = (record for record in records if record.counted)
    return sorted(counted, key=lambda record: hashlib.blake2b(record.key.encode(), digest_size=16).digest())


class _Moving(ABC, Generic[Rating]):
    """Ratings that every fight moves a little."""

    batch_size = 1  #: So many outcomes are applied at the same time.
    ratings: dict[Player, Rating]  #: Of all players who have fought.

    def rating(self, player: Player) -> Rating:
        """The rating; for an unknown player the one that he would enter with."""
        if player in self.ratings:
            return self.ratings[player]
        before = predecessor(player, self.ratings)
        return self._newcomer(None if before is None else self.ratings[before])

    def update(self, records: Iterable[MatchRecord]) -> None:
        """Rates the matches of one rollout (one `MatchLog.append`): new players enter first; then come batches."""
        matches = shuffled(records)
        for player in sorted({player for match in matches for player in (match.player_a, match.player_b)}):
            self.ratings[player] = self.rating(player)
        for start in range(0, len(matches), self.batch_size):
            self.apply(matches[start : start + self.batch_size])

    @abstractmethod
    def _newcomer(self, predecessor: Rating | None) -> Rating:
        """What a player enters with, given the rating of his `predecessor` if he has one."""

    @abstractmethod
    def apply(self, batch: Sequence[MatchRecord]) -> None:
        """Moves the ratings of known players by all matches of a batch at the same time."""


class Elo(_Moving[float]):
    """Elo ratings, which a fight moves by ``k`` at most; ``anchors`` stay, ``initial`` is that of a new player."""

    batch_size = 10

    def __init__(self, k: float = 16, initial: float = 1500, anchors: Mapping[Player, float] | None = None) -> None:
        self.k, self.initial, self.anchors = k, initial, dict(anchors or {})
        self.ratings = {player: float(rating) for player, rating in self.anchors.items()}

    def _newcomer(self, predecessor: float | None) -> float:
        return self.initial if predecessor is None else predecessor

    def apply(self, batch: Sequence[MatchRecord]) -> None:
        changes = defaultdict[Player, list[float]](list)
        for match in batch:
            a, b = match.player_a, match.player_b
            change = self.k * (match.score - expected_score(self.ratings[a], self.ratings[b]))
            changes[a].append(change)
            changes[b].append(-change)
        for player in changes.keys() - self.anchors.keys():
            self.ratings[player] += fsum(changes[player])  # which does not depend on their order


class Skill(NamedTuple):
    """What OpenSkill believes of a player: mean and standard deviation of his skill."""

    mu: float
    sigma: float

    @property
    def ordinal(self) -> float:
        """The skill that he has almost surely, ``mu - 3 * sigma``: what OpenSkill ranks by."""
        return self.mu - 3 * self.sigma


class OpenSkill(_Moving[Skill]):
    """Weng and Lin's Bayesian approximation (the package ``openskill``): Plackett-Luce with its usual settings.

    A new snapshot of the learner starts at its predecessor's mean, but is as uncertain as everybody at first.
    """

    def __init__(self) -> None:
        self.ratings, self._model = {}, PlackettLuce()

    def _newcomer(self, predecessor: Skill | None) -> Skill:
        return Skill(self._model.mu if predecessor is None else predecessor.mu, self._model.sigma)

    def apply(self, batch: Sequence[MatchRecord]) -> None:
        for match in batch:
            players = (match.player_a, match.player_b)
            teams = [[self._model.rating(*self.ratings[player])] for player in players]
            rated = self._model.rate(teams, ranks=[1 - match.score, match.score])
            for player, (rating,) in zip(players, rated, strict=True):
                self.ratings[player] = Skill(rating.mu, rating.sigma)


class Ratings:
    """Elo, OpenSkill and the payoff, kept up to date with a match log; ``anchors`` count for Bradley-Terry alike.

    Reading the log rollout by rollout gives the same bits as reading it at once, in any process.
    """

    def __init__(self, anchors: Mapping[Player, float] | None = None) -> None:
        self.elo, self.open_skill, self.payoff = Elo(anchors=anchors), OpenSkill(), Payoff()
        self.position, self.broken = 0, 0  #: How many records of the log were read, and how many of them do not count.
        self.last_key: str | None = None

    def update(self, log: MatchLog) -> None:
        """Reads what the log has got since the last time."""
        for records in log.appended(self.position):
            for rating in (self.elo, self.open_skill, self.payoff):
                rating.update(records)
            self.position += len(records)
            self.broken += sum(not record.counted for record in records)
            self.last_key = records[-1].key

    def are_of(self, log: MatchLog) -> bool:
        """Whether what was read so far is the beginning of this log."""
        return self.position == 0 or (self.last_key is not None and log.key(self.position) == self.last_key)

    def bradley_terry(self, players: Collection[Player] = ()) -> BradleyTerry:
        """Fits all games anew; ``players`` are rated even if they have not played."""
        return fit_bradley_terry(self.payoff, players, self.elo.anchors, self.elo.initial)

    def get_state(self) -> Snapshot:
        """All that was computed, as values that JSON holds without loss."""
        return {
            **self.identity,
            **{name: getattr(self, name) for name in ("position", "broken", "last_key")},
            "elo": {str(player): rating for player, rating in self.elo.ratings.items()},
            "open_skill": {str(player): list(skill) for player, skill in self.open_skill.ratings.items()},
            "payoff": [[str(a), str(b), *counts] for a, b, counts in self.payoff.pairs()],
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from `get_state`; raises `ValueError`, and changes nothing, if it has other anchors or settings."""
        check_identity(state, self.identity)
        self.position, self.broken, self.last_key = state["position"], state["broken"], state["last_key"]
        self.elo.ratings = {Player.parse(name): float(rating) for name, rating in state["elo"].items()}
        skills = state["open_skill"].items()
        self.open_skill.ratings = {Player.parse(name): Skill(*map(float, skill)) for name, skill in skills}
        self.payoff = Payoff()
        for a, b, *counts in state["payoff"]:
            self.payoff.add(Player.parse(a), Player.parse(b), Counts(*counts))

    @property
    def identity(self) -> dict[str, Any]:
        """What a state must have in common with these ratings, so that they can go on from it."""
        anchors = {str(player): float(rating) for player, rating in sorted(self.elo.anchors.items())}
        return {"kind": "ratings", "version": 1, "k": self.elo.k, "initial": self.elo.initial, "anchors": anchors}
