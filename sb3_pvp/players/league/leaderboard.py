"""The leaderboard of a league, as data and in text formats."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields

from sb3_pvp.players.league.players import Player
from sb3_pvp.players.league.ratings import Ratings


@dataclass(frozen=True)
class Standing:
    """One line of a leaderboard."""

    player: str  #: ``str(player)``.
    rating: float  #: Bradley-Terry rating, in Elo points.
    low: float  #: Lower end of its 95 % interval.
    high: float  #: Upper end of its 95 % interval.
    elo: float  #: Elo rating (self-play.md §6).
    open_skill: float  #: OpenSkill's ordinal, ``mu - 3 * sigma``.
    mu: float  #: Mean of OpenSkill.
    sigma: float  #: Standard deviation of OpenSkill.
    games: int  #: Counted fights.
    wins: int  #: Counted fights that the player won.
    ties: int  #: Counted fights without a winner.
    losses: int  #: Counted fights that the player lost.
    win_rate: float | None  #: Share of wins, with ties as half wins; ``None`` without games.
    exploitability: float | None = None  #: What a best response wins at least; ``None`` if not measured.


COLUMNS = tuple(field.name for field in fields(Standing))


def leaderboard(
    ratings: Ratings, players: Collection[Player] = (), exploitability: Mapping[str, float] | None = None
) -> list[Standing]:
    """Returns all players with games, and ``players``, in descending order of Bradley-Terry ratings."""
    intervals = ratings.bradley_terry(players).intervals()
    standings = []
    for player, interval in sorted(intervals.items(), key=lambda item: (-item[1].rating, item[0])):
        skill, total = ratings.open_skill.rating(player), ratings.payoff.total(player)
        rated = (ratings.elo.rating(player), skill.ordinal, *skill)
        win_rate = total.win_rate if total.games else None
        exploited = (exploitability or {}).get(str(player))
        standings.append(Standing(str(player), *interval, *rated, total.games, *total, win_rate, exploited))
    return standings


def snapshot_standings(standings: Sequence[Standing], name: str) -> list[tuple[int, Standing]]:
    """Returns the step and the line of each snapshot with this name, in the order of steps."""
    players = ((Player.parse(each.player), each) for each in standings)
    return sorted(((player.age, each) for player, each in players if player.name == name), key=lambda pair: pair[0])


def as_json(standings: Sequence[Standing]) -> str:
    """Formats a leaderboard as a JSON list of objects, in full precision."""
    return json.dumps([asdict(standing) for standing in standings], indent=1) + "\n"


def as_csv(standings: Sequence[Standing]) -> str:
    """Formats a leaderboard as CSV with a header, in full precision; missing values are empty cells."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *map(astuple, standings)])
    return text.getvalue()


def as_markdown(standings: Sequence[Standing]) -> str:
    """Formats a leaderboard as a Markdown table, rounded."""
    header, *lines = as_rows(standings)
    rows = [header, ["---", *["---:"] * (len(header) - 1)], *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def as_table(standings: Sequence[Standing]) -> str:
    """Formats a leaderboard as plain text in aligned columns, rounded."""
    rows = as_rows(standings)
    first, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join("  ".join([row[0].ljust(first), *map(str.rjust, row[1:], others)]) + "\n" for row in rows)


#: Formatting functions by name.
FORMATS = {"json": as_json, "csv": as_csv, "markdown": as_markdown, "table": as_table}


def as_rows(standings: Sequence[Standing]) -> list[list[str]]:
    """Returns the text of all cells, rounded, the header first."""
    rows = [["player", "rating", "95 % interval", "Elo", "OpenSkill", "games", "won", "tied", "lost", "win rate"]]
    for line in standings:
        interval = f"{line.low:.0f} to {line.high:.0f}"
        ratings = f"{line.rating:.0f}", interval, f"{line.elo:.0f}", f"{line.open_skill:.1f}"
        counts = map(str, (line.games, line.wins, line.ties, line.losses))
        rows.append([line.player, *ratings, *counts, "" if line.win_rate is None else f"{line.win_rate:.1%}"])
    if any(line.exploitability is not None for line in standings):
        bounds = ("" if line.exploitability is None else f"≥ {line.exploitability:.1%}" for line in standings)
        for row, bound in zip(rows, ["exploited", *bounds], strict=True):
            row.append(bound)
    return rows
