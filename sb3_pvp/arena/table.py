"""The table: ratings, ranges of ranks and figures of each player, computed from the log alone."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import groupby
from typing import Any

import numpy as np
import orjson

from sb3_pvp.arena.challenge import Rating
from sb3_pvp.arena.referee import read_times, time_percentile
from sb3_pvp.players.league import BradleyTerry, Elo, MatchRecord, OpenSkill, Payoff, Player, fit_bradley_terry
from sb3_pvp.players.league.bradley_terry import Z95


@dataclass(frozen=True)
class ArenaMatch:
    """A match, as its first player sees it."""

    key: str
    round: int
    player_a: Player
    player_b: Player
    score: float  #: 1 if ``player_a`` has more points from its fights, 0.5 if both have as many, else 0.
    at_fault: str | None  #: Who lost other than by the rules of the game.
    cause: str | None  #: How.
    fights: int
    finished_at: float  #: Unix time in seconds.


@dataclass(frozen=True)
class ArenaStanding:
    """One line of the table."""

    rank_low: int  #: The best rank that the player may have, at 95 %.
    rank_high: int  #: The worst one.
    player: str
    owner: str
    rating: float  #: By the challenge's system, which orders the table.
    strength: float  #: Bradley-Terry rating; without anchors, the mean of all players is 1500.
    half_width: float  #: Of its 95 % interval against the mean of all players, Elo points.
    matches: int
    wins: int
    ties: int
    losses: int
    fights: int
    win_rate: float | None  #: Share of the fights that were won, ties as half; ``None`` without any.
    crash_rate: float | None  #: Share of the matches that were lost by a fault.
    seconds_p50: float | None  #: Half of the decisions took at most so long, see `read_times`.
    seconds_p99: float | None
    exploitability: float | None  #: What a best response wins at least, where measured.
    builds: Mapping[str, float]  #: Share of the fights that were won, by build.
    last_played: float | None  #: Unix time in seconds.


COLUMNS = tuple(each.name for each in fields(ArenaStanding))


def matches_of(records: Iterable[MatchRecord]) -> list[ArenaMatch]:
    """Groups fights to matches, in the order of the log; matches without any counted fight are left out."""
    fights = defaultdict[str, list[MatchRecord]](list)
    for record in records:
        if record.counted:
            fights[record.details.match if record.details else record.key].append(record)
    return [_match(key, own) for key, own in fights.items()]


def _match(key: str, fights: Sequence[MatchRecord]) -> ArenaMatch:
    first = fights[0]
    points = sum(fight.score for fight in fights) - len(fights) / 2
    faults = [each.details for each in fights if each.details is not None and each.details.at_fault is not None]
    return ArenaMatch(
        key,
        first.details.round if first.details else 0,
        first.player_a,
        first.player_b,
        0.5 + 0.5 * float(np.sign(points)),
        faults[0].at_fault if faults else None,
        faults[0].cause if faults else None,
        len(fights),
        max(fight.finished_at for fight in fights),
    )


def rated(
    matches: Sequence[ArenaMatch], records: Sequence[MatchRecord], rating: Rating, anchors: Mapping[Player, float]
) -> dict[Player, float]:
    """Returns the ratings of all players with matches, by the system of a challenge; in any order of equal rounds."""
    return _SYSTEMS[rating.system](matches, records, rating, anchors)


def _elo(matches: Any, records: Any, rating: Rating, anchors: Any) -> dict[Player, float]:
    """Elo after each round: all of its matches are rated by the ratings before it."""
    in_rounds = sorted(matches, key=lambda match: (match.round, match.key))
    return _elo_of(groupby(in_rounds, key=lambda match: match.round), rating, anchors)


def _elo_sequential(matches: Any, records: Any, rating: Rating, anchors: Any) -> dict[Player, float]:
    """Elo after each match, in the order of the log."""
    return _elo_of(((match.key, [match]) for match in matches), rating, anchors)


def _elo_of(batches: Iterable[tuple[Any, Iterable[Any]]], rating: Rating, anchors: Any) -> dict[Player, float]:
    elo = Elo(rating.k, anchors, rating.initial)
    for _, group in batches:
        batch = [*group]
        for match in batch:
            for player in (match.player_a, match.player_b):
                elo.ratings.setdefault(player, rating.initial)
        elo.apply(batch)
    return elo.ratings


def _open_skill(matches: Any, records: Any, rating: Rating, anchors: Any) -> dict[Player, float]:
    skill = OpenSkill()
    for match in matches:
        for player in (match.player_a, match.player_b):
            if player not in skill.ratings:
                skill.ratings[player] = skill._initial_rating(None)
        skill.apply([match])
    return {player: found.ordinal for player, found in skill.ratings.items()}


def _bradley_terry(matches: Any, records: Any, rating: Rating, anchors: Any) -> dict[Player, float]:
    fit = fit_bradley_terry(Payoff(records), anchors=anchors)
    return dict(zip(fit.players, fit.ratings.round(4).tolist(), strict=True))


_SYSTEMS: dict[str, Callable[..., dict[Player, float]]] = {
    "elo": _elo,
    "elo_sequential": _elo_sequential,
    "openskill": _open_skill,
    "bradley_terry": _bradley_terry,
}


def rank_ranges(fit: BradleyTerry) -> dict[Player, tuple[int, int]]:
    """Returns the best and the worst rank that each player may have, at 95 %.

    A player is behind all whose rating is higher by more than chance explains, by the covariance of both ratings.
    """
    variance = np.diag(fit.covariance)
    deviation = np.sqrt(np.maximum(variance[:, None] + variance - 2 * fit.covariance, 0))
    ahead = fit.ratings[None, :] - fit.ratings[:, None] > Z95 * deviation  # the column's player, of the row's
    np.fill_diagonal(ahead, False)
    better, worse = ahead.sum(axis=1), ahead.sum(axis=0)
    return {player: (1 + int(better[n]), len(fit.players) - int(worse[n])) for n, player in enumerate(fit.players)}


def standings(
    records: Sequence[MatchRecord],
    rating: Rating,
    anchors: Mapping[Player, float],
    owners: Mapping[str, str],
    exploitability: Mapping[str, float],
) -> list[ArenaStanding]:
    """Returns the table of all players among ``owners``, best first; ``records`` need their details."""
    counted = [record for record in records if record.counted]
    matches = matches_of(counted)
    players = sorted({Player.parse(name) for name in owners} | {p for m in matches for p in (m.player_a, m.player_b)})
    ratings = rated(matches, counted, rating, anchors)
    payoff = Payoff(counted)
    free = fit_bradley_terry(payoff, players)  # relative to the mean of all players
    fit = fit_bradley_terry(payoff, players, anchors) if anchors else free
    widths = dict(zip(free.players, free.half_widths.round(4).tolist(), strict=True))
    strengths = dict(zip(fit.players, fit.ratings.round(4).tolist(), strict=True))
    ranges, figures = rank_ranges(free), _figures(counted, matches)
    initial = 0.0 if rating.system == "openskill" else rating.initial
    lines = []
    for player in players:
        own, total, times = figures[player], payoff.total(player), read_times(figures[player].times)
        lines.append(
            ArenaStanding(
                ranges[player][0],
                ranges[player][1],
                str(player),
                owners.get(str(player), ""),
                round(ratings.get(player, anchors.get(player, initial)), 4),
                strengths[player],
                widths[player],
                len(own.scores),
                own.scores.count(1.0),
                own.scores.count(0.5),
                own.scores.count(0.0),
                total.games,
                total.win_rate if total.games else None,
                own.faults / len(own.scores) if own.scores else None,
                time_percentile(times, 0.5),
                time_percentile(times, 0.99),
                exploitability.get(str(player)),
                {build: points / games for build, (points, games) in sorted(own.builds.items())},
                own.last_played,
            )
        )
    return sorted(lines, key=lambda line: (-line.rating, -line.strength, line.player))


@dataclass
class _Own:
    """What is counted of one player."""

    scores: list[float] = field(default_factory=list)
    faults: int = 0
    times: list[str] = field(default_factory=list)
    builds: dict[str, tuple[float, int]] = field(default_factory=dict)
    last_played: float | None = None


def _figures(records: Sequence[MatchRecord], matches: Sequence[ArenaMatch]) -> defaultdict[Player, _Own]:
    found = defaultdict[Player, _Own](_Own)
    for record in records:
        for player, score in ((record.player_a, record.score), (record.player_b, 1 - record.score)):
            if record.build is not None:
                points, games = found[player].builds.get(record.build, (0.0, 0))
                found[player].builds[record.build] = points + score, games + 1
        if record.details is not None:
            found[record.player_a].times.append(record.details.times_a)
            found[record.player_b].times.append(record.details.times_b)
    for match in matches:
        for player, score in ((match.player_a, match.score), (match.player_b, 1 - match.score)):
            own = found[player]
            own.scores.append(score)
            own.faults += match.at_fault == str(player)
            own.last_played = max(own.last_played or 0.0, match.finished_at)
    return found


def payoff_matrix(records: Sequence[MatchRecord]) -> dict[str, dict[str, dict[str, int]]]:
    """Returns wins, ties and losses of the fights of each player against each other."""
    found = defaultdict[str, dict[str, dict[str, int]]](dict)
    for a, b, counts in Payoff(records).pairs():
        found[str(a)][str(b)], found[str(b)][str(a)] = counts._asdict(), counts.reversed()._asdict()
    return found


def unsettled(table: Sequence[ArenaStanding], half_width: float) -> list[str]:
    """Returns the players whose rank, or whose rating within ``half_width`` points, is not certain."""
    return [line.player for line in table if line.rank_low != line.rank_high or line.half_width > half_width]


def as_json(table: Sequence[ArenaStanding]) -> str:
    """Returns the table as JSON; equal tables give equal texts."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
    return orjson.dumps([asdict(line) for line in table], option=options).decode() + "\n"


def as_csv(table: Sequence[ArenaStanding]) -> str:
    """Returns the table as CSV, without the results by build."""
    text, columns = io.StringIO(), [name for name in COLUMNS if name != "builds"]
    csv.writer(text, lineterminator="\n").writerows(
        [columns, *([getattr(line, name) for name in columns] for line in table)]
    )
    return text.getvalue()


HEADER = ("rank", "player", "owner", "rating", "±", "matches", "won", "tied", "lost", "win rate", "faults", "p99 ms")


def as_cells(table: Sequence[ArenaStanding]) -> list[tuple[str, ...]]:
    """Returns the rounded cells of each line, in the order of `HEADER`."""

    def shown(value: float | None, form: str, factor: float = 1.0) -> str:
        return "" if value is None else format(value * factor, form)

    return [
        (
            f"{line.rank_low}" if line.rank_low == line.rank_high else f"{line.rank_low}-{line.rank_high}",
            line.player,
            line.owner,
            shown(line.rating, ".0f") if abs(line.rating) >= 100 else shown(line.rating, ".1f"),
            shown(line.half_width, ".0f"),
            *map(str, (line.matches, line.wins, line.ties, line.losses)),
            shown(line.win_rate, ".1%"),
            shown(line.crash_rate, ".1%"),
            shown(line.seconds_p99, ".3g", 1000),
        )
        for line in table
    ]


def as_markdown(table: Sequence[ArenaStanding]) -> str:
    """Returns the table in Markdown."""
    rows = [HEADER, tuple("---" if name in ("player", "owner") else "---:" for name in HEADER), *as_cells(table)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
