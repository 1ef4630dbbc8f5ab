"""Optuna studies shared by several processes, each of which may be killed at any time."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import optuna
import yaml
from filelock import FileLock, Timeout
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState
from pydantic import BaseModel
from sqlalchemy import Engine, NullPool, create_engine, inspect, text

from sb3_pvp.algorithms.presets import with_current_names
from sb3_pvp.common.databases import postgresql_url
from sb3_pvp.common.errors import Refusal, refusals, require_known, without_password
from sb3_pvp.zoo.sweeps.space import Block, Space, hyperparameters, own_values

#: The attribute of a study with its `StudySettings`.
SETTINGS = "sb3_pvp"
#: Attributes of a trial: its seed, its process, the number of earlier attempts, the trial that it repeats, and its
#: length in steps.
SEED, PROCESS, ATTEMPTS, RETRY_OF, STEPS = "seed", "process", "attempts", "retry_of", "steps"
#: Parameters are not tried more often than this: they may be what kills the processes.
MAX_ATTEMPTS = 3
#: The name of the lock for changing a study. Every other lock belongs to a process, which holds it while it lives.
EXCLUSIVE = "exclusive"


class Locks:
    """Locks that end with the process that holds them: files in a folder, or advisory locks of a PostgreSQL database.

    Not Optuna's heartbeats: journals do not support them, and a dead process is noticed only after minutes.
    """

    def __init__(self, place: Path | Engine) -> None:
        self._place = place

    @contextmanager
    def acquire(self, name: str, wait: bool = True) -> Iterator[bool]:
        """Holds a lock in this context; without ``wait`` only if it is free. Yields whether it is held."""
        if isinstance(self._place, Path):
            file = self._place / name
            try:
                with FileLock(file, timeout=-1 if wait else 0):
                    yield True
                    if name != EXCLUSIVE:  # safe to delete, since no process waits for it
                        file.unlink(missing_ok=True)
            except Timeout:
                yield False
            return
        # Advisory locks are 64-bit numbers, shared by all applications that use the database.
        function = "pg_advisory_lock" if wait else "pg_try_advisory_lock"
        query = text(f"SELECT {function}(hashtextextended(:name, 0))")
        with self._place.connect() as connection:
            yield connection.execute(query, {"name": f"sb3_pvp sweep {name}"}).scalar() is not False

    def is_alive(self, process: str) -> bool:
        """Whether the process that holds the lock of this name is alive."""
        with self.acquire(process, wait=False) as was_free:
            return not was_free


def open_storage(storage: str, must_exist: bool = False) -> tuple[BaseStorage, Locks]:
    """Opens a storage by name or url; returns it with its locks.

    A missing file is created, unless it ``must_exist``, which only reads. Raises `Refusal` if the storage cannot be
    opened; one that is not of this version of Optuna stays as it is.
    """
    kind, _, place = storage.partition("://")
    is_journal = storage.endswith(".log") and not place
    shown = without_password(storage if place else storage.rpartition("@")[2])
    connect: dict[str, Any]
    with refusals(Exception, about=f"cannot open the storage {shown}"):  # a damaged one may raise anything
        if is_journal or (kind == "sqlite" and place not in ("", "/", "/:memory:")):
            file = Path(storage if is_journal else place[1:].partition("?")[0]).absolute()
            if must_exist and not file.is_file():
                raise Refusal(f"there is no file {storage if is_journal else place[1:]}")
            file.parent.mkdir(parents=True, exist_ok=True)
            locks = Locks(Path(f"{file}.processes"))
            if is_journal:
                return _open_journal(file, must_exist), locks
            url, connect = storage, {"timeout": 60}  # seconds, while another process writes
        elif kind in ("postgresql", "postgres", "postgresql+psycopg"):
            # With keepalives the server releases the locks of a machine that disappears, after two minutes.
            alive = "-c tcp_keepalives_idle=60 -c tcp_keepalives_interval=20 -c tcp_keepalives_count=3"
            url = postgresql_url(f"postgresql://{place}").render_as_string(hide_password=False)
            connect = {"options": alive}
            locks = Locks(create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect_args=connect))
        else:
            raise Refusal(
                f"--storage must be a journal such as sweep.log, sqlite:///sweep.db or "
                f"postgresql://user@host/name, got {shown!r}"
            )
        return _open_database(url, connect, locks, must_exist), locks


def _open_database(url: str, connect: dict[str, Any], locks: Locks, is_read_only: bool) -> RDBStorage:
    """Opens a database; Optuna would create tables and mark its version in any one, before it looks whose it is."""
    open_it = partial(RDBStorage, url, engine_kwargs={"connect_args": connect})
    if _is_whole(create_engine(url, poolclass=NullPool, connect_args=connect)):
        storage = open_it(skip_table_creation=True)  # which compares versions, and changes nothing
        if is_read_only:
            return storage
    with locks.acquire(EXCLUSIVE):  # Optuna creates missing tables: one process at a time
        return open_it()


def _is_whole(engine: Engine) -> bool:
    """Whether Optuna has all it needs there; raises `ValueError` if it is neither new nor of this version."""
    with engine.connect() as connection:
        tables = set(inspect(connection).get_table_names())
        version = text("SELECT library_version FROM version_info")
        made_by = connection.execute(version).scalar() if "version_info" in tables else None
    if tables and tables.isdisjoint({"studies", "trials", "version_info"}):
        raise ValueError(f"it is a database of something else, with the table {min(tables)}; it was not changed")
    is_whole = made_by is not None and "alembic_version" in tables
    if not is_whole and made_by not in (None, optuna.__version__):
        raise ValueError(
            f"Optuna {made_by} made it, {optuna.__version__} is installed: optuna storage upgrade --storage URL "
            "changes it for good"
        )
    return is_whole


def _open_journal(path: Path, is_read_only: bool) -> JournalStorage:
    """Opens a journal, after removing an incomplete record at its end, beyond which Optuna would not read.

    Raises `ValueError` for a file that is not a journal; it may consist of only a part of the first record.
    """
    content = path.read_bytes() if path.exists() else b""
    if not (record := b'{"op_code"').startswith(content[: len(record)]):  # each record begins like this
        raise ValueError("the file is not a journal of a study; it was not changed")
    # Optuna's own file locks block others for 30 seconds after their process was killed.
    lock: Any = FileLock(f"{path}.processes/writing")
    if content and not is_read_only:
        with lock, path.open("rb+") as file:
            file.truncate(file.read().rfind(b"\n") + 1)
    try:
        if complete := content.rpartition(b"\n")[0]:
            json.loads(complete.rpartition(b"\n")[2])  # Optuna would take the last line for a torn one
        return JournalStorage(JournalFileBackend(str(path), lock))
    except Exception as error:  # Optuna trusts each line
        raise ValueError(f"a line in it is no operation on a study: {type(error).__name__}: {error}") from error


def find_study(storage: str, name: str | None) -> tuple[optuna.Study, Locks]:
    """Returns a study, by default the only one in the storage, and its locks; raises `Refusal` if there is none."""
    opened, locks = open_storage(storage, must_exist=True)
    with refusals(Exception, about="the storage is damaged"):
        names = optuna.get_all_study_names(opened)
    if not name and len(names) != 1:
        which = f"which study? Give --study-name, one of: {', '.join(names)}"
        raise Refusal(which if names else "there is no study in that storage")
    with refusals():
        require_known("study", name or names[0], names)
    return optuna.load_study(study_name=name or names[0], storage=opened), locks


def check_existing(storage: str, study_name: str | None) -> None:
    """Raises `Refusal` if rl-zoo3's own sweep could not go on in this storage, or would change what others made."""
    file = Path(storage.removeprefix("sqlite:///").partition("?")[0])
    if file.is_file() and file.stat().st_size:
        opened, _ = open_storage(storage, must_exist=True)
        if study_name in optuna.get_all_study_names(opened):
            _require_maximised(optuna.load_study(study_name=study_name, storage=opened))


def _require_maximised(study: optuna.Study) -> None:
    if study.directions != [StudyDirection.MAXIMIZE]:
        name = study.study_name
        raise Refusal(f"study {name!r} does not maximise one value, as a sweep does: choose another --study-name")


def find_trial(study: optuna.Study, number: int | None) -> FrozenTrial:
    """Returns the trial with this number, by default the best one; raises `Refusal` if there is none."""
    if number is None:
        try:
            return study.best_trial
        except ValueError:
            raise Refusal(f"no trial of study {study.study_name!r} has been completed yet") from None
    trials = study.get_trials(deepcopy=False)
    if not 0 <= number < len(trials):
        has = f"trials 0 to {len(trials) - 1}" if trials else "no trials"
        raise Refusal(f"study {study.study_name!r} has no trial {number}, it has {has}")
    return trials[number]


class StudySettings(BaseModel, frozen=True, extra="forbid"):
    """What all trials of a study have in common; stored in the study as JSON."""

    version: Literal[1] = 1
    algo: str
    env_id: str
    n_timesteps: int
    block: Block  #: All hyperparameters; those of the search space are replaced in each trial.
    space: Space
    measure: dict[str, Any]  #: How trials are evaluated.
    seed: int  #: From which the seeds of trials are derived.


def read_settings(study: optuna.Study) -> StudySettings:
    """Returns the settings of a study; raises `Refusal` if it has none, or those of another version."""
    with refusals(Exception, about=f"study {study.study_name!r} was not created by this version of sb3_pvp"):
        return StudySettings.model_validate(with_current_names(study.user_attrs.get(SETTINGS)))


def best_configuration(
    study: optuna.Study, number: int | None = None, n_timesteps: int | None = None
) -> tuple[FrozenTrial, str]:
    """Returns a trial, by default the best one, and its complete configuration as yaml for ``train -conf``.

    The configuration is for a run of ``n_timesteps``, by default the number in the configuration of the sweep. Raises
    `Refusal` if there is no such trial, or if it has no parameters.
    """
    settings, trial = read_settings(study), find_trial(study, number)
    if not trial.params:
        raise Refusal(f"trial {trial.number} of study {study.study_name!r} ended before it had parameters")
    steps = n_timesteps or int(settings.block.get("n_timesteps", settings.n_timesteps))
    block = {**hyperparameters(trial.params, settings.space, settings.block, steps), "n_timesteps": steps}
    result = "no result" if trial.value is None else f"{trial.value:.4f}"
    trained = trial.user_attrs.get(STEPS, settings.n_timesteps)
    header = (
        f"# Trial {trial.number} of study {study.study_name}: {result} after {trained} steps, with "
        f"--algo {settings.algo} --env {settings.env_id} --seed {trial.user_attrs.get(SEED)}\n"
    )
    return trial, header + yaml.safe_dump({settings.env_id: block}, sort_keys=False)


def overview(storage: str) -> list[dict[str, Any]]:
    """Describes the trials of all studies in a storage with plain values: their ``study`` and `summary`."""
    opened, locks = open_storage(storage, must_exist=True)
    with refusals(Exception, about="the storage is damaged"):
        studies = [optuna.load_study(study_name=name, storage=opened) for name in optuna.get_all_study_names(opened)]
        return [
            {"study": study.study_name, **summary(trial, locks)}
            for study in studies
            for trial in study.get_trials(deepcopy=False)
        ]


def summary(trial: FrozenTrial, locks: Locks) -> dict[str, Any]:
    """Describes a trial with plain values; its state is one of Optuna's, or ``abandoned``, see `is_abandoned`.

    Its ``value`` is ``None`` if there is none yet, or several, as in studies of others.
    """
    return {
        "trial": trial.number,
        "state": "abandoned" if is_abandoned(trial, locks) else trial.state.name.lower(),
        "value": trial.values[0] if trial.values and len(trial.values) == 1 else None,
        "seed": trial.user_attrs.get(SEED),
        "attempts": trial.user_attrs.get(ATTEMPTS, 0) + 1,
        "took": trial.duration and str(trial.duration).split(".")[0],
        "params": trial.params,
    }


def is_abandoned(trial: FrozenTrial, locks: Locks) -> bool:
    """Whether a trial still counts as running although its process is gone; such a trial is repeated."""
    # One without a process was killed while it was started, or is just being started.
    process = trial.user_attrs.get(PROCESS)
    return trial.state is TrialState.RUNNING and process is not None and not locks.is_alive(process)


class TrialQueue:
    """Hands out the trials of a study, one at a time, until all processes together have completed ``n_trials``.

    Trials of processes that are gone are marked as failed, which does not count, and their parameters are tried again,
    by one process only. Parameters depend on the study's seed, the trial's number and the trials before it, so that a
    study that was stopped continues as it would have otherwise. Not Optuna's ``optimize``, which counts the trials of
    one process only.

    A new study is created with these settings; its first trial has the configuration's own values, as far as they are
    in the search space. An existing study must have the same settings, else `Refusal` is raised; only the seed may
    differ, and is ignored. ``sampler`` creates a sampler with a seed.
    """

    def __init__(
        self, name: str, storage: str, settings: StudySettings, n_trials: int, sampler: Callable[[int], BaseSampler]
    ) -> None:
        opened, self.locks = open_storage(storage)
        with self.locks.acquire(EXCLUSIVE):
            exists = name in optuna.get_all_study_names(opened)  # create_study(load_if_exists=True) logs a message
            open_study = optuna.load_study if exists else partial(optuna.create_study, direction="maximize")
            self.study = open_study(study_name=name, storage=opened)
            if is_empty := not self._trials():
                _require_maximised(self.study)
            if is_empty and SETTINGS not in self.study.user_attrs:  # new, or its creator was killed right here
                self.study.set_user_attr(SETTINGS, settings.model_dump(mode="json"))
            existing = read_settings(self.study)
            if is_empty and (own := own_values(existing.space, existing.block, existing.n_timesteps)):
                self.study.enqueue_trial(own)
        then, wanted = (each.model_dump(mode="json", exclude={"seed"}) for each in (existing, settings))
        for path, before, now in _differences(then, wanted):
            raise Refusal(f"study {name!r} has {path} = {before!r}, not {now!r}: choose another --study-name")
        self._seed, self.n_trials, self._sampler = existing.seed, n_trials, sampler
        self._distributions = {name: each.distribution() for name, each in settings.space.items()}
        self._process = uuid.uuid4().hex

    def process_lock(self) -> AbstractContextManager[bool]:
        """Holds the lock that shows that this process is alive; run trials only in this context."""
        return self.locks.acquire(self._process)

    def next_trial(self) -> optuna.Trial | None:
        """Returns the next trial, with sampled parameters; ``None`` once ``n_trials`` are completed or running."""
        with self.locks.acquire(EXCLUSIVE):
            self._retry_abandoned()
            trials = self._trials()
            waiting = any(trial.state is TrialState.WAITING for trial in trials)
            if not waiting and sum(trial.state is not TrialState.FAIL for trial in trials) >= self.n_trials:
                return None
            # A new sampler per trial: one per process would repeat its random numbers in other processes and restarts.
            self.study.sampler = self._sampler(derived_seed(self._seed, len(trials), "sampler"))
            trial = self.study.ask(self._distributions)
            trial.set_user_attr(PROCESS, self._process)
            if SEED not in trial.user_attrs:
                trial.set_user_attr(SEED, derived_seed(self._seed, trial.number, "trial"))
            return trial

    def num_completed(self) -> int:
        """Returns how many trials are over and count."""
        return sum(trial.state in (TrialState.COMPLETE, TrialState.PRUNED) for trial in self._trials())

    def was_abandoned(self, trial: optuna.Trial) -> bool:
        """Whether another process has considered this trial abandoned and failed it; its result does not count."""
        return self._trials()[trial.number].state is TrialState.FAIL

    def retry_abandoned(self) -> None:
        """Fails trials of processes that are gone, and has their parameters tried again."""
        with self.locks.acquire(EXCLUSIVE):
            self._retry_abandoned()

    def _trials(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False)

    def _retry_abandoned(self) -> None:
        for trial in self._trials():
            # Trials are started under the exclusive lock, held here: one without a process was killed in between.
            is_torn = trial.state is TrialState.RUNNING and PROCESS not in trial.user_attrs
            if is_torn or is_abandoned(trial, self.locks):
                self._retry(trial.number)

    def _retry(self, number: int) -> None:
        """Enqueues the parameters of a trial again and fails it, in this order: a kill in between loses nothing."""
        # Read again: its process may have finished the trial before it ended.
        trials = self._trials()
        if (trial := trials[number]).state is not TrialState.RUNNING:
            return
        attempts = trial.user_attrs.get(ATTEMPTS, 0) + 1
        # A process that was killed while sampling may have stored only some parameters; enqueued ones are complete.
        params = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
        # True after such a kill in between: the trial must not be repeated twice.
        is_queued = any(each.user_attrs.get(RETRY_OF) == number for each in trials)
        if params and attempts < MAX_ATTEMPTS and not is_queued:
            kept = {key: value for key, value in trial.user_attrs.items() if key != PROCESS}
            self.study.enqueue_trial(params, user_attrs={**kept, ATTEMPTS: attempts, RETRY_OF: number})
        self.study.tell(number, state=TrialState.FAIL)


def derived_seed(seed: int, number: int, purpose: str) -> int:
    """Returns a seed below 2**31 for one purpose in the trial with this number."""
    return int(np.random.SeedSequence([seed, number, *purpose.encode()]).generate_state(1)[0] >> 1)


def _differences(before: Any, now: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yields the path and both values of each difference between nested mappings."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            yield from _differences(before.get(key), now.get(key), f"{path}.{key}" if path else str(key))
    elif before != now:
        yield path, before, now
