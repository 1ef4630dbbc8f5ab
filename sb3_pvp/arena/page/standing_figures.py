"""What the page shows, computed from an arena's log and store."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.store import ACTIVE, Entrant
from sb3_pvp.arena.table import ArenaMatch, ArenaStanding, matches_of
from sb3_pvp.players.league import Elo, MatchRecord, Player

#: Seconds for which figures are not computed again.
FRESH = 2.0
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


@dataclass
class Figures:
    """A moment of an arena."""

    arena: Arena
    table: list[ArenaStanding]
    entrants: Mapping[str, Entrant]
    matches: list[ArenaMatch]
    fights: Mapping[str, list[MatchRecord]]  #: By the key of their match.
    _ratings: dict[Player, list[Point]] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, arena: Arena) -> Figures:
        """Reads the whole log; takes seconds for 100,000 fights."""
        records = arena.records()
        fights = defaultdict[str, list[MatchRecord]](list)
        for record in records:
            fights[record.details.match if record.details else record.key].append(record)
        entrants = {each.name: each for each in arena.players}
        return cls(arena, arena.table(), entrants, matches_of(records), dict(fights))

    def challenge(self) -> ChallengePage:
        """Returns how far the challenge is."""
        rules, season = self.arena.challenge, self.arena.challenge.season
        left = None if season.end is None else max((season.end - datetime.now(UTC)).total_seconds() / 86400, 0.0)
        so_far = dict[str, int]()
        for number, match in enumerate(sorted(self.matches, key=lambda each: each.finished_at), 1):
            so_far[_day(match.finished_at)] = number
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
            days=[Point(*each) for each in so_far.items()],
        )

    def player(self, name: str) -> PlayerPage:
        """Returns everything public about a player; `KeyError` if there is none of this name."""
        entrant = self.entrants[name]
        own = [line for match in self.matches if (line := _line(match, name)) is not None]
        own.sort(key=lambda line: -line.finished_at)
        against = [_against(opponent, lines) for opponent, lines in _grouped(own, "opponent").items()]
        against.sort(key=lambda each: (-each.wins - each.ties - each.losses, each.opponent))
        known = [each for each in against if each.wins + each.ties + each.losses >= _LEAST_MATCHES]
        worst = min(known, key=lambda each: each.score, default=None)
        by_day = defaultdict[str, list[MatchLine]](list)
        for line in reversed(own):
            by_day[_day(line.finished_at)].append(line)
        facts = entrant.facts
        return PlayerPage(
            player=name,
            owner=entrant.owner,
            kind=entrant.kind,
            state=entrant.state,
            admitted_at=entrant.admitted_at,
            algorithm=facts.get("algorithm"),
            steps=facts.get("steps"),
            tags=[*facts.get("tags", ())],
            # A path of the machine is nobody's business.
            source=entrant.source if entrant.source.startswith("hub:") else "",
            version=entrant.version,
            hyperparameters=dict(facts.get("hyperparameters") or {}),
            standing=next((line for line in self.table if line.player == name), None),
            against=against,
            nemesis=worst.opponent if worst is not None and worst.score < 0.5 else None,
            days=[Day(day, *_counts(lines)) for day, lines in by_day.items()],
            ratings=self.ratings().get(Player.parse(name), []),
            matches=own[:LATEST],
        )

    def match(self, key: str) -> MatchPage:
        """Returns a match with its fights; `KeyError` if there is none."""
        fights = self.fights[key]
        match = next(each for each in self.matches if each.key == key)
        line = _line(match, str(match.player_a))
        assert line is not None
        return MatchPage(line, [_fight(each, match.player_a) for each in fights])

    def latest(self, player: str | None = None, count: int = MOST) -> list[MatchLine]:
        """Returns the newest matches, of one player or of all."""
        lines = (_line(match, player or str(match.player_a)) for match in self.matches)
        known = [line for line in lines if line is not None]
        return sorted(known, key=lambda line: -line.finished_at)[:count]

    def faults(self, player: str) -> Faults:
        """Returns what only the owner of a player sees; `KeyError` if there is none of this name."""
        own = [Fault(each.key, each.cause, each.finished_at) for each in self.matches if each.at_fault == player]
        return Faults(self.entrants[player].reason, sorted(own, key=lambda each: -each.finished_at))

    def ratings(self) -> Mapping[Player, list[Point]]:
        """Returns the Elo of each player after each of its rounds."""
        if self._ratings is None:
            rating, found = self.arena.challenge.rating, defaultdict[Player, list[Point]](list)
            elo = Elo(rating.k, self.arena.challenge.fixed, rating.initial)
            for number, matches in sorted(_grouped(self.matches, "round").items()):
                for player in {each for match in matches for each in (match.player_a, match.player_b)}:
                    elo.ratings.setdefault(player, rating.initial)
                elo.apply(matches)
                for player in {each for match in matches for each in (match.player_a, match.player_b)}:
                    found[player].append(Point(str(number), round(elo.ratings[player], 1)))
            self._ratings = dict(found)
        return self._ratings


class FreshFigures:
    """The figures of an arena, which are computed again only if something has happened; for any number of threads."""

    def __init__(self, arena: Arena) -> None:
        self._arena, self._lock = arena, threading.Lock()
        self._checked, self._seen = 0.0, tuple[Any, ...]()
        self._figures: Figures | None = None

    def forget(self) -> None:
        """Looks again at the next call, since something has happened here."""
        self._checked = -FRESH

    def now(self) -> Figures:
        """Returns figures that are at most `FRESH` seconds old."""
        with self._lock:
            if self._figures is None or time.monotonic() - self._checked > FRESH:
                seen = len(self._arena.log), *((each.name, each.state) for each in self._arena.players)
                if seen != self._seen or self._figures is None:
                    self._figures = Figures.of(self._arena)
                self._checked, self._seen = time.monotonic(), seen
            return self._figures


def _line(match: ArenaMatch, player: str) -> MatchLine | None:
    first, second = str(match.player_a), str(match.player_b)
    if player not in (first, second):
        return None
    score = match.score if player == first else 1 - match.score
    result = "won" if score > 0.5 else "lost" if score < 0.5 else "tied"
    other = second if player == first else first
    return MatchLine(
        match.key, match.round, player, other, result, match.fights, match.finished_at, match.at_fault is not None
    )


def _fight(record: MatchRecord, first: Player) -> FightLine:
    outcome = record.outcome
    if record.player_a != first:
        outcome = {"won": "lost", "lost": "won"}.get(outcome, outcome)
    # Actions are not read here: what has a digest has been played.
    return FightLine(record.key, outcome, record.ticks, record.build, bool(record.details and record.ticks))


def _against(opponent: str, lines: Sequence[MatchLine]) -> Against:
    wins, ties, losses = _counts(lines)
    score = (wins + 0.5 * ties) / len(lines)
    return Against(opponent, wins, ties, losses, score, max(line.finished_at for line in lines))


def _counts(lines: Sequence[MatchLine]) -> tuple[int, int, int]:
    results = [line.result for line in lines]
    return results.count("won"), results.count("tied"), results.count("lost")


def _grouped(items: Sequence[Any], by: str) -> dict[Any, list[Any]]:
    groups = defaultdict[Any, list[Any]](list)
    for each in items:
        groups[getattr(each, by)].append(each)
    return dict(groups)


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).date().isoformat()
