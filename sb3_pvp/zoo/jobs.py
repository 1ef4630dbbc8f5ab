"""Commands that run in the background: with a log, a name, and everything they start ended with them.

`Jobs` is a folder of them; ``sb3-pvp jobs`` and ``sb3-pvp tensorboard`` are its command line.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import socket
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import filelock
from pydantic import BaseModel, ValidationError

from sb3_pvp.common.arguments import first_error
from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.common.names import unknown_name
from sb3_pvp.common.watched_process import GRACE, WatchedProcess, is_member, members, result_of, stop

#: Addresses all jobs; no job can have this name.
ALL = "all"
#: Seconds until TensorBoard must listen; it imports much.
_PATIENCE = 120.0
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


class Job(BaseModel, frozen=True):
    """A command that was started. Times are seconds since 1970."""

    id: int  #: Its number, from 1.
    name: str  #: Several jobs may have the same one.
    command: list[str]  #: Program and arguments.
    folder: str  #: Where it runs.
    log: str  #: The file with all its output.
    mark: str  #: See `sb3_pvp.common.watched_process.MARK`.
    started_at: float
    pid: int | None = None  #: The process that watches over the command; ``None``: not started yet.
    stopped_at: float | None = None  #: When somebody told it to end; ``None``: nobody has.
    details: dict[str, str] = {}  #: More about it, for those who look for jobs of a kind.


class Status(NamedTuple):
    """How a job is.

    It is finished with exit code 0 and failed with another one, stopped by somebody, or lost, if it ended without a
    word, as when the machine was switched off. The exit code is that of the command, as shells count: 128 and more for
    signals; ``None`` while it runs and if it is lost.
    """

    job: Job
    state: Literal["running", "finished", "failed", "stopped", "lost"]
    exit_code: int | None = None
    ended_at: float | None = None  #: Seconds since 1970.

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        ends = {"state": self.state, "exit_code": self.exit_code, "ended_at": self.ended_at}
        return {**self.job.model_dump(exclude={"mark"}), **ends}


class _Result(BaseModel):
    """How a command ended."""

    mark: str
    exit_code: int
    ended_at: float


class _JobsFile(BaseModel):
    version: Literal[1] = 1
    jobs: list[Job]


class Jobs:
    """The jobs of a folder (cli-config.md §2). Several processes may use the same folder.

    A job lives in a session of its own, with its input closed and its output in a log file, and goes on when the
    process that has started it ends. It is over when its command is: what the command leaves running is ended then.
    What is impossible is a `ValueError`.
    """

    def __init__(self, folder: str | Path = "logs/jobs") -> None:
        self.folder = Path(folder).absolute()
        self._file = self.folder / "jobs.json"
        self._lock = filelock.FileLock(self.folder / ".jobs.lock", timeout=60.0)

    def start(self, command: Sequence[str], name: str | None = None, details: Mapping[str, str] | None = None) -> Job:
        """Starts a command in the working directory of this process, by default under the program's name."""
        if isinstance(command, str) or not command:
            raise ValueError(f'the command must be a list such as ["python", "train.py"], got {command!r}')
        if shutil.which(command[0]) is None:
            raise ValueError(f"there is no such command: {command[0]}")
        name = Path(command[0]).stem if name is None else name
        if not _NAME.fullmatch(name) or name.isdigit() or name == ALL:  # as a file's name, or taken for something else
            raise ValueError(
                f"{name!r} cannot be the name of a job: use letters, digits, '.', '_', '-', no mere number, not {ALL!r}"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._lock:
            jobs = self._read()
            number = min({*range(1, len(jobs) + 2)} - {job.id for job in jobs})
            log = self.folder / f"{number}-{name}.log"
            job = Job(
                id=number,
                name=name,
                command=list(command),
                folder=os.getcwd(),
                log=str(log),
                mark=secrets.token_hex(16),
                started_at=time.time(),
                details=dict(details or {}),
            )
            # Written before it runs: whatever happens from now on, nobody runs of whom there is no record.
            self._write([*jobs, job])
            log.write_bytes(b"")
            # Without buffers the log tells at once what is said.
            process = WatchedProcess(command, log, {"PYTHONUNBUFFERED": "1"}, mark=job.mark)
            job = job.model_copy(update={"pid": process.pid})
            self._write([*jobs, job])
        return job

    def _read(self) -> list[Job]:
        try:
            return _JobsFile.model_validate_json(self._file.read_bytes()).jobs
        except FileNotFoundError:
            return []
        except ValidationError as error:
            what = first_error(error)
            raise ValueError(f"{self._file} cannot be read ({what}): move it away; jobs that run go on") from error

    def _write(self, jobs: list[Job]) -> None:
        write_atomically(self._file, _JobsFile(jobs=jobs).model_dump_json(indent=1) + "\n")

    def all(self) -> list[Status]:
        """How all jobs are, by number."""
        return [self._status(job) for job in self._read()]

    def status(self, job: Job) -> Status:
        """How one of them is now."""
        return self._status(next((each for each in self._read() if each.mark == job.mark), job))

    def _status(self, job: Job) -> Status:
        try:
            result = _Result.model_validate_json(result_of(Path(job.log)).read_bytes())
        except (OSError, ValidationError):
            result = None
        if result and result.mark == job.mark:  # else that of an earlier job with this number
            bad: Literal["stopped", "failed"] = "stopped" if job.stopped_at else "failed"
            return Status(job, bad if result.exit_code else "finished", result.exit_code, result.ended_at)
        if (job.pid is not None and is_member(job.pid, job.mark)) or members(job.mark):
            return Status(job, "running")
        return Status(job, "stopped" if job.stopped_at else "lost", None, job.stopped_at)

    def is_running(self, job: Job) -> bool:
        """Whether anything of the job still runs."""
        return self._status(job).state == "running"

    def find(self, name: str) -> list[Status]:
        """The jobs with this name, the one with this number, or `ALL`."""
        jobs = self.all()
        if name == ALL:
            return jobs
        if found := [each for each in jobs if name in (each.job.name, str(each.job.id))]:
            return found
        raise unknown_name("job", name, [*{each.job.name: None for each in jobs}])

    def stop(self, jobs: Iterable[Job], grace: float = GRACE) -> None:
        """Ends jobs with all that they have started: politely for ``grace`` seconds, then for certain."""
        running = {job.mark: job for job in jobs if self.is_running(job)}
        if not running:
            return
        told = {"stopped_at": time.time()}
        with self._lock:
            self._write([job.model_copy(update=told) if job.mark in running else job for job in self._read()])
        for job in running.values():
            stop(job.mark, grace, job.pid)

    def forget(self, jobs: Iterable[Job]) -> None:
        """Removes jobs that are over, with their logs; changes nothing if one runs."""
        gone = {job.mark: job for job in jobs}
        for job in gone.values():
            if self.is_running(job):
                raise ValueError(f"job {job.id} ({job.name}) still runs: stop it first")
        if gone:
            with self._lock:
                self._write([job for job in self._read() if job.mark not in gone])
                for job in gone.values():
                    result_of(Path(job.log)).unlink(missing_ok=True)
                    Path(job.log).unlink(missing_ok=True)

    def wait(self, job: Job, seconds: float = float("inf")) -> Status:
        """Waits until a job is over, or for so many seconds, and tells how it is then."""
        deadline = time.monotonic() + seconds
        while self.is_running(job) and time.monotonic() < deadline:
            time.sleep(0.1)
        return self.status(job)

    def follow(self, job: Job, start: int = 0) -> Iterator[bytes]:
        """What is in the log of a job from byte ``start`` on, as it comes, until the job is over."""
        with open(job.log, "rb") as file:
            file.seek(start)
            goes_on = True
            while goes_on:
                goes_on = self.is_running(job)  # before reading: what was written until then is read
                while chunk := file.read(1 << 16):
                    yield chunk
                if goes_on:
                    time.sleep(0.2)

    def tensorboard(self, logdir: Path, port: int = 6006, host: str = "127.0.0.1") -> tuple[Job, bool]:
        """The TensorBoard that shows this folder, and whether it was started just now, since there was none yet.

        It is the job ``tensorboard``, whose details tell the ``url`` to look at; it listens on return. Port 0: a free
        one; the host ``0.0.0.0`` lets everybody in the network look.
        """
        logdir = logdir.absolute()
        if not logdir.is_dir():
            raise ValueError(
                f"there is no folder {logdir} yet: train with --tensorboard-log, or say where the logs are"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._lock:  # else two who ask at the same time get one each
            for status in self.all():
                if status.state == "running" and status.job.details.get("logdir") == str(logdir):
                    return status.job, False
            try:
                with socket.create_server((host, port)) as probe:
                    port = int(probe.getsockname()[1])
            except OSError as error:
                raise ValueError(
                    f"TensorBoard cannot listen on {host}, port {port} ({error.strerror}): give another port, or 0"
                ) from error
            url = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}/"
            command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(logdir), "--host", host]
            job = self.start([*command, "--port", str(port)], "tensorboard", {"logdir": str(logdir), "url": url})
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline and self.is_running(job):
            with contextlib.suppress(OSError), socket.create_connection((host, port), 1.0):
                return job, True
            time.sleep(0.2)
        self.stop([job])
        said = "\n".join(last_lines(Path(job.log), 5))
        raise ValueError(f"TensorBoard did not come up ({job.log}): {said}")


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of a text file of any size; none if it is not there."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", errors="replace") as file:
        return [line.removesuffix("\n") for line in deque(file, maxlen=count)]
