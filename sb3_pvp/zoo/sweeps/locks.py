"""Locks by which the processes of a study know who is still alive: a lock ends with the process that holds it.

Optuna's heartbeats are for databases only, and let minutes pass until a process counts as gone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import sqlalchemy
from filelock import FileLock, Timeout

#: The lock around what only one process at a time may do; all others belong to processes, as long as they live.
EXCLUSIVE = "exclusive"


class Locks:
    """For a storage that nobody else can see; others have locks that are held indeed."""

    def held(self, name: str, wait: bool = True) -> AbstractContextManager[bool]:
        """Holds a lock; without ``wait`` only if it is free, which is the value."""
        return nullcontext(wait)

    def is_alive(self, name: str) -> bool:
        """Whether a process holds the lock of that name."""
        with self.held(name, wait=False) as was_free:
            return not was_free


class FileLocks(Locks):
    """Locks on files beside the file of the storage, in a folder of their own."""

    def __init__(self, storage: Path) -> None:
        self._folder = storage.with_name(f"{storage.name}.processes")

    @contextmanager
    def held(self, name: str, wait: bool = True) -> Iterator[bool]:
        """Holds a lock; without ``wait`` only if it is free, which is the value."""
        try:
            with FileLock(self._folder / name, timeout=-1 if wait else 0):
                yield True
                if name != EXCLUSIVE:  # nobody waits for another one
                    (self._folder / name).unlink(missing_ok=True)
        except Timeout:
            yield False

    def of_journal(self) -> FileLock:
        """The lock to write to a journal; Optuna's own ones outlive a process that is killed by 30 seconds."""
        return FileLock(self._folder / "writing")


class PostgresLocks(Locks):
    """Advisory locks of the database, held by connections that do nothing else."""

    def __init__(self, url: sqlalchemy.URL) -> None:
        # An address that has gone silent is noticed within minutes, so that the server lets go of its locks.
        alive = {"options": "-c tcp_keepalives_idle=60 -c tcp_keepalives_interval=20 -c tcp_keepalives_count=3"}
        self._engine = sqlalchemy.create_engine(
            url, isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.pool.NullPool, connect_args=alive
        )

    @contextmanager
    def held(self, name: str, wait: bool = True) -> Iterator[bool]:
        """Holds a lock; without ``wait`` only if it is free, which is the value."""
        # The locks of a database have numbers, and are shared by all that uses it.
        digest = hashlib.sha256(f"sb3_pvp sweep {name}".encode()).digest()
        number = int.from_bytes(digest[:8], "big", signed=True)
        take = sqlalchemy.func.pg_advisory_lock if wait else sqlalchemy.func.pg_try_advisory_lock
        with self._engine.connect() as connection:
            taken = connection.execute(sqlalchemy.select(take(number))).scalar()
            yield wait or bool(taken)
