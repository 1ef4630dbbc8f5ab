"""Results as CSV, with the columns of the public AI-vs-AI data sets, out and in; and sequential tests."""

from __future__ import annotations

import csv
import hashlib
import io
import secrets
from collections.abc import Iterator
from dataclasses import asdict, replace

import orjson

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.match_rounds import play_matches
from sb3_pvp.arena.store import QueuedMatch
from sb3_pvp.arena.table import matches_of
from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.common.errors import require_known
from sb3_pvp.matches.sprt import Sprt, SprtResult, run_sprt
from sb3_pvp.players.league import MatchRecord, Player
from sb3_pvp.players.league.match_records import MatchDetails

CSV_COLUMNS = ("model1", "model2", "timestamp", "result")
_OUTCOMES = {1.0: "won", 0.5: "tied", 0.0: "lost"}


def export_matches(arena: Arena) -> str:
    """Returns all matches of the season as CSV, one line each: Unix time in seconds, and 1, 0.5 or 0 for ``model1``.

    Matches of one round have one time, and later rounds later ones, so that `import_matches` finds the rounds again.
    """
    matches = sorted(matches_of(arena.records()), key=lambda match: match.round)  # in a round, in the log's order
    ends, last = dict[int, int](), 0
    for number in sorted({match.round for match in matches}):
        end = max(match.finished_at for match in matches if match.round == number)
        last = ends[number] = max(int(end), last + 1)
    text = io.StringIO()
    rows = [(str(each.player_a), str(each.player_b), ends[each.round], f"{each.score:g}") for each in matches]
    csv.writer(text, lineterminator="\n").writerows([CSV_COLUMNS, *rows])
    return text.getvalue()


def import_matches(arena: Arena, text: str) -> int:
    """Adds the matches of a CSV to the log, those with equal times as one round; returns how many are new.

    Raises `ValueError` for a line that is no match, before anything is added.
    """
    reader = csv.DictReader(io.StringIO(text))
    if missing := [name for name in CSV_COLUMNS if name not in (reader.fieldnames or ())]:
        raise ValueError(f"the first line must name the columns {', '.join(CSV_COLUMNS)}: {missing[0]!r} is missing")
    rows = list(reader)
    newest = max((match.round for match in matches_of(arena.log.records(detailed=True))), default=0)
    records = []
    try:
        rounds = {time: number for number, time in enumerate(sorted({float(row["timestamp"]) for row in rows}), 1)}
        for number, row in enumerate(rows, 1):
            a, b = (Player.parse(row[name].replace("/", "+")) for name in CSV_COLUMNS[:2])
            at, score = float(row["timestamp"]), float(row["result"])
            digest = hashlib.blake2b(f"{number} {row}".encode(), digest_size=8).hexdigest()
            key = f"imported-{number}-{digest}"
            details = MatchDetails(key, newest + rounds[at], "", 0, None, None, "", "", "", "", 0)
            records.append(MatchRecord(a, b, _OUTCOMES[score], None, None, 0, True, at, key, details))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"line {len(records) + 2} is no match of {', '.join(CSV_COLUMNS)}: {error}") from error
    return arena.log.append(records)


def compare_players(arena: Arena, a: str, b: str, test: Sprt, max_pairs: int | None = None) -> Iterator[SprtResult]:
    """Tests whether player ``a`` is better than ``b``; yields the result so far after each step, see `run_sprt`.

    Its fights are in the log, but count for no rating: that they end when one of the two is ahead would distort it. The
    last result is also written to a file in the folder ``sprt``. Raises `ValueError` for unknown players.
    """
    active = [each.name for each in arena.store.players("active")]
    for name in (a, b):
        require_known("player", name, active)
    if a == b:
        raise ValueError(f"a test needs two players, got {a} twice")
    series, played = secrets.token_hex(4), 0
    rules = arena.challenge.model_copy(update={"fights_per_match": 2})

    def play(pairs: int) -> Iterator[tuple[float, float]]:
        nonlocal played
        first = int(series, 16) * (1 << 16) + 2 * played
        keys = [f"sprt-{series}/match-{played + n}" for n in range(pairs)]
        matches = [QueuedMatch(key, 0, a, b, first + 2 * n) for n, key in enumerate(keys)]
        played += pairs
        for _, records in play_matches(rules, arena.store, arena.workers, matches):
            if isinstance(records, str):
                raise ValueError(f"the test of {a} and {b} cannot go on: {records}")
            arena.log.append(replace(record, counted=False) for record in records)
            one, two = (record.score for record in records)
            yield one, two

    for result in run_sprt(test, play, max(16, 8 * arena.workers.size), max_pairs):
        figures = {**asdict(result), "elo": list(result.elo), "players": [a, b], "test": asdict(test), "series": series}
        file = arena.folder / "sprt" / f"{a}-{b}-{series}.json"
        file.parent.mkdir(exist_ok=True)
        write_atomically(file, orjson.dumps(figures, option=orjson.OPT_INDENT_2).decode() + "\n")
        yield result
