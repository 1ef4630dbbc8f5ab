"""Ratings that follow from a match log alone: Elo (self-play.md §6), OpenSkill and the payoff matrix."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import fsum
from typing import TYPE_CHECKING, Annotated, Any, Generic, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, Field

from sb3_pvp.common.errors import extra
from sb3_pvp.common.html_tables import html_table
from sb3_pvp.common.snapshots import Snapshot, check_identity
from sb3_pvp.players.league.bradley_terry import BradleyTerry, center_of, fit_bradley_terry
from sb3_pvp.players.league.match_records import MatchRecord
from sb3_pvp.players.league.payoff import Counts, Payoff
from sb3_pvp.players.league.players import Player, predecessor

if TYPE_CHECKING:
    from sb3_pvp.players.league.match_log import MatchLog

Rating = TypeVar("Rating")


def expected_score(own: float, other: float) -> float:
    """Returns the expected score from 0 to 1 of Elo rating ``own`` against ``other`` (self-play.md §6)."""
    return 1 / (1 + 10 ** ((other - own) / 400))


def shuffled(records: Iterable[MatchRecord]) -> list[MatchRecord]:
    """Returns the counted records in a pseudo-random order that depends on their keys only."""
    # In the log, the short fights of a rollout come first, which would bias ratings that depend on the order.
    counted = (record for record in records if record.counted)
    return sorted(counted, key=lambda record: hashlib.blake2b(record.key.encode(), digest_size=16).digest())


class RatedMatch(Protocol):
    """What online ratings need to know of a match: `MatchRecord`, or another one with a score."""

    @property
    def player_a(self) -> Player:
        """One of the players."""

    @property
    def player_b(self) -> Player:
        """The other one."""

    @property
    def score(self) -> float:
        """Of ``player_a``, from 0 to 1."""


class _OnlineRatings(Generic[Rating]):
    """Ratings that are updated fight by fight, by ``apply``, where new players start with ``_initial_rating``."""

    batch_size = 1  #: Number of matches that are applied at the same time.
    ratings: dict[Player, Rating]  #: Ratings of all players with games.

    def rating(self, player: Player) -> Rating:
        """Returns a player's rating; for a new player the initial one."""
        if player in self.ratings:
            return self.ratings[player]
        before = predecessor(player, self.ratings)
        return self._initial_rating(None if before is None else self.ratings[before])

    def update(self, records: Iterable[MatchRecord]) -> None:
        """Rates the matches of one rollout (one `MatchLog.append`), after adding its new players."""
        matches = shuffled(records)
        # All of them enter before the first match: else a snapshot that fights later would start with a predecessor's
        # rating from the middle of the rollout.
        for player in sorted({player for match in matches for player in (match.player_a, match.player_b)}):
            self.ratings[player] = self.rating(player)
        for start in range(0, len(matches), self.batch_size):
            self.apply(matches[start : start + self.batch_size])

    def _initial_rating(self, predecessor: Rating | None) -> Rating:
        raise NotImplementedError

    def apply(self, batch: Sequence[RatedMatch]) -> None:
        """Updates the ratings of known players by all matches of a batch at the same time."""
        raise NotImplementedError


class Elo(_OnlineRatings[float]):
    """Elo ratings (self-play.md §6), which a fight changes by less than ``k``; ``anchors`` have fixed ratings.

    Other players start with ``initial``, by default the mean of the anchors, or 1500.
    """

    batch_size = 10  #: As in self-play.md §6.

    def __init__(
        self, k: float = 16, anchors: Mapping[Player, float] | None = None, initial: float | None = None
    ) -> None:
        self.k, self.anchors = k, dict(anchors or {})
        self.initial = center_of(self.anchors.values()) if initial is None else initial
        self.ratings = {player: float(rating) for player, rating in self.anchors.items()}

    def _initial_rating(self, predecessor: float | None) -> float:
        return self.initial if predecessor is None else predecessor

    def apply(self, batch: Sequence[RatedMatch]) -> None:
        """Updates the ratings by a batch; expected scores are those before the batch."""
        changes = defaultdict[Player, list[float]](list)
        for match in batch:
            a, b = match.player_a, match.player_b
            change = self.k * (match.score - expected_score(self.ratings[a], self.ratings[b]))
            changes[a].append(change)
            changes[b].append(-change)
        for player in changes.keys() - self.anchors.keys():
            self.ratings[player] += fsum(changes[player])  # rounds only once, so the order does not matter


class Skill(NamedTuple):
    """OpenSkill's belief about a player: mean and standard deviation."""

    mu: float  #: Mean of the skill.
    sigma: float  #: Standard deviation of the skill.

    @property
    def ordinal(self) -> float:
        """``mu - 3 * sigma``, a conservative estimate of the skill that OpenSkill ranks by."""
        return self.mu - 3 * self.sigma


class OpenSkill(_OnlineRatings[Skill]):
    """Bayesian ratings by Weng and Lin (2011), of the package ``openskill``: Plackett-Luce with default settings.

    A new snapshot of the learner starts with its predecessor's mean and the uncertainty of a new player.
    """

    def __init__(self) -> None:
        with extra("rate", "ratings"):
            from openskill.models import PlackettLuce
        self.ratings, self._model = {}, PlackettLuce()

    def _initial_rating(self, predecessor: Skill | None) -> Skill:
        return Skill(self._model.mu if predecessor is None else predecessor.mu, self._model.sigma)

    def apply(self, batch: Sequence[RatedMatch]) -> None:
        """Updates the ratings match by match; lower ranks are better."""
        for match in batch:
            players = (match.player_a, match.player_b)
            teams = [[self._model.rating(*self.ratings[player])] for player in players]
            rated = self._model.rate(teams, ranks=[1 - match.score, match.score])
            for player, (rating,) in zip(players, rated, strict=True):
                self.ratings[player] = Skill(rating.mu, rating.sigma)


_Number = Annotated[int, Field(ge=0, lt=2**53)]
_Figure = Annotated[float, Field(ge=-1e6, le=1e6)]


class _State(BaseModel):
    """What `Ratings.set_state` reads."""

    position: _Number
    broken: _Number
    last_key: str | None
    elo: dict[str, _Figure]
    open_skill: dict[str, tuple[_Figure, _Figure]]
    payoff: list[tuple[str, str, _Number, _Number, _Number]]


class Ratings:
    """Elo, OpenSkill and the payoff of a match log, updated incrementally.

    Reading the log rollout by rollout gives bit for bit the same result as reading it at once, in any process.
    ``anchors`` are fixed ratings by player, for Elo and Bradley-Terry.
    """

    def __init__(self, anchors: Mapping[Player, float] | None = None) -> None:
        self.elo, self.open_skill, self.payoff = Elo(anchors=anchors), OpenSkill(), Payoff()
        self.position, self.broken = 0, 0  #: Numbers of records that were read, and of those that are not counted.
        self.last_key: str | None = None  #: Key of the last record that was read.

    def update(self, log: MatchLog) -> None:
        """Reads the records that were appended since the last update."""
        for records in log.appended(self.position):
            for rating in (self.elo, self.open_skill, self.payoff):
                rating.update(records)
            self.position += len(records)
            self.broken += sum(not record.counted for record in records)
            self.last_key = records[-1].key

    def is_prefix_of(self, log: MatchLog) -> bool:
        """Whether the records read so far are the first ones of this log."""
        return self.position == 0 or (self.last_key is not None and log.key(self.position) == self.last_key)

    def bradley_terry(self, players: Collection[Player] = ()) -> BradleyTerry:
        """Fits Bradley-Terry ratings to all games; also rates ``players`` without games."""
        return fit_bradley_terry(self.payoff, players, self.elo.anchors)

    def _repr_html_(self) -> str:
        """Shows all players in a notebook, the strongest first."""
        rows: list[tuple[object, ...]] = [("player", "rating", "95 % interval", "Elo", "OpenSkill", "games")]
        fitted = self.bradley_terry().intervals()
        for player, found in sorted(fitted.items(), key=lambda each: -each[1].rating):
            interval, elo = f"{found.low:.0f} to {found.high:.0f}", f"{self.elo.rating(player):.0f}"
            skill = f"{self.open_skill.rating(player).ordinal:.1f}"
            rows.append((player, f"{found.rating:.0f}", interval, elo, skill, self.payoff.total(player).games))
        return html_table(rows)

    def get_state(self) -> Snapshot:
        """Returns everything computed so far, as values that JSON stores without loss."""
        return {
            **self.identity,
            **{name: getattr(self, name) for name in ("position", "broken", "last_key")},
            "elo": {str(player): rating for player, rating in self.elo.ratings.items()},
            "open_skill": {str(player): list(skill) for player, skill in self.open_skill.ratings.items()},
            "payoff": [[str(a), str(b), *counts] for a, b, counts in self.payoff.pairs()],
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores `get_state`; raises `ValueError` if it is damaged, or if anchors or settings differ."""
        check_identity(state, self.identity)
        kept = _State.model_validate(state)
        self.position, self.broken, self.last_key = kept.position, kept.broken, kept.last_key
        self.elo.ratings = {Player.parse(name): rating for name, rating in kept.elo.items()}
        self.open_skill.ratings = {Player.parse(name): Skill(*skill) for name, skill in kept.open_skill.items()}
        self.payoff = Payoff()
        for a, b, *counts in kept.payoff:
            self.payoff.add(Player.parse(a), Player.parse(b), Counts(*counts))

    @property
    def identity(self) -> dict[str, Any]:
        """The part of `get_state` that must be equal for `set_state`."""
        anchors = {str(player): float(rating) for player, rating in sorted(self.elo.anchors.items())}
        return {"kind": "ratings", "version": 1, "k": self.elo.k, "initial": self.elo.initial, "anchors": anchors}
