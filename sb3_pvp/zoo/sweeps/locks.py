"""Locks by which the processes of a study know who is still alive.

A lock ends with the process that holds it, however that ends: so nobody waits for the dead, and no clock or process
number has to be trusted. For files they are locks of the operating system; PostgreSQL has its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import sqlalchemy

from sb3_pvp.common.file_locks import lock


class Locks(Protocol):
    """Locks that processes hold as long as they live."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Around what only one process at a time may do."""

    def join(self) -> str:
        """A name for this process, whose lock it holds from now on."""

    def is_alive(self, name: str) -> bool:
        """Whether a process holds the lock of that name."""

    def leave(self) -> None:
        """Gives up the lock of `join`."""


class NoLocks:
    """For a storage that nobody else can see."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Nothing to wait for."""
        return contextlib.nullcontext()

    def join(self) -> str:
        """A name."""
        return "only"

    def is_alive(self, name: str) -> bool:
        """This process is."""
        return True

    def leave(self) -> None:
        """Nothing to give up."""


class FileLocks:
    """Locks on files beside the file of the storage, in a folder of their own.

    Where the system has no such locks nobody is kept out, and nobody is ever found dead.
    """

    def __init__(self, storage: Path) -> None:
        self._folder = _folder_of(storage)
        self._own: tuple[Path, IO[str]] | None = None

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Around what only one process at a time may do."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "exclusive").open("a") as file:
            _lock(file, wait=True)
            yield

    def join(self) -> str:
        """A name for this process, whose lock it holds from now on."""
        path = self._folder / uuid.uuid4().hex
        file = path.open("x")
        _lock(file, wait=True)
        self._own = path, file
        return path.name

    def is_alive(self, name: str) -> bool:
        """Whether a process holds the lock of that name."""
        path = self._folder / name
        if self._own is not None and self._own[0] == path:
            return True
        try:
            with path.open("r+") as file:
                if not _lock(file, wait=False):
                    return True
                path.unlink(missing_ok=True)
        except FileNotFoundError:
            pass
        return False

    def leave(self) -> None:
        """Gives up the lock of `join`."""
        if self._own is not None:
            path, file = self._own
            path.unlink(missing_ok=True)
            file.close()
            self._own = None


class JournalLock:
    """The lock under which Optuna writes to a journal: its own ones outlive a process that is killed by 30 seconds."""

    def __init__(self, journal: Path) -> None:
        self._path = _folder_of(journal) / "writing"
        self._file: IO[str] | None = None

    def acquire(self) -> bool:
        """Waits for the lock."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("a")
        return _lock(self._file, wait=True)

    def release(self) -> None:
        """Gives it up."""
        assert self._file is not None
        self._file.close()


class PostgresLocks:
    """Advisory locks of the database, held by a connection that does nothing else."""

    def __init__(self, url: sqlalchemy.URL) -> None:
        # An address that has gone silent is noticed within minutes, so that the server lets go of its locks.
        alive = {"options": "-c tcp_keepalives_idle=60 -c tcp_keepalives_interval=20 -c tcp_keepalives_count=3"}
        self._engine = sqlalchemy.create_engine(
            url, isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.pool.NullPool, connect_args=alive
        )
        self._own: tuple[str, sqlalchemy.Connection] | None = None

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Around what only one process at a time may do."""
        with self._engine.connect() as connection:
            _postgres(connection, "pg_advisory_lock", "exclusive")
            yield

    def join(self) -> str:
        """A name for this process, whose lock it holds from now on."""
        self._own = uuid.uuid4().hex, self._engine.connect()
        _postgres(self._own[1], "pg_advisory_lock", self._own[0])
        return self._own[0]

    def is_alive(self, name: str) -> bool:
        """Whether a process holds the lock of that name."""
        if self._own is not None and self._own[0] == name:
            return True
        with self._engine.connect() as connection:
            return not _postgres(connection, "pg_try_advisory_lock", name)

    def leave(self) -> None:
        """Gives up the lock of `join`."""
        if self._own is not None:
            self._own[1].close()
            self._own = None


def _folder_of(storage: Path) -> Path:
    return storage.with_name(f"{storage.name}.processes")


def _lock(file: IO[Any], wait: bool) -> bool:
    try:
        return lock(file, wait)
    except ImportError:  # see `FileLocks`
        return wait


def _postgres(connection: sqlalchemy.Connection, function: str, name: str) -> bool:
    # The locks of a database have numbers, and are shared by all that uses it.
    digest = hashlib.sha256(f"sb3_pvp sweep {name}".encode()).digest()
    number = int.from_bytes(digest[:8], "big", signed=True)
    return bool(connection.execute(sqlalchemy.select(getattr(sqlalchemy.func, function)(number))).scalar())
