"""The leaderboard of a league, as data and as text."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields

from sb3_pvp.selfplay.players import Player
from sb3_pvp.selfplay.ratings import Ratings


@dataclass(frozen=True)
class Standing:
    """One line of a leaderboard."""

    player: str  #: His name, as ``str(player)``.
    rating: float  #: By Bradley and Terry, in Elo points, between the ends of its 95 % interval.
    low: float
    high: float
    elo: float  #: See self-play.md §6.
    open_skill: float  #: OpenSkill's ordinal, ``mu - 3 * sigma``, with its mean and standard deviation.
    mu: float
    sigma: float
    games: int  #: Counted fights.
    wins: int
    ties: int
    losses: int
    win_rate: float | None  #: Share of wins, ties as half wins; ``None`` without games.
    exploitability: float | None = None  #: What a best response wins at least; ``None`` if not measured.


COLUMNS = tuple(field.name for field in fields(Standing))


def leaderboard(
    ratings: Ratings, players: Collection[Player] = (), exploitability: Mapping[str, float] | None = None
) -> list[Standing]:
    """Everybody who has played, and ``players`` who may not have; the strongest (Bradley-Terry) first."""
    intervals = ratings.bradley_terry(players).intervals()
    standings = []
    for player, interval in sorted(intervals.items(), key=lambda item: (-item[1].rating, item[0])):
        skill, total = ratings.open_skill.rating(player), ratings.payoff.total(player)
        rated = (ratings.elo.rating(player), skill.ordinal, *skill)
        win_rate = total.win_rate if total.games else None
        exploited = (exploitability or {}).get(str(player))
        standings.append(Standing(str(player), *interval, *rated, total.games, *total, win_rate, exploited))
    return standings


def of_snapshots(standings: Sequence[Standing], name: str) -> list[tuple[int, Standing]]:
    """The lines of a player's snapshots, each with its steps, in the order of steps."""
    players = ((Player.parse(each.player), each) for each in standings)
    return sorted(((player.age, each) for player, each in players if player.name == name), key=lambda pair: pair[0])


def as_json(standings: Sequence[Standing]) -> str:
    return json.dumps([asdict(standing) for standing in standings], indent=1) + "\n"


def as_csv(standings: Sequence[Standing]) -> str:
    """Comma-separated values with a header, full precision; an empty cell where there is no value."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *map(astuple, standings)])
    return text.getvalue()


def as_markdown(standings: Sequence[Standing]) -> str:
    header, *lines = _cells(standings)
    rows = [header, ["---", *["---:"] * (len(header) - 1)], *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def as_table(standings: Sequence[Standing]) -> str:
    rows = _cells(standings)
    first, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join("  ".join([row[0].ljust(first), *map(str.rjust, row[1:], others)]) + "\n" for row in rows)


FORMATS = {"json": as_json, "csv": as_csv, "markdown": as_markdown, "table": as_table}  #: By name.


def _cells(standings: Sequence[Standing]) -> list[list[str]]:
    rows = [["player", "rating", "95 % interval", "Elo", "OpenSkill", "games", "won", "tied", "lost", "win rate"]]
    for one in standings:
        ratings = f"{one.rating:.0f}", f"{one.low:.0f} to {one.high:.0f}", f"{one.elo:.0f}", f"{one.open_skill:.1f}"
        counts = map(str, (one.games, one.wins, one.ties, one.losses))
        rows.append([one.player, *ratings, *counts, "" if one.win_rate is None else f"{one.win_rate:.1%}"])
    if any(one.exploitability is not None for one in standings):
        bounds = ("" if one.exploitability is None else f"≥ {one.exploitability:.1%}" for one in standings)
        for row, bound in zip(rows, ["exploited", *bounds], strict=True):
            row.append(bound)
    return rows
