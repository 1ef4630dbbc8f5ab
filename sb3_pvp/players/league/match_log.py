"""The match log, an append-only SQLite file with every fight exactly once; and the payoff matrix."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from math import nan
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.errors import foreign, require_known
from sb3_pvp.players.league.players import Player

#: Outcomes of decided fights as the first player sees them, and its score; in the order of `Counts`.
SCORES = {"won": 1.0, "tied": 0.5, "lost": 0.0}
BROKEN = ("timeout", "target_lost", "desync")  #: Outcomes of fights that broke off: recorded, but never counted.

APPLICATION_ID, SCHEMA_VERSION = 0x73623370, 1  #: The id is "sb3p", which marks an SQLite file as a match log.
# The triggers make the file itself append-only, for any program. So ``number`` counts from 1 without gaps.
_SCHEMA = (
    """CREATE TABLE matches (
        number INTEGER PRIMARY KEY, append_number INTEGER NOT NULL, key TEXT NOT NULL UNIQUE,
        player_a TEXT NOT NULL, player_b TEXT NOT NULL, outcome TEXT NOT NULL, seed INTEGER, build TEXT,
        ticks INTEGER NOT NULL, counted INTEGER NOT NULL, finished_at REAL NOT NULL
    )""",
    "CREATE TRIGGER no_update BEFORE UPDATE ON matches BEGIN SELECT RAISE(ABORT, 'a match log is append-only'); END",
    "CREATE TRIGGER no_delete BEFORE DELETE ON matches BEGIN SELECT RAISE(ABORT, 'a match log is append-only'); END",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)
_PARTS = sorted(" ".join(sql.split()) for sql in _SCHEMA if sql.startswith("CREATE"))


@dataclass(frozen=True)
class MatchRecord:
    """One fight between two different players; raises `ValueError` if a value is impossible."""

    player_a: Player  #: The player from whose side the outcome is seen.
    player_b: Player  #: The opponent, another player.
    outcome: str  #: ``won``, ``lost`` or ``tied``, as ``player_a`` sees it; or one of `BROKEN`.
    seed: int | None  #: Seed of the fight, if known; from 0 to 2**63 - 1.
    build: str | None  #: Build of the fighters, in games that have several.
    ticks: int  #: Length of the fight, in ticks.
    counted: bool  #: Whether the fight is rated; always false for `BROKEN`.
    finished_at: float  #: Unix time in seconds.
    key: str  #: Unique name of the fight, such as ``main/rollout-17/row-3/episode-2``.

    def __post_init__(self) -> None:
        require_known("outcome", self.outcome, [*SCORES, *BROKEN])
        if self.counted and self.outcome in BROKEN:
            raise ValueError(f"a fight that ended with {self.outcome!r} cannot be counted: pass counted=False")
        if self.player_a == self.player_b:
            raise ValueError(f"a match needs two different players, got {self.player_a} twice")
        if self.seed is not None and not 0 <= self.seed < 2**63:  # SQLite's integers are signed
            raise ValueError(f"the seed of a match must be at least 0 and below 2**63, got {self.seed}")
        if not isinstance(self.key, str) or not self.key:
            raise ValueError(f"a match needs a unique text as its key, got {self.key!r}")

    @classmethod
    def of(
        cls, a: Player, b: Player, outcome: str, ticks: int, key: str, seed: int | None = None, build: str | None = None
    ) -> MatchRecord:
        """Returns the record of a fight that has just ended; an unknown outcome is recorded as ``timeout``."""
        word = outcome if outcome in (*SCORES, *BROKEN) else "timeout"
        return cls(a, b, word, seed, build, int(ticks), outcome in SCORES, time.time(), key)

    @property
    def score(self) -> float:
        """The score of ``player_a``: 1 for a win, 0.5 for a tie, 0 for a loss."""
        return SCORES[self.outcome]


_FIELDS = ", ".join(MatchRecord.__dataclass_fields__)


class MatchLog:
    """An append-only log of matches, shared by any number of threads and processes; can be pickled.

    The file is created if missing. If a process is killed while it appends, either all records of that call are in the
    file or none. What this process may not write can be read. Raises `ValueError` if it is no match log of this
    version, `OSError` if it cannot be read or written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path, self._mode = Path(path), ""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.is_file():
            self._mode = self._readable_mode()
        with self._connection() as connection:
            if not self._is_log(connection):
                connection.execute("PRAGMA journal_mode = WAL")
                with connection:
                    connection.execute("BEGIN IMMEDIATE")
                    # Check again: another process may have created the tables before we got the lock.
                    for statement in () if self._is_log(connection) else _SCHEMA:
                        connection.execute(statement)

    def append(self, records: Iterable[MatchRecord]) -> int:
        """Adds all records with new keys in one transaction, and returns how many.

        Known keys are skipped: a resumed run, which repeats its last rollout, counts nothing twice."""
        rows = [[_plain(value) for value in vars(record).values()] for record in records]
        if not rows:
            return 0
        with self._connection() as connection, connection:
            connection.execute("BEGIN IMMEDIATE")  # takes the write lock before reading append_number
            query = "SELECT append_number FROM matches ORDER BY number DESC LIMIT 1"
            (last,) = connection.execute(query).fetchone() or (0,)
            before = connection.total_changes
            connection.executemany(
                f"INSERT INTO matches (append_number, {_FIELDS}) VALUES (?{', ?' * 9}) ON CONFLICT (key) DO NOTHING",
                [(last + 1, *row) for row in rows],
            )
            return connection.total_changes - before

    def count_conflicts(self, records: Iterable[MatchRecord]) -> int:
        """Returns how many of the records have the key of a different fight in the log; seeds are not compared."""
        query, others = "SELECT player_a, player_b, outcome, ticks FROM matches WHERE key = ?", 0
        with self._connection() as connection:
            for each in records:
                row = str(each.player_a), str(each.player_b), each.outcome, each.ticks
                others += connection.execute(query, (each.key,)).fetchone() not in (None, row)
        return others

    def records(self, after: int = 0, counted_only: bool = True) -> list[MatchRecord]:
        """Returns the records in the order of the log, skipping the first ``after`` (counted or not)."""
        return [each for records in self.appended(after) for each in records if each.counted or not counted_only]

    def appended(self, after: int = 0) -> Iterator[list[MatchRecord]]:
        """Yields all records after the first ``after``, one list per call of `append`, that is per rollout of a run."""
        query = f"SELECT append_number, {_FIELDS} FROM matches WHERE number > ? ORDER BY number"
        with self._connection() as connection:
            for _, rows in groupby(connection.execute(query, (after,)), key=lambda row: row[0]):
                with foreign(f"{self.path} has a record that no match log has"):
                    records = [*map(_record, rows)]
                yield records

    def key(self, number: int) -> str | None:
        """Returns the key of a record, counted from 1; ``None`` if there are fewer."""
        with self._connection() as connection:
            row = connection.execute("SELECT key FROM matches WHERE number = ?", (number,)).fetchone()
        return None if row is None else str(row[0])

    def __len__(self) -> int:
        with self._connection() as connection:
            return int(connection.execute("SELECT COALESCE(MAX(number), 0) FROM matches").fetchone()[0])

    def _readable_mode(self) -> str:
        """Returns how SQLite can read the file: it makes others beside it, except where it need not expect changes."""
        try:
            with self._connection() as connection:
                connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        except OSError:
            unmerged = Path(f"{self.path}-wal")  # what was appended last, if its process was killed
            if unmerged.is_file() and unmerged.stat().st_size:
                raise
            return "?immutable=1"
        return ""

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Opens the file; one connection per use, since SQLite's must not cross threads, forks or pickles."""
        try:
            # Wait up to a minute for other writers. isolation_level=None: we begin transactions ourselves.
            address = f"{self.path.absolute().as_uri()}{self._mode}"
            with closing(sqlite3.connect(address, timeout=60, isolation_level=None, uri=True)) as connection:
                connection.execute("PRAGMA synchronous = FULL")  # in WAL mode, survives a power failure only if FULL
                yield connection
        except sqlite3.OperationalError as error:  # before its base class DatabaseError
            if "disk is full" in str(error):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path)) from error
            raise OSError(f"cannot use the match log {self.path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{self.path} is not a match log: {error}") from error

    def _is_log(self, connection: sqlite3.Connection) -> bool:
        """Returns true for a match log, false for an empty file; raises `ValueError` for any other file."""
        queries = ("PRAGMA application_id", "PRAGMA user_version")
        kind, version = (connection.execute(query).fetchone()[0] for query in queries)
        parts = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 9").fetchall()
        if (kind, version, parts) == (0, 0, []):
            return False
        if kind != APPLICATION_ID:
            raise ValueError(f"{self.path} is an SQLite file, but not a match log: choose another file for the log")
        if version != SCHEMA_VERSION:
            raise ValueError(f"{self.path} is a match log of version {version}: use the sb3_pvp that wrote it")
        # A view in place of the table might have no end, and a trigger might do anything.
        if sorted(" ".join(str(sql).split()) for (sql,) in parts) != _PARTS:
            raise ValueError(f"{self.path} is not a match log of sb3_pvp: it has other tables, views or triggers")
        return True


def _record(row: tuple[Any, ...]) -> MatchRecord:
    """Returns a row of the table as a record; SQLite lets other programs store any value in any column."""
    _, a, b, outcome, seed, build, ticks, counted, at, key = row
    others = outcome, seed, build, int(ticks), bool(counted), float(at), key
    return MatchRecord(Player.parse(a), Player.parse(b), *others)


def _plain(value: Any) -> Any:
    """Returns a value for a column; SQLite would store NumPy scalars as blobs."""
    return str(value) if isinstance(value, Player) else value.item() if isinstance(value, np.generic) else value


class Counts(NamedTuple):
    """Counted fights, as one side sees them."""

    wins: int = 0  #: Fights that this side won.
    ties: int = 0  #: Fights without a winner.
    losses: int = 0  #: Fights that the other side won.

    @property
    def games(self) -> int:
        """Number of fights."""
        return sum(self)

    @property
    def win_rate(self) -> float:
        """Share of wins, with ties as half wins; NaN without games."""
        return (self.wins + self.ties / 2) / self.games if self.games else nan

    def reversed(self) -> Counts:
        """Returns the same fights as the other side sees them."""
        return Counts(self.losses, self.ties, self.wins)

    def plus(self, other: Counts) -> Counts:
        """Returns the sum of both; ``+`` would concatenate the tuples."""
        return Counts(*map(add, self, other))


class Payoff:
    """Wins, ties and losses of each pair of players, starting with the counted ``records``."""

    def __init__(self, records: Iterable[MatchRecord] = ()) -> None:
        self._counts: dict[Player, dict[Player, Counts]] = {}  # under both orders of a pair
        self.update(records)

    def update(self, records: Iterable[MatchRecord]) -> None:
        """Adds the counted matches among ``records``."""
        for record in records:
            if record.counted:
                result = Counts(*(int(record.outcome == each) for each in SCORES))
                self.add(record.player_a, record.player_b, result)

    def add(self, a: Player, b: Player, result: Counts) -> None:
        """Adds games between ``a`` and ``b``, as ``a`` sees them."""
        for one, other, own in ((a, b, result), (b, a, result.reversed())):
            against = self._counts.setdefault(one, {})
            against[other] = own.plus(against.get(other, Counts()))

    @property
    def players(self) -> list[Player]:
        """All players with games, sorted."""
        return sorted(self._counts)

    def pairs(self) -> list[tuple[Player, Player, Counts]]:
        """Returns all pairs with games, sorted, each in one order only, with the counts of the first player."""
        return [(a, b, self._counts[a][b]) for a in self.players for b in sorted(self._counts[a]) if a < b]

    def counts(self, a: Player, b: Player) -> Counts:
        """Returns the games between two players, as ``a`` sees them."""
        return self._counts.get(a, {}).get(b, Counts())

    def total(self, player: Player) -> Counts:
        """Returns all games of a player."""
        return reduce(Counts.plus, self._counts.get(player, {}).values(), Counts())

    def matrix(self, players: Sequence[Player]) -> NDArray[np.float64]:
        """Returns win rates ``(n, n)`` of the row's player against the column's; NaN without games."""
        return np.array([[self.counts(a, b).win_rate for b in players] for a in players]).reshape(2 * (len(players),))
