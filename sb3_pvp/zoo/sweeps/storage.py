"""Where studies are kept: a journal (``sweep.log``), SQLite (``sqlite:///sweep.db``) or PostgreSQL
(``postgresql://user@host/name``); and the locks by which the processes of a study know who is still alive.

A lock ends with the process that holds it. Optuna's heartbeats are for databases only, and let minutes pass until a
process counts as gone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy
from filelock import FileLock, Timeout
from optuna.exceptions import OptunaError
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial
from sqlalchemy.exc import SQLAlchemyError

from sb3_pvp.common.errors import Refusal, refusals
from sb3_pvp.common.names import require_known

_KINDS = "a journal such as sweep.log, sqlite:///sweep.db or postgresql://user@host/name"
#: Seconds for which a process waits for another one that writes to the same SQLite file.
_PATIENCE = 60
#: How every record of a journal begins.
_RECORD = b'{"op_code"'
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
        try:
            with FileLock(self._folder / name, timeout=-1 if wait else 0):
                yield True
                if name != EXCLUSIVE:  # nobody waits for another one
                    (self._folder / name).unlink(missing_ok=True)
        except Timeout:
            yield False


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
        # The locks of a database have numbers, and are shared by all that uses it.
        digest = hashlib.sha256(f"sb3_pvp sweep {name}".encode()).digest()
        number = int.from_bytes(digest[:8], "big", signed=True)
        take = sqlalchemy.func.pg_advisory_lock if wait else sqlalchemy.func.pg_try_advisory_lock
        with self._engine.connect() as connection:
            taken = connection.execute(sqlalchemy.select(take(number))).scalar()
            yield wait or bool(taken)


def open_storage(storage: str | None, must_exist: bool = False) -> tuple[BaseStorage, Locks]:
    """The storage with that name, ``None`` for one in memory, and its locks; raises `Refusal` if it cannot be opened.

    A file that is not there is made, unless it ``must_exist`` because it is only read.
    """
    if storage is None:
        return InMemoryStorage(), Locks()
    if storage.endswith(".log"):
        path = _file(storage, must_exist)
        locks = FileLocks(path)
        with refusals(KeyError, about=f"cannot open the storage {storage}"):
            # Optuna's own locks for this outlive a process that is killed by 30 seconds.
            lock: Any = FileLock(f"{path}.processes/writing")
            _mend_journal(path, lock, is_read_only=must_exist)
            return JournalStorage(JournalFileBackend(str(path), lock)), locks
    url = _url(storage)
    is_file = url.get_backend_name() == "sqlite"
    others = FileLocks(_file(url.database or "", must_exist)) if is_file else PostgresLocks(url)
    arguments = {"connect_args": {"timeout": _PATIENCE}} if is_file else {}
    shown = sqlalchemy.make_url(storage).render_as_string()  # without its password
    refused = refusals(SQLAlchemyError, OptunaError, KeyError, about=f"cannot open the storage {shown}")
    # Two processes must not make the same tables.
    with refused, nullcontext() if must_exist else others.held(EXCLUSIVE):
        return RDBStorage(url.render_as_string(hide_password=False), engine_kwargs=arguments), others


def find_study(storage: BaseStorage, name: str | None) -> optuna.Study:
    """The study of that name, ``None`` for the only one; raises `Refusal` if that is none."""
    names = optuna.get_all_study_names(storage)
    if not names:
        raise Refusal("there is no study in that storage")
    if name is None and len(names) > 1:
        raise Refusal(f"which study? Give --study-name, one of: {', '.join(names)}")
    name = name or names[0]
    with refusals():
        require_known("study", name, names)
    return optuna.load_study(study_name=name, storage=storage)


def find_trial(study: optuna.Study, number: int | None) -> FrozenTrial:
    """The trial of that number, ``None`` for the best one; raises `Refusal` if there is none."""
    trials = study.get_trials(deepcopy=False)
    if number is None:
        try:
            return study.best_trial
        except ValueError:
            raise Refusal(f"no trial of study {study.study_name!r} has come to its end yet") from None
    if not 0 <= number < len(trials):
        has = f"trials 0 to {len(trials) - 1}" if trials else "no trials"
        raise Refusal(f"study {study.study_name!r} has no trial {number}, it has {has}")
    return trials[number]


def _url(storage: str) -> sqlalchemy.URL:
    with refusals(sqlalchemy.exc.ArgumentError, about=f"--storage must be {_KINDS}, got {storage!r}"):
        url = sqlalchemy.make_url(storage)
        backend = url.get_backend_name()
        if backend == "sqlite" and url.database not in (None, "", ":memory:"):
            return url
        if backend not in ("postgresql", "postgres"):
            raise ValueError("it is something else")
    if find_spec("psycopg") is None:
        raise Refusal('PostgreSQL needs a driver: pip install "sb3-pvp[postgres]"')
    return url.set(drivername="postgresql+psycopg")


def _file(name: str, must_exist: bool) -> Path:
    path = Path(name)
    if must_exist and not path.is_file():
        raise Refusal(f"there is no file {path}")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.absolute()


def _mend_journal(path: Path, lock: FileLock, is_read_only: bool) -> None:
    """Cuts off the rest of a record that was not written to its end; Optuna would never read on from there.

    Raises `ValueError` for a file that is no journal; a new one may end in the middle of its first record.
    """
    content = path.read_bytes() if path.exists() else b""
    if not _RECORD.startswith(content[: len(_RECORD)]):
        raise ValueError("the file is something else, no journal of a study; it stays as it is")
    if content and not is_read_only:
        with lock, path.open("rb+") as file:
            file.truncate(file.read().rfind(b"\n") + 1)
