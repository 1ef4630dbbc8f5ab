"""Studies that any number of processes work on, of which each may be killed at any moment."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import optuna
from filelock import FileLock, Timeout
from optuna.exceptions import OptunaError
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState
from pydantic import BaseModel
from sqlalchemy import Engine, NullPool, create_engine, text
from sqlalchemy.exc import SQLAlchemyError

from sb3_pvp.common.errors import Refusal, refusals
from sb3_pvp.common.names import require_known
from sb3_pvp.presets.presets import renamed
from sb3_pvp.zoo.sweeps.space import Block, Space, own_values

#: The attribute of a study with its `Settings`.
SETTINGS = "sb3_pvp"
#: Attributes of a trial: its seed, the process that runs it, how often it was begun before, and which trial that was.
SEED, PROCESS, ATTEMPTS, RETRY_OF = "seed", "process", "attempts", "retry_of"
#: What has ended its process so often is not tried again.
MAX_ATTEMPTS = 3
#: The lock around what only one process at a time may do; all others belong to processes, as long as they live.
EXCLUSIVE = "exclusive"


class Locks:
    """Locks that end with the process that holds them: files in a folder, or those of a PostgreSQL database.

    With neither, they are for a storage that nobody else can see.
    """

    def __init__(self, folder: Path | None = None, database: Engine | None = None) -> None:
        self._folder, self._database = folder, database

    @contextmanager
    def held(self, name: str, wait: bool = True) -> Iterator[bool]:
        """Holds a lock; without ``wait`` only if it is free, which is the value."""
        if self._database is not None:
            # The locks of a database have numbers, and are shared by all that uses it.
            function = "pg_advisory_lock" if wait else "pg_try_advisory_lock"
            take = text(f"SELECT {function}(hashtextextended(:name, 0))")
            with self._database.connect() as connection:
                yield connection.execute(take, {"name": f"sb3_pvp sweep {name}"}).scalar() is not False
        elif self._folder is not None:
            try:
                with FileLock(self._folder / name, timeout=-1 if wait else 0):
                    yield True
                    if name != EXCLUSIVE:  # nobody waits for another one
                        (self._folder / name).unlink(missing_ok=True)
            except Timeout:
                yield False
        else:
            yield wait

    def is_alive(self, process: str) -> bool:
        """Whether a process holds the lock of that name."""
        with self.held(process, wait=False) as was_free:
            return not was_free


def open_storage(storage: str | None, must_exist: bool = False) -> tuple[BaseStorage, Locks]:
    """The storage with that name, ``None`` for one in memory, and its locks; raises `Refusal` if it cannot be opened.

    A file that is not there is made, unless it ``must_exist`` because it is only read.
    """
    if storage is None:
        return InMemoryStorage(), Locks()
    kind, _, place = storage.partition("://")
    connect: dict[str, Any]
    is_journal = storage.endswith(".log") and not place
    without_password = storage.rpartition("@")[2]
    with refusals(SQLAlchemyError, OptunaError, KeyError, about=f"cannot open the storage {without_password}"):
        if is_journal or (kind == "sqlite" and place not in ("", "/", "/:memory:")):
            file = Path(storage if is_journal else place[1:].partition("?")[0])
            if must_exist and not file.is_file():
                raise Refusal(f"there is no file {file}")
            file.parent.mkdir(parents=True, exist_ok=True)
            url, connect = storage, {"timeout": 60}  # seconds, while another process writes
            locks = Locks(folder=Path(f"{file.absolute()}.processes"))
            if is_journal:
                return _journal(file.absolute(), must_exist), locks
        elif kind in ("postgresql", "postgres", "postgresql+psycopg"):
            if find_spec("psycopg") is None:
                raise Refusal('PostgreSQL needs a driver: pip install "sb3-pvp[postgres]"')
            # The server notices within minutes that an address has gone silent, and lets go of its locks.
            alive = "-c tcp_keepalives_idle=60 -c tcp_keepalives_interval=20 -c tcp_keepalives_count=3"
            url, connect = f"postgresql+psycopg://{place}", {"options": alive}
            engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect_args=connect)
            locks = Locks(database=engine)
        else:
            raise Refusal(
                f"--storage must be a journal such as sweep.log, sqlite:///sweep.db or "
                f"postgresql://user@host/name, got {storage!r}"
            )
        with nullcontext() if must_exist else locks.held(EXCLUSIVE):  # two processes must not make the same tables
            return RDBStorage(url, engine_kwargs={"connect_args": connect}), locks


def find_study(storage: str, name: str | None) -> tuple[optuna.Study, Locks]:
    """The study of that name, ``None`` for the only one, and its locks; raises `Refusal` if that is none."""
    opened, locks = open_storage(storage, must_exist=True)
    names = optuna.get_all_study_names(opened)
    if not name and len(names) != 1:
        which = f"which study? Give --study-name, one of: {', '.join(names)}"
        raise Refusal(which if names else "there is no study in that storage")
    with refusals():
        require_known("study", name or names[0], names)
    return optuna.load_study(study_name=name or names[0], storage=opened), locks


def find_trial(study: optuna.Study, number: int | None) -> FrozenTrial:
    """The trial of that number, ``None`` for the best one; raises `Refusal` if there is none."""
    if number is None:
        try:
            return study.best_trial
        except ValueError:
            raise Refusal(f"no trial of study {study.study_name!r} has come to its end yet") from None
    trials = study.get_trials(deepcopy=False)
    if not 0 <= number < len(trials):
        has = f"trials 0 to {len(trials) - 1}" if trials else "no trials"
        raise Refusal(f"study {study.study_name!r} has no trial {number}, it has {has}")
    return trials[number]


class Settings(BaseModel, frozen=True, extra="forbid"):
    """What all trials of a study have in common; kept with it as JSON."""

    version: Literal[1] = 1
    algo: str
    env_id: str
    n_timesteps: int
    block: Block  #: The hyperparameters that are not varied, and those that the varied ones replace.
    space: Space  #: What is varied.
    measure: dict[str, Any]
    seed: int  #: From which those of the trials follow.


def read_settings(study: optuna.Study) -> Settings:
    """The settings of a study; raises `Refusal` if it is not one of these."""
    with refusals(about=f"study {study.study_name!r} was not begun by this version of sb3_pvp"):
        return Settings.model_validate(renamed(study.user_attrs.get(SETTINGS)))


def is_abandoned(trial: FrozenTrial, locks: Locks) -> bool:
    """Whether a trial still counts as running although its process is gone: the next process tries it again."""
    process = trial.user_attrs.get(PROCESS)
    return trial.state is TrialState.RUNNING and process is not None and not locks.is_alive(process)


class TrialQueue:
    """Hands out the trials of a study, one at a time, until all processes together have done ``n_trials``.

    No trial is lost: those of processes that are gone are failed, which do not count, and their parameters are tried
    again. None is done twice. What is drawn follows from the study's seed, the trial's number and the trials before it,
    so that a study goes on after a stop as it would have without. Optuna's own callback for retries needs heartbeats,
    which journals do not have and which let minutes pass until a process counts as gone; and its ``optimize`` counts
    the trials of one process only.

    A new study is begun with these settings; its first trial has the configuration's own values, where they are in the
    space. ``sampler`` makes one with a seed. Raises `Refusal` if a study has other settings: only the seed may differ,
    and is that of the beginning then.
    """

    def __init__(
        self, name: str, storage: str | None, settings: Settings, n_trials: int, sampler: Callable[[int], BaseSampler]
    ) -> None:
        opened, self.locks = open_storage(storage)
        with self.locks.held(EXCLUSIVE):
            is_known = name in optuna.get_all_study_names(opened)  # else Optuna would say that it is
            begin = optuna.load_study if is_known else partial(optuna.create_study, direction="maximize")
            self.study = begin(study_name=name, storage=opened)
            is_empty = not self._trials()
            if is_empty and SETTINGS not in self.study.user_attrs:  # new, or killed before it had them
                self.study.set_user_attr(SETTINGS, settings.model_dump(mode="json"))
            begun = read_settings(self.study)
            if is_empty and (own := own_values(begun.space, begun.block, begun.n_timesteps)):
                self.study.enqueue_trial(own)
        then, wanted = (each.model_dump(mode="json", exclude={"seed"}) for each in (begun, settings))
        for path, before, now in _differences(then, wanted):
            raise Refusal(f"study {name!r} was begun with {path} = {before!r}, not {now!r}: give another --study-name")
        self._seed, self.n_trials, self._sampler = begun.seed, n_trials, sampler
        self._distributions = {name: each.distribution() for name, each in settings.space.items()}
        self._process = uuid.uuid4().hex

    def working(self) -> AbstractContextManager[bool]:
        """Around the work of this process."""
        return self.locks.held(self._process)

    def take(self) -> optuna.Trial | None:
        """The next trial, with its parameters drawn; ``None`` if as many as were asked for are done or being done."""
        with self.locks.held(EXCLUSIVE):
            self._retry_abandoned()
            trials = self._trials()
            waiting = any(trial.state is TrialState.WAITING for trial in trials)
            if not waiting and sum(trial.state is not TrialState.FAIL for trial in trials) >= self.n_trials:
                return None
            # A sampler of its own: after a stop, and in every process, others would begin with the same random numbers.
            self.study.sampler = self._sampler(derived_seed(self._seed, len(trials), "sampler"))
            trial = self.study.ask(self._distributions)
            trial.set_user_attr(PROCESS, self._process)
            if SEED not in trial.user_attrs:
                trial.set_user_attr(SEED, derived_seed(self._seed, trial.number, "trial"))
            return trial

    def is_lost(self, trial: optuna.Trial) -> bool:
        """Whether another process took the trial for lost, so that it is tried again there: this result is nothing."""
        return self._trials()[trial.number].state is TrialState.FAIL

    def give_back(self, trial: optuna.Trial) -> None:
        """Lets the parameters of a trial that was interrupted be tried again."""
        with self.locks.held(EXCLUSIVE):
            frozen = self._trials()[trial.number]
            if frozen.state is TrialState.RUNNING:  # and nobody took it for lost
                self._retry(frozen)

    def _trials(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False)

    def _retry_abandoned(self) -> None:
        # Who has the lock sees a trial of nobody only if its process was killed before it told whose that is.
        running = [trial for trial in self._trials() if trial.state is TrialState.RUNNING]
        left = [each.number for each in running if PROCESS not in each.user_attrs or is_abandoned(each, self.locks)]
        # The last that a process did before it was gone may have been to finish its trial: it is time to look again.
        for trial in self._trials() if left else []:
            if trial.number in left and trial.state is TrialState.RUNNING:
                self._retry(trial)

    def _retry(self, trial: FrozenTrial) -> None:
        """Lets a trial be tried again, and then fails it: whoever is killed in between has lost and doubled nothing."""
        attempts = trial.user_attrs.get(ATTEMPTS, 0) + 1
        # Whoever was killed while it drew has perhaps not kept all of it, nor anything else.
        params = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
        is_queued = any(each.user_attrs.get(RETRY_OF) == trial.number for each in self._trials())
        if params and attempts < MAX_ATTEMPTS and not is_queued:
            kept = {key: value for key, value in trial.user_attrs.items() if key != PROCESS}
            self.study.enqueue_trial(params, user_attrs={**kept, ATTEMPTS: attempts, RETRY_OF: trial.number})
        self.study.tell(trial.number, state=TrialState.FAIL)


def derived_seed(seed: int, number: int, purpose: str) -> int:
    """A seed below 2**31 for one purpose in the trial of that number."""
    return int(np.random.SeedSequence([seed, number, *purpose.encode()]).generate_state(1)[0] >> 1)


def _differences(before: Any, now: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            yield from _differences(before.get(key), now.get(key), f"{path}.{key}" if path else str(key))
    elif before != now:
        yield path, before, now


def _journal(path: Path, is_read_only: bool) -> JournalStorage:
    """A journal, without the rest of a record that was not written to its end: Optuna would never read on from there.

    Raises `ValueError` for a file that is no journal; a new one may end in the middle of its first record.
    """
    content = path.read_bytes() if path.exists() else b""
    if not (record := b'{"op_code"').startswith(content[: len(record)]):  # so begins every one
        raise ValueError("the file is something else, no journal of a study; it stays as it is")
    # Optuna's own locks for this outlive a process that is killed by 30 seconds.
    lock: Any = FileLock(f"{path}.processes/writing")
    if content and not is_read_only:
        with lock, path.open("rb+") as file:
            file.truncate(file.read().rfind(b"\n") + 1)
    return JournalStorage(JournalFileBackend(str(path), lock))
