"""The store and the log of an arena: as files, and as a database that several machines share."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from sb3_pvp.arena.store import FAILED, GONE, REFUSED, RUNNING, Entrant, Store
from sb3_pvp.players.league import MatchLog, MatchRecord, Player
from sb3_pvp.players.league.match_log import _FIRST_VERSION
from sb3_pvp.players.league.match_records import MatchDetails
from tests.zoo.sweeps.postgres_server import empty_database, postgres_server, require_postgres

DETAILS = MatchDetails("m", 3, "rules", 1, "crashed", "b", "va", "vb", "9:2", "", 2**62, b"\x00\x01")
RECORD = MatchRecord(Player("a"), Player("b", 7), "won", 5, "MED", 12, True, 1.5, "m/fight-0", DETAILS)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    require_postgres()
    with postgres_server() as url:
        yield url


@pytest.fixture(params=["file", "database"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a store is: an SQLite file, or a PostgreSQL database."""
    if request.param == "file":
        yield str(tmp_path / "arena.sqlite")
        return
    url = request.getfixturevalue("server")
    empty_database(url)
    yield url


def entrant(name: str, weights: str = "", **facts: str) -> Entrant:
    return Entrant(name, "fighter", f"{name}.fighter", name, weights or name, "a folder", **facts)


def test_players_are_unique_by_name_and_weights(place: str) -> None:
    store = Store(place)
    assert store.add(entrant("a"), b"content") is None
    for twin in (entrant("a", "other"), entrant("b", "a")):
        found = store.add(twin)
        assert found is not None and found.name == "a"
    refused = entrant("c", state=REFUSED, reason="it is no fighter")
    assert store.add(refused) is None and store.add(entrant("c")) is None, "one that was refused may come again"
    assert [(each.name, each.state) for each in store.players()] == [("a", "active"), ("c", "active")]
    store.set_state("a", GONE, "withdrawn")
    assert [each.name for each in store.players("active")] == ["c"]
    assert store.players()[0].reason == "withdrawn"
    with pytest.raises(ValueError, match="has changed since"):
        store.file("a")  # its version is no hash of the content
    with pytest.raises(ValueError, match="is gone"):
        store.file("nothing")


def test_a_match_is_claimed_once(place: str) -> None:
    one, two = Store(place), Store(place)
    vars(two)["_worker"] = "elsewhere:1:1:ab"
    assert one.open_round() is None
    assert one.plan(0, [("a", "b", 1), ("a", "c", 2), ("b", "c", 3)]) == 1
    assert two.plan(5, [("a", "b", 9)]) == 1, "another arena has begun the round"
    first, second = one.claim(2), two.claim(9)
    assert len(first) == 2 and len(second) == 1 and not {*first} & {*second}
    assert one.claim(9) == [] and not one.close_round(1)
    one.done([each.key for each in first])
    two.failed(second[0].key, "the game failed")
    assert [(each.key, each.reason) for each in one.waiting(FAILED)] == [(second[0].key, "the game failed")]
    assert one.close_round(1) and one.open_round() is None
    assert one.plan(7, []) == 8, "rounds of the log are not used again"


def test_matches_of_an_arena_that_has_died_are_taken_over(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = Store(place), Store(place)
    host = str(vars(one)["_worker"]).partition(":")[0]
    vars(two)["_worker"] = f"{host}:999999999:1:ab"  # a process of this machine that is not there
    two.plan(0, [("a", "b", 1)])
    claimed = two.claim(1)
    assert one.claim(1) == claimed
    assert two.claim(1) == [], "of a process that is still there"
    one.release()
    assert two.claim(1) == claimed
    vars(two)["_worker"] = "elsewhere:1:1:ab"
    assert one.claim(1) == claimed and one.claim(1) == []
    one.release()
    assert two.claim(1) == claimed and one.claim(1) == [], "nobody can tell whether another machine's process lives"
    monkeypatch.setattr("sb3_pvp.arena.store.LEASE", -1.0)
    assert one.claim(1) == claimed, "of an arena that has said nothing for too long"
    one.still_here()
    assert [each.key for each in one.waiting(RUNNING)] == [claimed[0].key]


def test_facts(place: str) -> None:
    store = Store(place)
    store.set_fact("season", "1", replace=False)
    store.set_fact("season", "2", replace=False)
    assert store.fact("season") == "1" and store.fact("nothing") is None
    store.set_fact("season", "3")
    assert Store(place).fact("season") == "3"


def test_other_files_are_no_stores(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, but long enough to be taken for one" * 100)
    with pytest.raises(ValueError, match="is not a store of an arena"):
        Store(tmp_path / "text")
    store = Store(tmp_path / "newer")
    store.set_fact("version", "2")
    with pytest.raises(ValueError, match="store of version 2: use the sb3_pvp that wrote it"):
        Store(tmp_path / "newer")
    with pytest.raises(OSError, match="cannot use the store"):
        Store(tmp_path)


def test_details_come_back(place: str) -> None:
    log = MatchLog(place)
    plain = replace(RECORD, key="plain", details=None)
    assert log.append([RECORD, plain, RECORD]) == 2 and log.append([RECORD]) == 0
    assert log.fight("m/fight-0") == RECORD
    assert log.records() == [replace(RECORD, details=None), plain]
    assert log.records(detailed=True) == [replace(RECORD, details=replace(DETAILS, actions=b"")), plain]
    assert log.known(["m/fight-0", "plain", "nothing"]) == {"m/fight-0", "plain"}
    assert len(log) == 2 and log.key(2) == "plain" and log.key(3) is None
    with pytest.raises(ValueError, match="no fight 'plain' of an arena"):
        log.fight("plain")
    assert log.count_conflicts([RECORD, replace(plain, outcome="lost")]) == 1


def test_a_database_refuses_to_forget(server: str) -> None:
    empty_database(server)
    log = MatchLog(server)
    log.append([RECORD])
    engine = sa.create_engine(sa.make_url(server).set(drivername="postgresql+psycopg"))
    for table in ("matches", "details"):
        for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET number = 9"):
            with engine.connect() as connection, pytest.raises(sa.exc.DBAPIError, match="append-only"):
                connection.exec_driver_sql(statement)
    engine.dispose()
    MatchLog(server)
    assert len(log) == 1
    secret = "postgresql://somebody:secret@127.0.0.1:1/nothing?connect_timeout=2"
    with pytest.raises(OSError, match="cannot use the match log") as error:
        MatchLog(secret)
    assert "secret" not in str(error.value) and "\n" not in str(error.value)


def test_a_log_of_the_first_version_is_read_and_extended(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    with closing(sqlite3.connect(path)) as file, file:
        for statement in (*_FIRST_VERSION, "PRAGMA user_version = 1"):
            file.execute(statement)
        row = (1, 1, "k", "a", "b@7", "won", 5, "MED", 12, 1, 1.5)
        file.execute(f"INSERT INTO matches VALUES ({', '.join('?' * len(row))})", row)
    log = MatchLog(path)
    old = replace(RECORD, key="k", details=None)
    assert log.records(detailed=True) == [old]
    with pytest.raises(ValueError, match="no fight 'k'"):
        log.fight("k")
    log.append([replace(old, key="l")])
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (1,), "nothing of the second version is in it"
    log.append([RECORD])
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (2,)
    assert log.fight("m/fight-0") == RECORD and [each.key for each in log.records()] == ["k", "l", "m/fight-0"]
