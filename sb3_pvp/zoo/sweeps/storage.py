"""Where studies are kept: a journal (``sweep.log``), SQLite (``sqlite:///sweep.db``) or PostgreSQL
(``postgresql://user@host/name``).
"""

from __future__ import annotations

from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

import optuna
import sqlalchemy
from filelock import FileLock
from optuna.exceptions import OptunaError
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial
from sqlalchemy.exc import SQLAlchemyError

from sb3_pvp.common.errors import Refusal, refusals
from sb3_pvp.common.names import require_known
from sb3_pvp.zoo.sweeps.locks import EXCLUSIVE, FileLocks, Locks, PostgresLocks

_KINDS = "a journal such as sweep.log, sqlite:///sweep.db or postgresql://user@host/name"
#: Seconds for which a process waits for another one that writes to the same SQLite file.
_PATIENCE = 60
#: How every record of a journal begins.
_RECORD = b'{"op_code"'


def open_storage(storage: str | None, must_exist: bool = False) -> tuple[BaseStorage, Locks]:
    """The storage with that name, ``None`` for one in memory, and its locks.

    Args:
        storage: see above.
        must_exist: only read; else a file that is not there is made.

    Raises:
        Refusal: for what cannot be opened.
    """
    if storage is None:
        return InMemoryStorage(), Locks()
    if storage.endswith(".log"):
        path = _file(storage, must_exist)
        locks = FileLocks(path)
        with refusals(KeyError, about=f"cannot open the storage {storage}"):
            _check_journal(path)
            if not must_exist:
                _drop_torn_line(path, locks.of_journal())
            # Whatever has `acquire` and `release` will do.
            return JournalStorage(JournalFileBackend(str(path), locks.of_journal())), locks  # type: ignore[arg-type]
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


def _check_journal(path: Path) -> None:
    """Raises `ValueError` for a file that is no journal; a new one may end in the middle of its first record."""
    if path.exists() and not _RECORD.startswith(path.read_bytes()[: len(_RECORD)]):
        raise ValueError("the file is something else, no journal of a study; it stays as it is")


def _drop_torn_line(path: Path, lock: FileLock) -> None:
    """Cuts off the rest of a record that was not written to its end; Optuna would never read on from there."""
    if path.is_file() and path.stat().st_size:
        with lock, path.open("rb+") as file:
            file.truncate(file.read().rfind(b"\n") + 1)
