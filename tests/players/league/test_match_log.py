from __future__ import annotations

import errno
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from matches import PLAYERS, match, rollouts

from sb3_pvp.players.league import MatchLog, MatchRecord, Player
from sb3_pvp.players.league.match_log import _FIELDS

A, B = Player("main", 5), Player("baseline")


@pytest.fixture
def log(tmp_path: Path) -> MatchLog:
    return MatchLog(tmp_path / "matches.sqlite")


def numbered(*numbers: int) -> list[MatchRecord]:
    return [match(A, B, key=f"main/rollout-{number}") for number in numbers]


def test_records_come_back_as_they_were(log: MatchLog) -> None:
    records = [
        MatchRecord(A, B, "won", 2**63 - 1, "MED", 120, True, 1.7e9 + 0.123456, "a"),
        MatchRecord(B, A, "tied", None, None, 0, False, 0.0, "b"),
        MatchRecord(A, B, "desync", np.int64(3), "ZERKER", np.int32(4), False, np.float32(5), "c"),  # type: ignore[arg-type]
    ]
    assert log.append(records) == 3
    assert log.records(counted_only=False) == records
    assert MatchLog(log.path).records() == records[:1]
    assert type(log.records(counted_only=False)[2].seed) is int


@pytest.mark.parametrize(
    "row", [("won", "text", 1), ("won", 1, "long"), ("own", 1, 1), (b"won", 1, 1), ("won", b"1", 1), ("won", 1, None)]
)
def test_values_that_no_log_has_are_one_error(row: tuple[object, ...], log: MatchLog) -> None:
    with closing(sqlite3.connect(log.path)) as file, file:
        file.execute("DROP TABLE matches")
        columns = "number INTEGER PRIMARY KEY, append_number, key, player_a, player_b, outcome, seed, ticks, build"
        file.execute(f"CREATE TABLE matches ({columns}, counted, finished_at)")
        file.execute("INSERT INTO matches VALUES (1, 1, 'a', 'main@5', 'baseline', ?, ?, ?, NULL, 1, 0.0)", row)
    with pytest.raises(ValueError, match=r"matches.sqlite has a record that no match log has: "):
        log.records()


def test_a_key_counts_once(log: MatchLog) -> None:
    assert log.append(numbered(1, 2, 2)) == 2
    assert log.append(numbered(2, 3, 1)) == 1
    assert log.append([]) == 0
    assert len(log) == 3
    assert log.records() == numbered(1, 2, 3)
    assert log.records(after=2) == numbered(3)
    assert (log.key(3), log.key(4)) == ("main/rollout-3", None)


def test_what_was_appended_together_is_read_together(log: MatchLog) -> None:
    for numbers in ((1, 2), (2,), (2, 3), (4, 5)):
        log.append(numbered(*numbers))
    assert list(log.appended()) == [numbered(1, 2), numbered(3), numbered(4, 5)]
    assert list(log.appended(after=3)) == [numbered(4, 5)]


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rollouts())
def test_the_first_record_of_a_key_is_kept(tmp_path: Path, appended: list[list[MatchRecord]]) -> None:
    path = tmp_path / "random.sqlite"
    path.unlink(missing_ok=True)
    log, first = MatchLog(path), {}
    for records in appended:
        new = {record.key: record for record in reversed(records) if record.key not in first}
        assert log.append(records) == len(new)
        first |= {record.key: new[record.key] for record in records if record.key in new}
    assert log.records(counted_only=False) == list(first.values())
    assert log.records() == [record for record in first.values() if record.counted]
    assert len(log) == len(first)


def test_the_file_refuses_to_forget(log: MatchLog) -> None:
    log.append(numbered(1))
    connection = sqlite3.connect(log.path)
    for change in ("DELETE FROM matches", "UPDATE matches SET outcome = 'lost'"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(change)
    connection.close()
    assert log.records() == numbered(1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"outcome": "victory"}, "unknown outcome 'victory'"),
        ({"outcome": "timeout"}, "counted=False"),
        ({"player_b": A}, "two different players"),
        ({"seed": 2**63}, "seed"),
        ({"seed": -1}, "seed"),
        ({"key": ""}, "key"),
    ],
)
def test_records_that_cannot_be(change: dict[str, object], words: str) -> None:
    values = {name: getattr(match(A, B), name) for name in MatchRecord.__dataclass_fields__}
    with pytest.raises(ValueError, match=words):
        MatchRecord(**{**values, **change})  # type: ignore[arg-type]


def test_files_that_are_no_log_are_left_alone(tmp_path: Path) -> None:
    text, other, newer = tmp_path / "text", tmp_path / "other", tmp_path / "newer"
    text.write_text("not a database, but long enough to be taken for one" * 100)
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE matches (key TEXT)")
    MatchLog(newer)
    with sqlite3.connect(newer) as connection:
        connection.execute("PRAGMA user_version = 3")
    for path, words in ((text, "not a match log"), (other, "choose another file"), (newer, "version 3")):
        before = path.read_bytes()
        with pytest.raises(ValueError, match=words) as error:
            MatchLog(path)
        assert str(path) in str(error.value) and "\n" not in str(error.value)
        assert path.read_bytes() == before
    with pytest.raises(OSError, match="cannot use the match log"):
        MatchLog(tmp_path)


ENDLESS = """CREATE VIEW matches AS WITH RECURSIVE more(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM more)
    SELECT n AS number, 1 AS append_number, 'key' || n AS key, 'main' AS player_a, 'baseline' AS player_b,
    'won' AS outcome, 0 AS seed, NULL AS build, 9 AS ticks, 1 AS counted, 0.0 AS finished_at FROM more"""


@pytest.mark.parametrize(
    "changes",
    [
        ["DROP TABLE matches", ENDLESS],
        ["ALTER TABLE matches RENAME TO others", ENDLESS],
        ["CREATE TRIGGER more AFTER INSERT ON matches BEGIN DELETE FROM matches; END"],
        ["ALTER TABLE matches ADD COLUMN length AS (length(hex(zeroblob(1000000000))))"],
    ],
)
def test_a_log_is_nothing_but_its_table(log: MatchLog, changes: list[str]) -> None:
    with closing(sqlite3.connect(log.path)) as file, file:
        for change in changes:
            file.execute(change)
    with pytest.raises(ValueError, match="is not a match log of sb3_pvp") as error:
        MatchLog(log.path)
    assert str(log.path) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("column", "value"), [("key", b"bytes"), ("player_a", f"main@{10**400}"), ("player_b", "a\nb"), ("seed", -1)]
)
def test_matches_that_cannot_be_are_one_line(log: MatchLog, column: str, value: object) -> None:
    given = dict.fromkeys(_FIELDS, 0) | {"player_a": "a", "player_b": "b", "outcome": "won"}
    given = {"append_number": 1, **given, "key": "k", column: value}
    with closing(sqlite3.connect(log.path)) as file, file:
        places = ", ".join("?" * len(given))
        file.execute(f"INSERT INTO matches ({', '.join(given)}) VALUES ({places})", [*given.values()])
    with pytest.raises(ValueError, match=column.removesuffix("_a").removesuffix("_b")) as error:
        log.records()
    assert "\n" not in str(error.value) and len(str(error.value)) < 1000


def test_a_full_disk_is_an_error_that_names_the_log(log: MatchLog, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect

    def connect_to_a_full_disk(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection = connect(*args, **kwargs)
        connection.execute("PRAGMA max_page_count = 8")
        return connection

    with monkeypatch.context() as patch, pytest.raises(OSError) as error:
        patch.setattr(sqlite3, "connect", connect_to_a_full_disk)
        log.append(numbered(*range(1000)))
    assert (error.value.errno, error.value.filename) == (errno.ENOSPC, str(log.path))
    assert log.append(numbered(*range(1000))) == 1000


def test_a_log_travels_to_other_processes(log: MatchLog) -> None:
    copy = pickle.loads(pickle.dumps(log))
    copy.append(numbered(1))
    assert log.records() == numbered(1)


WRITER = """
import sys
sys.path.insert(0, {tests!r})
from matches import PLAYERS, match
from sb3_pvp.players.league import MatchLog
path, name = sys.argv[1:]
log = MatchLog(path)
for number in range({appends}):
    log.append([match(*PLAYERS[:2], key=f"{{name}}/{{number}}/{{row}}") for row in range({rows})])
    print(number, flush=True)
"""


def start_writer(path: Path, name: str, appends: int, rows: int) -> subprocess.Popen[bytes]:
    code = WRITER.format(tests=str(Path(__file__).parent), appends=appends, rows=rows)
    return subprocess.Popen([sys.executable, "-c", code, str(path), name], stdout=subprocess.PIPE, env=os.environ)


def test_killed_at_any_moment_all_of_a_rollout_is_there_or_nothing(tmp_path: Path) -> None:
    path, rows = tmp_path / "matches.sqlite", 4000
    rng, acknowledged = np.random.default_rng(0), 0
    for _ in range(3):
        # Always the same keys: what was written before the last kill is written again.
        writer = start_writer(path, "main", appends=100_000, rows=rows)
        assert writer.stdout is not None
        acknowledged += 2
        for _ in range(acknowledged):
            writer.stdout.readline()
        time.sleep(float(rng.uniform(0, 0.03)))  # an append takes about that long
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        log = MatchLog(path)
        keys = [record.key for record in log.records()]
        assert {len(records) for records in log.appended()} == {rows}
        assert len(keys) == len(set(keys)) == len(log) >= acknowledged * rows


# SQLite calls back every thousand of its instructions; the count starts over with each connection.
KILLED_INSIDE = """
import os, signal, sqlite3, sys
sys.path.insert(0, {tests!r})
from matches import PLAYERS, match
from sb3_pvp.players.league import MatchLog
path, calls = sys.argv[1], int(sys.argv[2])
log, connect = MatchLog(path), sqlite3.connect
def connect_and_count(*args, **kwargs):
    connection, left = connect(*args, **kwargs), [calls]
    def count():
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
    connection.set_progress_handler(count, 1000)
    return connection
sqlite3.connect = connect_and_count
log.append([match(*PLAYERS[:2], key=f"main/1/{{row}}") for row in range(1000)])
"""


@pytest.mark.slow
def test_killed_in_the_middle_of_an_append(tmp_path: Path) -> None:
    log = MatchLog(tmp_path / "matches.sqlite")
    before = [match(*PLAYERS[:2], key=f"main/0/{row}") for row in range(7)]
    log.append(before)
    code = KILLED_INSIDE.format(tests=str(Path(__file__).parent))
    killed = 0
    for calls in (1, 12, 1_000_000):
        exit_code = subprocess.run([sys.executable, "-c", code, str(log.path), str(calls)]).returncode
        killed += exit_code == -signal.SIGKILL
        assert len(log) == len(before) + (0 if exit_code else 1000)
    assert (killed, exit_code) == (2, 0)


@pytest.mark.slow
def test_processes_append_side_by_side_while_another_reads(tmp_path: Path) -> None:
    path, appends, rows = tmp_path / "matches.sqlite", 20, 30
    writers = [start_writer(path, f"exploiter-{number}", appends, rows) for number in range(3)]
    log, seen = MatchLog(path), 0
    while any(writer.poll() is None for writer in writers):
        batches = list(log.appended(seen))
        assert {len(records) for records in batches} <= {rows}
        assert all(len({record.key.split("/")[0] for record in records}) == 1 for records in batches)
        seen += rows * len(batches)
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(log) == 3 * appends * rows
    for writer in writers:
        writer.communicate()


def test_players_of_the_log_are_players(log: MatchLog) -> None:
    log.append([match(a, PLAYERS[0], key=str(a)) for a in PLAYERS[1:]])
    assert [record.player_a for record in log.records()] == list(PLAYERS[1:])
