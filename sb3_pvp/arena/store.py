"""What an arena knows besides its log: players, rounds, and matches that are still to be played.

Two arenas may use one store at the same time: each match is claimed by one of them.
"""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson
import psutil
import sqlalchemy as sa

from sb3_pvp.common.databases import NUMBER, TEXT, connected, writing

LEASE = 3600.0  #: Seconds after which a match is given to another arena, if the one that plays it says nothing.
ACTIVE, REFUSED, GONE = "active", "refused", "gone"  #: States of players.
QUEUED, RUNNING, FAILED = "queued", "running", "failed"  #: States of matches; what is done is in the log.
FILE = "arena.sqlite"
_VERSION, _LOCK = 1, 0x73623371  #: The lock of writers in a database.

_META = sa.MetaData()
_FACTS = sa.Table("arena", _META, sa.Column("name", sa.Text, primary_key=True), sa.Column("value", **TEXT))
_PLAYERS = sa.Table(
    "players",
    _META,
    sa.Column("name", sa.Text, primary_key=True),
    *(
        sa.Column(name, **TEXT)
        for name in ("kind", "opponent", "version", "weights", "source", "owner", "state", "reason")
    ),
    sa.Column("admitted_at", sa.Double, nullable=False),
    sa.Column("facts", **TEXT),
)
_FILES = sa.Table(
    "files",
    _META,
    sa.Column("version", sa.Text, primary_key=True),
    sa.Column("content", sa.LargeBinary, nullable=False),
)
_ROUNDS = sa.Table(
    "rounds",
    _META,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("planned_at", sa.Double, nullable=False),
    sa.Column("closed_at", sa.Double),
)
_QUEUE = sa.Table(
    "queue",
    _META,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("round", **NUMBER),
    *(sa.Column(name, **TEXT) for name in ("player_a", "player_b")),
    sa.Column("seed", **NUMBER),
    sa.Column("state", **TEXT),
    sa.Column("worker", sa.Text),
    sa.Column("claimed_at", sa.Double),
    sa.Column("reason", sa.Text),
)


@dataclass(frozen=True)
class Entrant:
    """A player of an arena. It never changes: another version of a file is another player."""

    name: str  #: ``str(Player)``.
    kind: str  #: A `sb3_pvp.arena.challenge.Kind`.
    opponent: str  #: Name of its file; of a script its name in the game.
    version: str  #: SHA-256 of the file; of a script its name.
    weights: str  #: Equal for players that decide alike, whatever else is in their files.
    source: str  #: Where it came from: a path, or a repository at a commit.
    owner: str = ""
    state: str = ACTIVE
    reason: str = ""  #: Why it may not play (any more).
    admitted_at: float = 0.0  #: Unix time in seconds.
    #: What else is known: ``algorithm``, ``steps``, ``tags``, ``hyperparameters``, ``exploitability``, ``report``.
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class QueuedMatch:
    """A match that is to be played."""

    key: str  #: Unique; the keys of its fights in the log begin with it.
    round: int
    player_a: str
    player_b: str
    seed: int  #: Of its first pair of fights; the next ones follow.
    reason: str | None = None  #: Why it could not be played.


class Store:
    """Players, rounds and the queue of an arena; shared by any number of threads and processes.

    Args:
        path: of an SQLite file, which is created if missing, or the URL of a PostgreSQL database.

    Raises:
        ValueError: if it is another file.
        OSError: if it cannot be read or written.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = path
        process = f"{platform.node()}:{os.getpid()}:{psutil.Process().create_time():.0f}"
        self._worker = f"{process}:{secrets.token_hex(4)}"  # a process may have several
        with self._reading() as connection:
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA journal_mode = WAL")
        with self._writing() as connection:
            _META.create_all(connection)
            version = connection.execute(sa.select(_FACTS.c.value).where(_FACTS.c.name == "version")).scalar()
            if version is None:
                connection.execute(_FACTS.insert(), {"name": "version", "value": str(_VERSION)})
            elif version != str(_VERSION):
                raise ValueError(f"{path} is a store of version {version}: use the sb3_pvp that wrote it")

    def fact(self, name: str) -> str | None:
        """Returns a text kept with `set_fact`."""
        with self._reading() as connection:
            value = connection.execute(sa.select(_FACTS.c.value).where(_FACTS.c.name == name)).scalar()
        return None if value is None else str(value)

    def set_fact(self, name: str, value: str, replace: bool = True) -> None:
        """Keeps a text under a name."""
        with self._writing() as connection:
            known = connection.execute(sa.select(_FACTS.c.value).where(_FACTS.c.name == name)).scalar()
            if known is None or replace:
                connection.execute(_FACTS.delete().where(_FACTS.c.name == name))
                connection.execute(_FACTS.insert(), {"name": name, "value": value})

    def players(self, state: str | None = None) -> list[Entrant]:
        """Returns all players, or those in a state, sorted by name."""
        query = sa.select(_PLAYERS).order_by(_PLAYERS.c.name)
        query = query if state is None else query.where(_PLAYERS.c.state == state)
        with self._reading() as connection:
            rows = [*connection.execute(query).mappings()]
        return [Entrant(**{**row, "facts": orjson.loads(row["facts"])}) for row in rows]

    def add(self, player: Entrant, content: bytes | None = None) -> Entrant | None:
        """Adds a player with its file, which is not kept of one that is refused, or replaces one that was refused.

        Returns the active player that is in the way, of the same name or weights, and adds nothing then.
        """
        with self._writing() as connection:
            same = (_PLAYERS.c.weights == player.weights) & (player.state == ACTIVE)
            others = (_PLAYERS.c.state != REFUSED) & (same | (_PLAYERS.c.name == player.name))
            twin = connection.execute(sa.select(_PLAYERS).where(others)).mappings().fetchone()
            if twin is not None:
                return Entrant(**{**twin, "facts": orjson.loads(twin["facts"])})
            row = {**asdict(player), "facts": orjson.dumps(dict(player.facts)).decode(), "admitted_at": time.time()}
            connection.execute(_PLAYERS.delete().where(_PLAYERS.c.name == player.name))
            connection.execute(_PLAYERS.insert(), row)
            known = connection.execute(sa.select(_FILES.c.version).where(_FILES.c.version == player.version)).scalar()
            if content is not None and known is None and player.state == ACTIVE:
                connection.execute(_FILES.insert(), {"version": player.version, "content": content})
        return None

    def file(self, version: str) -> bytes:
        """Returns the content of a player's file; raises `ValueError` if it is missing, or not that of then."""
        with self._reading() as connection:
            content = connection.execute(sa.select(_FILES.c.content).where(_FILES.c.version == version)).scalar()
        if content is None or hashlib.sha256(content).hexdigest() != version:
            raise ValueError("its file has changed since it was admitted" if content else "its file is gone")
        return bytes(content)

    def set_state(self, name: str, state: str, reason: str) -> None:
        """Changes the state of a player, which is not chosen any more unless it is active."""
        with self._writing() as connection:
            connection.execute(_PLAYERS.update().where(_PLAYERS.c.name == name).values(state=state, reason=reason))

    def open_round(self) -> int | None:
        """Returns the number of the round that is not over yet, if there is one."""
        query = sa.select(_ROUNDS.c.number).where(_ROUNDS.c.closed_at.is_(None)).order_by(_ROUNDS.c.number).limit(1)
        with self._reading() as connection:
            number = connection.execute(query).scalar()
        return None if number is None else int(number)

    def plan(self, after: int, matches: Sequence[tuple[str, str, int]]) -> int:
        """Begins a round with these matches, two players and a seed each; returns its number.

        If another arena has begun one meanwhile, its number is returned and nothing is planned. ``after`` is the number
        of the newest round in the log.
        """
        with self._writing() as connection:
            newest = connection.execute(sa.select(sa.func.max(_ROUNDS.c.number))).scalar() or 0
            unfinished = sa.select(_ROUNDS.c.number).where(_ROUNDS.c.closed_at.is_(None)).limit(1)
            if (number := connection.execute(unfinished).scalar()) is not None:
                return int(number)
            number = max(int(newest), after) + 1
            connection.execute(_ROUNDS.insert(), {"number": number, "planned_at": time.time()})
            rows = [
                {"key": f"round-{number}/match-{n}", "round": number, "player_a": a, "player_b": b, "seed": seed}
                for n, (a, b, seed) in enumerate(matches, 1)
            ]
            if rows:
                connection.execute(_QUEUE.insert(), [{**row, "state": QUEUED} for row in rows])
        return number

    def claim(self, count: int) -> list[QueuedMatch]:
        """Takes at most ``count`` matches that nobody plays, also those of arenas that have died or are silent."""
        with self._writing() as connection:
            taken = sa.select(_QUEUE.c.worker, sa.func.max(_QUEUE.c.claimed_at)).where(_QUEUE.c.state == RUNNING)
            owners = connection.execute(taken.group_by(_QUEUE.c.worker)).fetchall()
            dead = [worker for worker, at in owners if at < time.time() - LEASE or self._has_died(str(worker))]
            free = (_QUEUE.c.state == QUEUED) | ((_QUEUE.c.state == RUNNING) & _QUEUE.c.worker.in_(dead))
            query = sa.select(_QUEUE).where(free).order_by(_QUEUE.c.round, _QUEUE.c.player_a, _QUEUE.c.player_b)
            rows = [*connection.execute(query.limit(count)).mappings()]
            claimed = {"state": RUNNING, "worker": self._worker, "claimed_at": time.time()}
            keys = [row["key"] for row in rows]
            connection.execute(_QUEUE.update().where(_QUEUE.c.key.in_(keys)).values(claimed))
        names = QueuedMatch.__dataclass_fields__
        return [QueuedMatch(**{name: row[name] for name in names}) for row in rows]

    def release(self) -> None:
        """Gives back all matches that were claimed here and are not over."""
        mine = (_QUEUE.c.worker == self._worker) & (_QUEUE.c.state == RUNNING)
        with self._writing() as connection:
            connection.execute(_QUEUE.update().where(mine).values(state=QUEUED, worker=None))

    def still_here(self) -> None:
        """Renews the lease of all matches that this process has claimed."""
        mine = (_QUEUE.c.worker == self._worker) & (_QUEUE.c.state == RUNNING)
        with self._writing() as connection:
            connection.execute(_QUEUE.update().where(mine).values(claimed_at=time.time()))

    def done(self, keys: Iterable[str]) -> None:
        """Removes matches that are in the log from the queue."""
        with self._writing() as connection:
            connection.execute(_QUEUE.delete().where(_QUEUE.c.key.in_([*keys])))

    def failed(self, key: str, reason: str) -> None:
        """Gives up a match that cannot be played."""
        with self._writing() as connection:
            connection.execute(_QUEUE.update().where(_QUEUE.c.key == key).values(state=FAILED, reason=reason))

    def waiting(self, state: str | None = None) -> list[QueuedMatch]:
        """Returns the matches of the queue, or those in a state, in the order of their keys."""
        query = sa.select(_QUEUE).order_by(_QUEUE.c.round, _QUEUE.c.key)
        query = query if state is None else query.where(_QUEUE.c.state == state)
        with self._reading() as connection:
            rows = [*connection.execute(query).mappings()]
        return [QueuedMatch(**{name: row[name] for name in QueuedMatch.__dataclass_fields__}) for row in rows]

    def close_round(self, number: int) -> bool:
        """Ends a round if all of its matches have been played or given up; returns whether it is over."""
        left = sa.select(sa.func.count()).where((_QUEUE.c.round == number) & (_QUEUE.c.state != FAILED))
        with self._writing() as connection:
            if connection.execute(left).scalar():
                return False
            now = {"closed_at": time.time()}
            connection.execute(
                _ROUNDS.update().where((_ROUNDS.c.number == number) & _ROUNDS.c.closed_at.is_(None)).values(now)
            )
        return True

    def _has_died(self, worker: str) -> bool:
        """Whether a process has ended, as far as this machine can tell."""
        host, pid, started, _ = worker.rsplit(":", 3)
        if host != platform.node():
            return False
        try:
            return abs(psutil.Process(int(pid)).create_time() - float(started)) > 1
        except psutil.NoSuchProcess:
            return True

    def _reading(self) -> AbstractContextManager[sa.Connection]:
        return connected(self._path, "store of an arena")

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        """A transaction that nobody else writes beside."""
        with self._reading() as connection, writing(connection, _LOCK):
            yield connection
