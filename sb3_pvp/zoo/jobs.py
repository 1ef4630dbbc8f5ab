"""Background commands, each with a name and a log; stopping one also stops the processes that it started.

`Jobs` manages the jobs of a folder, for the commands ``sb3-pvp jobs``.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import filelock
from pydantic import BaseModel, ValidationError

from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.common.errors import first_error, unknown_name, without_passwords
from sb3_pvp.common.processes import LOOK_SECONDS, SAVING_GRACE, WatchedProcess, is_member, members, result_of, stop

#: Selects all jobs; no job can have this name.
ALL = "all"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


class Job(BaseModel, frozen=True):
    """A command that was started. Times are seconds since 1970."""

    id: int  #: From 1.
    name: str  #: Not necessarily unique.
    command: list[str]  #: Program and arguments, without passwords.
    folder: str  #: Working directory.
    log: str  #: Path of the file with its output, stdout and stderr.
    mark: str  #: See `sb3_pvp.common.processes.MARK`.
    started_at: float
    pid: int | None = None  #: The process that supervises the command; ``None``: not started yet.
    stopped_at: float | None = None  #: When `Jobs.stop` was called for it, if it was.


class Status(NamedTuple):
    """The state of a job.

    A job is ``finished`` after exit code 0, ``failed`` after another one, ``stopped`` by `Jobs.stop`, or ``lost`` if it
    ended without a result, such as when the machine was switched off. ``exit_code`` is that of the command, 128 plus
    the number of a signal as in shells; ``None`` while the job runs and if it is lost.
    """

    job: Job
    state: Literal["running", "finished", "failed", "stopped", "lost"]
    exit_code: int | None = None
    ended_at: float | None = None  #: Seconds since 1970.


class _Result(BaseModel):
    """The file in which a supervisor records how a command ended."""

    mark: str
    exit_code: int
    ended_at: float


class _JobsFile(BaseModel):
    """The format of ``jobs.json``."""

    version: Literal[1] = 1
    jobs: list[Job]


class Jobs:
    """The jobs of a folder (cli-config.md §2), which several processes may use at the same time.

    A job runs in a separate session, with its input closed and its output in a log file, and outlives the process that
    started it. It ends with its command: processes that the command leaves behind are terminated. Methods raise
    `ValueError` for invalid requests.
    """

    def __init__(self, folder: str | Path = "logs/jobs") -> None:
        self.folder = Path(folder).absolute()
        self._file = self.folder / "jobs.json"
        self._lock = filelock.FileLock(self.folder / ".jobs.lock", timeout=60.0)

    def start(self, command: Sequence[str], name: str | None = None) -> Job:
        """Starts a command in the current working directory; its name is that of the program by default."""
        if isinstance(command, str) or not command:
            raise ValueError(f'the command must be a list such as ["python", "train.py"], got {command!r}')
        if shutil.which(command[0]) is None:
            raise ValueError(f"there is no such command: {command[0]}")
        name = Path(command[0]).stem if name is None else name
        # The name becomes part of the log's file name, and `find` must not confuse it with an id or `ALL`.
        if not _NAME.fullmatch(name) or name.isdigit() or name == ALL:
            raise ValueError(
                f"{name!r} cannot be the name of a job: use letters, digits, '.', '_', '-'; not only digits or {ALL!r}"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._lock:
            jobs = self._read()
            number = max((job.id for job in jobs), default=0) + 1
            log, mark = self.folder / f"{number}-{name}.log", secrets.token_hex(16)
            given = {"command": without_passwords(command), "folder": os.getcwd(), "log": str(log), "mark": mark}
            job = Job(id=number, name=name, started_at=time.time(), **given)  # type: ignore[arg-type]
            # Recorded before it starts: if this process is killed now, the job can still be found by its mark.
            self._write([*jobs, job])
            log.write_bytes(b"")
            process = WatchedProcess(command, log, {}, mark=mark)
            job = job.model_copy(update={"pid": process.pid})
            self._write([*jobs, job])
        return job

    def all(self) -> list[Status]:
        """Returns the status of all jobs, in the order in which they were started."""
        return [self._status(job) for job in self._read()]

    def status(self, job: Job) -> Status:
        """Returns the current status of a job."""
        return self._status(next((each for each in self._read() if each.mark == job.mark), job))

    def find(self, name: str) -> list[Status]:
        """Returns the status of the jobs with this name or id, or of `ALL`; raises `ValueError` if there is none."""
        jobs = self.all()
        found = [each for each in jobs if name in (each.job.name, str(each.job.id), ALL)]
        if not found and name != ALL:
            raise unknown_name("job", name, [*{each.job.name: None for each in jobs}])
        return found

    def stop(self, jobs: Iterable[Job], grace: float = SAVING_GRACE) -> None:
        """Terminates jobs with all their processes, and kills those that are left after ``grace`` seconds."""
        running = {job.mark: job for job in jobs if self.is_running(job)}
        if not running:
            return
        # Recorded first, so that the exit code of a terminated command does not count as a failure.
        now = {"stopped_at": time.time()}
        with self._lock:
            self._write([job.model_copy(update=now) if job.mark in running else job for job in self._read()])
        for job in running.values():
            stop(job.mark, grace, job.pid)

    def is_running(self, job: Job) -> bool:
        """Whether any process of the job is still running."""
        return self._status(job).state == "running"

    def wait(self, job: Job) -> Status:
        """Waits until a job has ended, and returns its status."""
        while self.is_running(job):
            time.sleep(LOOK_SECONDS)
        return self.status(job)

    def follow(self, job: Job, start: int = 0) -> Iterator[bytes]:
        """Yields the log of a job from byte ``start`` on, as it is written, until the job has ended."""
        with open(job.log, "rb") as file:
            file.seek(start)
            is_running = True
            while is_running:
                is_running = self.is_running(job)  # checked before reading, else the last output could be missed
                while chunk := file.read(1 << 16):
                    yield chunk
                if is_running:
                    time.sleep(LOOK_SECONDS)

    def _read(self) -> list[Job]:
        try:
            return _JobsFile.model_validate_json(self._file.read_bytes()).jobs
        except FileNotFoundError:
            return []
        except ValidationError as error:
            what = first_error(error)
            raise ValueError(
                f"{self._file} cannot be read ({what}): move it away; running jobs are not affected"
            ) from error

    def _write(self, jobs: list[Job]) -> None:
        write_atomically(self._file, _JobsFile(jobs=jobs).model_dump_json(indent=1) + "\n")

    def _status(self, job: Job) -> Status:
        try:
            result = _Result.model_validate_json(result_of(Path(job.log)).read_bytes())
        except (OSError, ValidationError):
            result = None
        if result and result.mark == job.mark:  # else the file is left from an earlier job with this id
            bad: Literal["stopped", "failed"] = "stopped" if job.stopped_at else "failed"
            return Status(job, bad if result.exit_code else "finished", result.exit_code, result.ended_at)
        # The supervisor may be gone, or not recorded yet, while processes with the job's mark still run.
        if (job.pid is not None and is_member(job.pid, job.mark)) or members(job.mark):
            return Status(job, "running")
        return Status(job, "stopped" if job.stopped_at else "lost", None, job.stopped_at)
