"""The match log, an append-only table with every fight exactly once.

It is an SQLite file of its own, or, where several machines share it, a PostgreSQL database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, fields
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from sb3_pvp.common.databases import NUMBER, TEXT, connected, is_database, shown_address, writing
from sb3_pvp.common.errors import foreign
from sb3_pvp.players.league.match_records import MatchDetails, MatchRecord
from sb3_pvp.players.league.players import Player

APPLICATION_ID = 0x73623370  #: The id is "sb3p", which marks an SQLite file as a match log.
SCHEMA_VERSION = 2  #: The first version had no `MatchDetails`; it is read as it is, and extended when it gets some.
# The triggers make the file itself append-only, for any program. So ``number`` counts from 1 without gaps.
_FIRST_VERSION = (
    """CREATE TABLE matches (
        number INTEGER PRIMARY KEY, append_number INTEGER NOT NULL, key TEXT NOT NULL UNIQUE,
        player_a TEXT NOT NULL, player_b TEXT NOT NULL, outcome TEXT NOT NULL, seed INTEGER, build TEXT,
        ticks INTEGER NOT NULL, counted INTEGER NOT NULL, finished_at REAL NOT NULL
    )""",
    "CREATE TRIGGER no_update BEFORE UPDATE ON matches BEGIN SELECT RAISE(ABORT, 'a match log is append-only'); END",
    "CREATE TRIGGER no_delete BEFORE DELETE ON matches BEGIN SELECT RAISE(ABORT, 'a match log is append-only'); END",
    f"PRAGMA application_id = {APPLICATION_ID}",
)
_SECOND_VERSION = (
    """CREATE TABLE details (
        number INTEGER PRIMARY KEY, match TEXT NOT NULL, round INTEGER NOT NULL, challenge TEXT NOT NULL,
        seat INTEGER NOT NULL, cause TEXT, at_fault TEXT, version_a TEXT NOT NULL, version_b TEXT NOT NULL,
        times_a TEXT NOT NULL, times_b TEXT NOT NULL, digest INTEGER NOT NULL, actions BLOB NOT NULL
    )""",
    "CREATE TRIGGER no_change BEFORE UPDATE ON details BEGIN SELECT RAISE(ABORT, 'a match log is append-only'); END",
    "CREATE TRIGGER no_loss BEFORE DELETE ON details BEGIN SELECT RAISE(ABORT, 'a match log is append-only'); END",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)
_PARTS = {
    version: sorted(" ".join(sql.split()) for sql in statements if sql.startswith("CREATE"))
    for version, statements in ((1, _FIRST_VERSION), (2, (*_FIRST_VERSION, *_SECOND_VERSION)))
}
_META = sa.MetaData()
_MATCHES = sa.Table(
    "matches",
    _META,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("append_number", **NUMBER),
    sa.Column("key", **TEXT, unique=True),
    *(sa.Column(name, **TEXT) for name in ("player_a", "player_b", "outcome")),
    sa.Column("seed", sa.BigInteger),
    sa.Column("build", sa.Text),
    *(sa.Column(name, **NUMBER) for name in ("ticks", "counted")),
    sa.Column("finished_at", sa.Double, nullable=False),
)
_DETAILS = sa.Table(
    "details",
    _META,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("match", **TEXT),
    sa.Column("round", **NUMBER),
    sa.Column("challenge", **TEXT),
    sa.Column("seat", **NUMBER),
    *(sa.Column(name, sa.Text) for name in ("cause", "at_fault")),
    *(sa.Column(name, **TEXT) for name in ("version_a", "version_b", "times_a", "times_b")),
    sa.Column("digest", **NUMBER),
    sa.Column("actions", sa.LargeBinary, nullable=False),
)
_KEYS_AT_ONCE = 500  #: In one query; databases limit the number of parameters.


_FIELDS = [each.name for each in fields(MatchRecord) if each.name != "details"]
_DETAIL_FIELDS = [each.name for each in fields(MatchDetails)]


class MatchLog:
    """An append-only log of matches, shared by any number of threads and processes; can be pickled.

    A file is created if missing. If a process is killed while it appends, either all records of that call are in the
    log or none. What this process may not write can be read.

    Args:
        path: of an SQLite file, or the URL of a PostgreSQL database, ``postgresql://…``.

    Raises:
        ValueError: if it is no match log of this version.
        OSError: if it cannot be read or written.
    """

    def __init__(self, path: str | Path) -> None:
        self.url = str(path) if is_database(path) else None  #: Of the database, if it is one.
        self.path, self._mode = Path("database" if self.url else path), ""
        if self.url is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.is_file():
                self._mode = self._readable_mode()
        with self._connection() as connection:
            if self.url is not None:
                _create_in_database(connection)
            elif not self._version(connection):
                connection.exec_driver_sql("PRAGMA journal_mode = WAL")
                with writing(connection, APPLICATION_ID):
                    # Check again: another process may have created the tables before we got the lock.
                    for statement in () if self._version(connection) else (*_FIRST_VERSION, *_SECOND_VERSION):
                        connection.exec_driver_sql(statement)

    def append(self, records: Iterable[MatchRecord]) -> int:
        """Adds all records with new keys in one transaction, and returns how many.

        Known keys are skipped: a resumed run, which repeats its last rollout, counts nothing twice."""
        given = dict[str, MatchRecord]()
        for record in records:
            given.setdefault(record.key, record)
        if not given:
            return 0
        with self._connection() as connection, writing(connection, APPLICATION_ID):
            newest, last = connection.execute(
                sa.select(_MATCHES.c.number, _MATCHES.c.append_number).order_by(_MATCHES.c.number.desc()).limit(1)
            ).fetchone() or (0, 0)
            for key in _known_keys(connection, [*given]):
                del given[key]
            rows, details = [], []
            for number, record in enumerate(given.values(), newest + 1):
                plain = {name: _plain(getattr(record, name)) for name in _FIELDS}
                rows.append({"number": number, "append_number": last + 1, **plain, "counted": int(record.counted)})
                if record.details is not None:
                    details.append({"number": number, **asdict(record.details)})
            if rows:
                connection.execute(_MATCHES.insert(), rows)
            if details:
                if self.url is None and self._version(connection) == 1:
                    for statement in _SECOND_VERSION:
                        connection.exec_driver_sql(statement)
                connection.execute(_DETAILS.insert(), details)
        return len(rows)

    def known(self, keys: Sequence[str]) -> set[str]:
        """Returns which of the keys are in the log."""
        with self._connection() as connection:
            return {*_known_keys(connection, keys)}

    def count_conflicts(self, records: Iterable[MatchRecord]) -> int:
        """Returns how many of the records have the key of a different fight in the log; seeds are not compared."""
        found = sa.select(*(_MATCHES.c[name] for name in ("player_a", "player_b", "outcome", "ticks")))
        others = 0
        with self._connection() as connection:
            for each in records:
                row = str(each.player_a), str(each.player_b), each.outcome, each.ticks
                kept = connection.execute(found.where(_MATCHES.c.key == each.key)).fetchone()
                others += kept is not None and tuple(kept) != row
        return others

    def records(self, after: int = 0, counted_only: bool = True, detailed: bool = False) -> list[MatchRecord]:
        """Returns the records in the order of the log, skipping the first ``after`` (counted or not)."""
        appended = self.appended(after, detailed)
        return [each for records in appended for each in records if each.counted or not counted_only]

    def appended(self, after: int = 0, detailed: bool = False) -> Iterator[list[MatchRecord]]:
        """Yields all records after the first ``after``, one list per call of `append`, that is per rollout of a run.

        ``detailed``: with their `MatchDetails`, but without the actions.
        """
        with self._connection() as connection:
            detailed = detailed and (self.url is not None or self._version(connection) > 1)
            columns = [_MATCHES.c[name] for name in ("append_number", *_FIELDS)]
            source: sa.FromClause = _MATCHES
            if detailed:
                columns += [_DETAILS.c[name] for name in _DETAIL_FIELDS[:-1]]
                source = _MATCHES.outerjoin(_DETAILS, _MATCHES.c.number == _DETAILS.c.number)
            query = sa.select(*columns).select_from(source).where(_MATCHES.c.number > after).order_by(_MATCHES.c.number)
            for _, rows in groupby(connection.execute(query), key=lambda row: row[0]):
                with foreign(f"{self.name} has a record that no match log has"):
                    records = [*map(_record, rows)]
                yield records

    def fight(self, key: str) -> MatchRecord:
        """Returns the record with this key, with all of its details; raises `ValueError` if there is none."""
        columns = [_MATCHES.c[name] for name in ("append_number", *_FIELDS)] + [_DETAILS.c[n] for n in _DETAIL_FIELDS]
        source = _MATCHES.join(_DETAILS, _MATCHES.c.number == _DETAILS.c.number)
        with self._connection() as connection:
            is_first = self.url is None and self._version(connection) == 1
            query = sa.select(*columns).select_from(source).where(_MATCHES.c.key == key)
            row = None if is_first else connection.execute(query).fetchone()
        if row is None:
            raise ValueError(f"{self.name} has no fight {key!r} of an arena")
        with foreign(f"{self.name} has a record that no match log has"):
            return _record(row)

    def key(self, number: int) -> str | None:
        """Returns the key of a record, counted from 1; ``None`` if there are fewer."""
        with self._connection() as connection:
            found = connection.execute(sa.select(_MATCHES.c.key).where(_MATCHES.c.number == number)).scalar()
        return None if found is None else str(found)

    def __len__(self) -> int:
        with self._connection() as connection:
            return int(connection.execute(sa.select(sa.func.max(_MATCHES.c.number))).scalar() or 0)

    @property
    def name(self) -> str:
        """The path of the file, or the URL of the database without its password."""
        return shown_address(self.url or self.path)

    def _readable_mode(self) -> str:
        """Returns how SQLite can read the file: it makes others beside it, except where it need not expect changes."""
        try:
            with self._connection() as connection:
                connection.exec_driver_sql("SELECT COUNT(*) FROM sqlite_master").fetchone()
        except OSError:
            unmerged = Path(f"{self.path}-wal")  # what was appended last, if its process was killed
            if unmerged.is_file() and unmerged.stat().st_size:
                raise
            return "?immutable=1"
        return ""

    def _connection(self) -> AbstractContextManager[sa.Connection]:
        return connected(self.url or self.path, "match log", self._mode)

    def _version(self, connection: sa.Connection) -> int:
        """Returns the version of a log, 0 of an empty file; raises `ValueError` for any other file."""
        kind, version = (
            connection.exec_driver_sql(query).scalar() for query in ("PRAGMA application_id", "PRAGMA user_version")
        )
        query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 9"
        parts = [" ".join(str(sql).split()) for (sql,) in connection.exec_driver_sql(query)]
        if (kind, version, parts) == (0, 0, []):
            return 0
        if kind != APPLICATION_ID:
            raise ValueError(f"{self.path} is an SQLite file, but not a match log: choose another file for the log")
        if version not in _PARTS:
            raise ValueError(f"{self.path} is a match log of version {version}: use the sb3_pvp that wrote it")
        # A view in place of the table might have no end, and a trigger might do anything.
        if sorted(parts) != _PARTS[version]:
            raise ValueError(f"{self.path} is not a match log of sb3_pvp: it has other tables, views or triggers")
        return int(version)


def _create_in_database(connection: sa.Connection) -> None:
    """Creates the tables in a PostgreSQL database, unless they are there, with triggers that keep them append-only."""
    with writing(connection, APPLICATION_ID):
        if sa.inspect(connection).has_table(_MATCHES.name):
            return
        _META.create_all(connection)
        connection.exec_driver_sql(
            "CREATE FUNCTION refuse_change() RETURNS trigger AS"
            " $$BEGIN RAISE EXCEPTION 'a match log is append-only'; END$$ LANGUAGE plpgsql"
        )
        for name in _META.tables:
            connection.exec_driver_sql(
                f"CREATE TRIGGER no_change BEFORE UPDATE OR DELETE ON {name} EXECUTE FUNCTION refuse_change()"
            )


def _known_keys(connection: sa.Connection, keys: Sequence[str]) -> Iterator[str]:
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        part = keys[start : start + _KEYS_AT_ONCE]
        yield from connection.execute(sa.select(_MATCHES.c.key).where(_MATCHES.c.key.in_(part))).scalars()


def _record(row: Sequence[Any]) -> MatchRecord:
    """Returns a row of the tables as a record; SQLite lets other programs store any value in any column."""
    _, a, b, outcome, seed, build, ticks, counted, at, key, *more = row
    details = MatchDetails(*more) if more and more[0] is not None else None
    others = outcome, seed, build, int(ticks), bool(counted), float(at), key, details
    return MatchRecord(Player.parse(a), Player.parse(b), *others)


def _plain(value: Any) -> Any:
    """Returns a value for a column; SQLite would store NumPy scalars as blobs."""
    return str(value) if isinstance(value, Player) else value.item() if isinstance(value, np.generic) else value
