"""What the page shows, computed from an arena's log and store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeVar

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.store import ACTIVE, GONE, Entrant
from sb3_pvp.arena.table import ArenaMatch, ArenaStanding, matches_of
from sb3_pvp.game import as_other_sees
from sb3_pvp.players.league import Counts, Elo, MatchRecord, Player

T = TypeVar("T")
K = TypeVar("K")
#: Matches of a player that its page lists, and that one call of the API returns at most.
LATEST, MOST = 30, 500
#: Of an opponent that may be the nemesis: matches against it.
_LEAST_MATCHES = 3


@dataclass(frozen=True)
class Against:
    """The matches of a player against an opponent."""

    opponent: str
    wins: int
    ties: int
    losses: int
    score: float  #: Share of the matches that were won, ties as half.
    last_played: float  #: Unix time in seconds.


@dataclass(frozen=True)
class Day:
    """The matches of a player on a day."""

    day: str  #: Such as ``2026-05-01``, in UTC.
    wins: int
    ties: int
    losses: int


@dataclass(frozen=True)
class Point:
    """A point of a curve."""

    at: str
    value: float


@dataclass(frozen=True)
class MatchLine:
    """A match, as one of its players sees it, or the first one."""

    key: str
    round: int
    player: str
    opponent: str
    result: str  #: ``won``, ``tied`` or ``lost``.
    fights: int
    finished_at: float  #: Unix time in seconds.
    is_fault: bool  #: Whether it was lost other than by the rules of the game.


@dataclass(frozen=True)
class FightLine:
    """A fight of a match, as the first player of the match sees it."""

    key: str
    outcome: str
    ticks: int
    build: str | None
    has_replay: bool


@dataclass(frozen=True)
class MatchPage:
    """A match with its fights."""

    match: MatchLine
    fights: list[FightLine]


@dataclass(frozen=True)
class Fault:
    """A match that was lost other than by the rules of the game."""

    match: str
    cause: str | None
    finished_at: float  #: Unix time in seconds.


@dataclass(frozen=True)
class Faults:
    """What only the owner of a player sees."""

    reason: str  #: Why it may not play any more.
    faults: list[Fault]  #: The newest ones first.


@dataclass(frozen=True)
class PlayerPage:
    """Everything that is public about a player."""

    player: str
    owner: str
    kind: str
    state: str
    admitted_at: float  #: Unix time in seconds.
    algorithm: str | None
    steps: int | None
    tags: list[str]
    source: str
    version: str  #: Hash of its file.
    hyperparameters: dict[str, Any]
    standing: ArenaStanding | None  #: Its line of the table.
    against: list[Against]
    nemesis: str | None  #: Whom it has the worst score against.
    days: list[Day]
    ratings: list[Point]  #: Elo after each round that it took part in.
    matches: list[MatchLine]  #: The newest ones first.


@dataclass(frozen=True)
class ChallengePage:
    """The challenge, and how far it is."""

    name: str
    game: str
    rules: dict[str, Any]
    season: str
    state: str  #: ``before``, ``running`` or ``over``.
    days_left: float | None
    matches: int
    fights: int
    players: int  #: That take part.
    waiting: int  #: Matches of the round that are still to be played.
    days: list[Point]  #: Matches so far at the end of each day.


class Figures:
    """A moment of an arena; to make it reads the whole log, which takes seconds for 100,000 fights.

    Attributes:
        arena: whose figures they are.
        table: of all players, best first.
        entrants: players by name; whom only imported matches know is one that is gone.
        matches: that count.
        fights: by the key of their match.
    """

    def __init__(self, arena: Arena) -> None:
        records = arena.records()
        self.arena, self.table, self.matches = arena, arena.table(), matches_of(records)
        self.entrants = {
            str(player): Entrant(str(player), "unknown", "", "", "", "", state=GONE, admitted_at=match.finished_at)
            for match in reversed(self.matches)
            for player in (match.player_a, match.player_b)
        } | {each.name: each for each in arena.players}
        self.fights = _grouped(records, lambda record: record.details.match if record.details else record.key)

    @property
    def active(self) -> list[ArenaStanding]:
        """The lines of the table of those that take part."""
        return [line for line in self.table if self.entrants[line.player].state == ACTIVE]

    def challenge(self) -> ChallengePage:
        """Returns how far the challenge is."""
        rules, season = self.arena.challenge, self.arena.challenge.season
        left = None if season.end is None else max((season.end - datetime.now(UTC)).total_seconds() / 86400, 0.0)
        moments = sorted(match.finished_at for match in self.matches)
        return ChallengePage(
            name=rules.name,
            game=rules.played.name,
            rules=rules.model_dump(mode="json"),
            season=season.name,
            state=season.state(),
            days_left=left,
            matches=len(self.matches),
            fights=sum(match.fights for match in self.matches),
            players=sum(each.state == ACTIVE for each in self.entrants.values()),
            waiting=len(self.arena.store.waiting()),
            days=[Point(*each) for each in {_day(at): number for number, at in enumerate(moments, 1)}.items()],
        )

    def player(self, name: str) -> PlayerPage:
        """Returns everything public about a player; `KeyError` if there is none of this name."""
        entrant, own = self.entrants[name], self.latest(name)
        by_opponent = _grouped(own, lambda line: line.opponent)
        against = [_against(*each) for each in sorted(by_opponent.items(), key=lambda each: (-len(each[1]), each[0]))]
        known = [each for each in against if len(by_opponent[each.opponent]) >= _LEAST_MATCHES]
        worst = min(known, key=lambda each: each.score, default=None)
        days = _grouped(own[::-1], lambda line: _day(line.finished_at))
        shared: dict[str, Any] = {each: entrant.facts.get(each) for each in ("algorithm", "steps")}
        shared |= {each: getattr(entrant, each) for each in ("owner", "kind", "state", "admitted_at", "version")}
        return PlayerPage(
            player=name,
            **shared,
            tags=[*entrant.facts.get("tags", ())],
            # A path of the machine is nobody's business.
            source=entrant.source if entrant.source.startswith("hub:") else "",
            hyperparameters=dict(entrant.facts.get("hyperparameters") or {}),
            standing=next((line for line in self.table if line.player == name), None),
            against=against,
            nemesis=worst.opponent if worst is not None and worst.score < 0.5 else None,
            days=[Day(day, *_counts(lines)) for day, lines in days.items()],
            ratings=self._ratings.get(Player.parse(name), []),
            matches=own[:LATEST],
        )

    def match(self, key: str) -> MatchPage:
        """Returns a match with its fights; `KeyError` if there is none."""
        match = {each.key: each for each in self.matches}[key]
        fights = [_fight(each, match.player_a) for each in self.fights[key]]
        return MatchPage(_line(match, str(match.player_a)), fights)

    def latest(self, player: str | None = None, count: int | None = None) -> list[MatchLine]:
        """Returns the newest matches, of one player or of all."""
        own = [each for each in self.matches if player in (None, str(each.player_a), str(each.player_b))]
        newest = sorted(own, key=lambda each: -each.finished_at)[:count]
        return [_line(match, player or str(match.player_a)) for match in newest]

    def faults(self, player: str) -> Faults:
        """Returns what only the owner of a player sees; `KeyError` if there is none of this name."""
        own = [Fault(each.key, each.cause, each.finished_at) for each in self.matches if each.at_fault == player]
        return Faults(self.entrants[player].reason, sorted(own, key=lambda each: -each.finished_at))

    @cached_property
    def _ratings(self) -> Mapping[Player, list[Point]]:
        """The Elo of each player after each of its rounds."""
        rating, found = self.arena.challenge.rating, defaultdict[Player, list[Point]](list)
        elo = Elo(rating.k, self.arena.challenge.fixed, rating.initial)
        for number, matches in sorted(_grouped(self.matches, lambda match: match.round).items()):
            players = {each for match in matches for each in (match.player_a, match.player_b)}
            for player in players:
                elo.ratings.setdefault(player, rating.initial)
            elo.apply(matches)
            for player in players:
                found[player].append(Point(str(number), round(elo.ratings[player], 1)))
        return found


def _line(match: ArenaMatch, player: str) -> MatchLine:
    first, second = str(match.player_a), str(match.player_b)
    score, other = (match.score, second) if player == first else (1 - match.score, first)
    result, is_fault = "won" if score > 0.5 else "lost" if score < 0.5 else "tied", match.at_fault is not None
    return MatchLine(match.key, match.round, player, other, result, match.fights, match.finished_at, is_fault)


def _fight(record: MatchRecord, first: Player) -> FightLine:
    outcome = record.outcome if record.player_a == first else as_other_sees(record.outcome)
    # Actions are not read here: what has a digest has been played.
    return FightLine(record.key, outcome, record.ticks, record.build, bool(record.details and record.ticks))


def _against(opponent: str, lines: Sequence[MatchLine]) -> Against:
    counts = _counts(lines)
    return Against(opponent, *counts, counts.win_rate, max(line.finished_at for line in lines))


def _counts(lines: Sequence[MatchLine]) -> Counts:
    results = [line.result for line in lines]
    return Counts(results.count("won"), results.count("tied"), results.count("lost"))


def _grouped(items: Iterable[T], by: Callable[[T], K]) -> dict[K, list[T]]:
    groups = defaultdict[K, list[T]](list)
    for each in items:
        groups[by(each)].append(each)
    return dict(groups)


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).date().isoformat()
