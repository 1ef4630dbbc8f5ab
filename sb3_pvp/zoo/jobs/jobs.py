"""`Jobs`: starts commands in the background, knows how they are, and stops them with all that they have started."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import filelock
from pydantic import BaseModel, ValidationError

from sb3_pvp.common.arguments import first_error
from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.common.names import unknown_name
from sb3_pvp.common.process_trees import GRACE, MARK, ProcessId, marks, members, stop

#: Where jobs are kept unless another place is given.
DEFAULT_FOLDER = Path("logs/jobs")

_LOCK_SECONDS = 60.0
#: Addresses all jobs; no job can have this name.
ALL = "all"

RUNNING, FINISHED, FAILED, STOPPED, LOST = "running", "finished", "failed", "stopped", "lost"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


class JobError(ValueError):
    """What was asked for is not possible; the message says what to do."""


@dataclass(frozen=True)
class Job:
    """A command that was started.

    Attributes:
        id: its number, from 1.
        name: what it is called; several jobs may have the same name.
        command: program and arguments.
        folder: where the command runs.
        log: the file with all its output.
        mark: see `sb3_pvp.common.process_trees.MARK`.
        started_at: seconds since 1970.
        supervisor: the process that waits for the command; ``None`` if it was not started yet.
        stopped_at: when somebody told it to end, seconds since 1970; ``None``: nobody has.
        details: more about it, for those who look for jobs of a kind.
    """

    id: int
    name: str
    command: tuple[str, ...]
    folder: str
    log: str
    mark: str
    started_at: float
    supervisor: ProcessId | None = None
    stopped_at: float | None = None
    details: dict[str, str] = field(default_factory=dict)

    @property
    def result(self) -> Path:
        """The file that its supervisor writes at the end."""
        return Path(self.log).with_suffix(".result.json")


@dataclass(frozen=True)
class Status:
    """How a job is, and the second since 1970 when it ended, if it has.

    Attributes:
        state: `RUNNING`; `FINISHED` with exit code 0, `FAILED` with another one; `STOPPED` by somebody; or `LOST`, if
            it ended without a word, as when the machine was switched off.
        exit_code: of the command, as shells count: 128 and more for signals; ``None`` while it runs and if it is lost.
    """

    job: Job
    state: str
    exit_code: int | None = None
    ended_at: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        job = {key: value for key, value in asdict(self.job).items() if key not in ("mark", "supervisor")}
        pid = None if self.job.supervisor is None else self.job.supervisor.pid
        return {**job, "pid": pid, "state": self.state, "exit_code": self.exit_code, "ended_at": self.ended_at}


class Result(BaseModel):
    """What the supervisor of a job has to say at the end."""

    mark: str
    exit_code: int
    ended_at: float


def status_of(job: Job, is_running: bool) -> Status:
    """How the job is; a job that does not run has left its result, or is lost."""
    if is_running:
        return Status(job, RUNNING)
    try:
        result = Result.model_validate_json(job.result.read_bytes())
    except (OSError, ValidationError):
        result = None
    if result is None or result.mark != job.mark:  # that of an earlier job with this number
        return Status(job, STOPPED if job.stopped_at else LOST, None, job.stopped_at)
    state = FINISHED if not result.exit_code else STOPPED if job.stopped_at else FAILED
    return Status(job, state, result.exit_code, result.ended_at)


def checked_name(name: str) -> str:
    """The name; raises `JobError` for one that is no good file name, or would be taken for something else."""
    if not _NAME.fullmatch(name) or name.isdigit() or name == ALL:
        raise JobError(
            f"{name!r} cannot be the name of a job: use letters, digits, '.', '_' and '-', not digits only, not {ALL!r}"
        )
    return name


class JobsFile(BaseModel):
    """The file of all jobs."""

    version: Literal[1] = 1
    jobs: list[Job]


class Jobs:
    """The jobs of a folder (cli-config.md §2). Several processes may use the same folder.

    A job lives in a session of its own, with its input closed and its output in a log file, and goes on when the
    process that has started it ends. It is over when its command is: what the command leaves running is ended then.

    Args:
        folder: for ``jobs.json``, logs and results; made if it is missing.
    """

    def __init__(self, folder: str | Path = DEFAULT_FOLDER) -> None:
        self.folder = Path(folder).absolute()
        self._file = self.folder / "jobs.json"
        self._lock = filelock.FileLock(self.folder / ".jobs.lock", timeout=_LOCK_SECONDS)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from changing the jobs; raises `JobError` if that takes too long."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with self._lock:
                yield
        except filelock.Timeout as error:
            raise JobError(f"another process has not let go of {self._lock.lock_file} in a minute") from error

    def start(self, command: Sequence[str], name: str | None = None, details: Mapping[str, str] | None = None) -> Job:
        """Starts a command in the working directory of this process, and returns at once.

        The arguments are those of a `Job`, whose name is by default the program's. Raises `JobError`, and starts
        nothing, for a command that does not exist or an impossible name.
        """
        if isinstance(command, str) or not command:
            raise JobError(f'the command must be a list such as ["python", "train.py"], got {command!r}')
        if shutil.which(command[0]) is None:
            raise JobError(f"there is no such command: {command[0]}")
        name = checked_name(Path(command[0]).stem if name is None else name)
        with self.locked():
            jobs = self._read()
            number = next(number for number in range(1, len(jobs) + 2) if all(job.id != number for job in jobs))
            log = self.folder / f"{number}-{name}.log"
            now, mark = time.time(), secrets.token_hex(16)
            job = Job(number, name, tuple(command), os.getcwd(), str(log), mark, now, details=dict(details or {}))
            # Written before it runs: whatever happens from now on, nobody runs of whom there is no record.
            self._write([*jobs, job])
            job = replace(job, supervisor=_supervise(job))
            self._write([*jobs, job])
        return job

    def _read(self) -> list[Job]:
        """All jobs, by number; raises `JobError` for a file that is something else."""
        try:
            return JobsFile.model_validate_json(self._file.read_bytes()).jobs
        except FileNotFoundError:
            return []
        except ValidationError as error:
            what = first_error(error)
            raise JobError(f"{self._file} cannot be read ({what}): move it away; jobs that run go on") from error

    def _write(self, jobs: list[Job]) -> None:
        write_atomically(self._file, JobsFile(jobs=jobs).model_dump_json(indent=1) + "\n")

    def all(self) -> list[Status]:
        """How all jobs are, by number."""
        present = marks() if (jobs := self._read()) else set()
        return [status_of(job, job.mark in present or _is_supervised(job)) for job in jobs]

    def status(self, job: Job) -> Status:
        """How one of them is now."""
        known = next((each for each in self._read() if each.mark == job.mark), job)
        return status_of(known, self.is_running(job))

    def is_running(self, job: Job) -> bool:
        """Whether anything of the job still runs."""
        return _is_supervised(job) or bool(members(job.mark))

    def find(self, name: str) -> list[Status]:
        """The jobs with this name, the one with this number, or `ALL`; raises `ValueError` if there is none."""
        jobs = self.all()
        if name == ALL:
            return jobs
        found = [each for each in jobs if name in (each.job.name, str(each.job.id))]
        if not found:
            raise unknown_name("job", name, [*{each.job.name: None for each in jobs}])
        return found

    def stop(self, jobs: Iterable[Job], grace: float = GRACE) -> None:
        """Ends jobs with all that they have started: politely for ``grace`` seconds, then for certain."""
        running = {job.mark for job in jobs if self.is_running(job)}
        now = time.time()
        with self.locked():
            known = self._read()
            self._write([replace(job, stopped_at=now) if job.mark in running else job for job in known])
        for job in known:
            if job.mark in running:
                stop(job.mark, grace, None if job.supervisor is None else job.supervisor.pid)

    def forget(self, jobs: Iterable[Job]) -> None:
        """Removes jobs that are over, with their logs; raises `JobError`, and changes nothing, if one runs."""
        with self.locked():
            gone = {job.mark: job for job in jobs}
            for job in gone.values():
                if self.is_running(job):
                    raise JobError(f"job {job.id} ({job.name}) still runs: stop it first")
            self._write([job for job in self._read() if job.mark not in gone])
            for job in gone.values():
                job.result.unlink(missing_ok=True)
                Path(job.log).unlink(missing_ok=True)

    def wait(self, job: Job, seconds: float = float("inf")) -> Status:
        """Waits until a job is over, or for so many seconds, and tells how it is then."""
        deadline = time.monotonic() + seconds
        while self.is_running(job) and time.monotonic() < deadline:
            time.sleep(0.1)
        return self.status(job)


def _is_supervised(job: Job) -> bool:
    return job.supervisor is not None and job.supervisor.is_alive()


def _supervise(job: Job) -> ProcessId:
    arguments = [sys.executable, "-m", "sb3_pvp.zoo.jobs.supervisor", str(job.result), *job.command]
    # Without buffers the log tells at once what is said.
    with open(job.log, "wb") as log:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, MARK: job.mark, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
    found = ProcessId.of(process.pid)
    process.returncode = 0  # nobody waits for it: it goes on when this process ends
    return found
