"""Commands that run in the background: with a log, a name, and everything they start ended with them.

`Jobs` is a folder of them; ``sb3-pvp jobs`` and ``sb3-pvp tensorboard`` are its command line. Run as a program, with a
file for the result and a command, this is the supervisor of a job: it ends what the command leaves running, and writes
down how it ended. Told to end, it ends the command first.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

#: Addresses all jobs; no job can have this name.
ALL = "all"
RUNNING, FINISHED, FAILED, STOPPED, LOST = "running", "finished", "failed", "stopped", "lost"

#: Seconds until TensorBoard must listen; it imports much.
_PATIENCE = 120.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


class JobError(ValueError):
    """What was asked for is not possible; the message says what to do."""


@dataclass(frozen=True)
class Job:
    """A command that was started. Times are seconds since 1970."""

    id: int  #: Its number, from 1.
    name: str  #: Several jobs may have the same one.
    command: tuple[str, ...]  #: Program and arguments.
    folder: str  #: Where it runs.
    log: str  #: The file with all its output.
    mark: str  #: See `sb3_pvp.common.process_trees.MARK`.
    started_at: float
    supervisor: ProcessId | None = None  #: The process that waits for the command; ``None``: not started yet.
    stopped_at: float | None = None  #: When somebody told it to end; ``None``: nobody has.
    details: dict[str, str] = field(default_factory=dict)  #: More about it, for those who look for jobs of a kind.

    @property
    def result(self) -> Path:
        """The file that its supervisor writes at the end."""
        return Path(self.log).with_suffix(".result.json")

    @property
    def is_supervised(self) -> bool:
        """Whether its supervisor lives."""
        return self.supervisor is not None and self.supervisor.is_alive()


@dataclass(frozen=True)
class Status:
    """How a job is.

    The state is `RUNNING`; `FINISHED` with exit code 0, `FAILED` with another one; `STOPPED` by somebody; or `LOST`, if
    it ended without a word, as when the machine was switched off. The exit code is that of the command, as shells
    count: 128 and more for signals; ``None`` while it runs and if it is lost.
    """

    job: Job
    state: str
    exit_code: int | None = None
    ended_at: float | None = None  #: Seconds since 1970.

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


def _status(job: Job, is_running: bool) -> Status:
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


class JobsFile(BaseModel):
    """The file of all jobs."""

    version: Literal[1] = 1
    jobs: list[Job]


class Jobs:
    """The jobs of a folder (cli-config.md §2). Several processes may use the same folder.

    A job lives in a session of its own, with its input closed and its output in a log file, and goes on when the
    process that has started it ends. It is over when its command is: what the command leaves running is ended then.
    """

    def __init__(self, folder: str | Path = DEFAULT_FOLDER) -> None:
        self.folder = Path(folder).absolute()
        self._file = self.folder / "jobs.json"
        self._lock = filelock.FileLock(self.folder / ".jobs.lock", timeout=60.0)

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
        """Starts a command in the working directory of this process, by default under the program's name.

        Raises `JobError`, and starts nothing, for a command that does not exist or an impossible name.
        """
        if isinstance(command, str) or not command:
            raise JobError(f'the command must be a list such as ["python", "train.py"], got {command!r}')
        if shutil.which(command[0]) is None:
            raise JobError(f"there is no such command: {command[0]}")
        name = Path(command[0]).stem if name is None else name
        if not _NAME.fullmatch(name) or name.isdigit() or name == ALL:  # as a file's name, or taken for something else
            raise JobError(
                f"{name!r} cannot be the name of a job: use letters, digits, '.', '_' and '-', not digits only, not "
                f"{ALL!r}"
            )
        with self.locked():
            jobs = self._read()
            number = min({*range(1, len(jobs) + 2)} - {job.id for job in jobs})
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
        return [_status(job, job.mark in present or job.is_supervised) for job in jobs]

    def status(self, job: Job) -> Status:
        """How one of them is now."""
        known = next((each for each in self._read() if each.mark == job.mark), job)
        return _status(known, self.is_running(job))

    def is_running(self, job: Job) -> bool:
        """Whether anything of the job still runs."""
        return job.is_supervised or bool(members(job.mark))

    def find(self, name: str) -> list[Status]:
        """The jobs with this name, the one with this number, or `ALL`; raises `ValueError` if there is none."""
        jobs = self.all()
        if name == ALL:
            return jobs
        if found := [each for each in jobs if name in (each.job.name, str(each.job.id))]:
            return found
        raise unknown_name("job", name, [*{each.job.name: None for each in jobs}])

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


def _supervise(job: Job) -> ProcessId:
    arguments = [sys.executable, "-m", "sb3_pvp.zoo.jobs", str(job.result), *job.command]
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


@dataclass(frozen=True)
class TensorBoard:
    """A TensorBoard that runs as a job: where to look, and whether it was started just now."""

    job: Job
    url: str
    is_new: bool


def ensure_tensorboard(jobs: Jobs, logdir: Path, port: int = 6006, host: str = "127.0.0.1") -> TensorBoard:
    """The TensorBoard of these jobs that shows this folder; if none runs, one is started, and listens on return.

    It is the job ``tensorboard``, on ``port`` (0: a free one); the host ``0.0.0.0`` lets everybody in the network look.
    Raises `JobError` if there is no such folder, if the port is in use, or if TensorBoard does not come up.
    """
    logdir = logdir.absolute()
    if not logdir.is_dir():
        raise JobError(f"there is no folder {logdir} yet: train with --tensorboard-log, or say where the logs are")
    with jobs.locked():  # else two who ask at the same time get one each
        for status in jobs.all():
            if status.state == RUNNING and status.job.details.get("logdir") == str(logdir):
                return TensorBoard(status.job, status.job.details["url"], is_new=False)
        try:
            with socket.create_server((host, port)) as probe:
                port = int(probe.getsockname()[1])
        except OSError as error:
            raise JobError(
                f"TensorBoard cannot listen on {host}, port {port} ({error.strerror}): give another port, or 0"
            ) from error
        url = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}/"
        command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(logdir), "--host", host]
        job = jobs.start([*command, "--port", str(port)], "tensorboard", {"logdir": str(logdir), "url": url})
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and jobs.is_running(job):
        with contextlib.suppress(OSError), socket.create_connection((host, port), 1.0):
            return TensorBoard(job, url, is_new=True)
        time.sleep(0.2)
    jobs.stop([job])
    said = "\n".join(last_lines(Path(job.log), 5))
    raise JobError(f"TensorBoard did not come up ({job.log}): {said}")


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of a text file of any size; none if it is not there."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", errors="replace") as file:
        return [line.removesuffix("\n") for line in deque(file, maxlen=count)]


def follow(path: Path, is_over: Callable[[], bool], start: int = 0) -> Iterator[str]:
    """What is in the file from byte ``start`` on, as it comes, up to the moment when ``is_over`` says yes."""
    decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
    with path.open("rb") as file:
        file.seek(start)
        while True:
            over = is_over()  # before reading: what was written until then is read
            while chunk := file.read(1 << 16):
                yield decode(chunk)
            if over:
                return
            time.sleep(0.2)


def _main(result: Path, command: Sequence[str]) -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.default_int_handler)
    mark = os.environ[MARK]
    code = _run(mark, command)
    write_atomically(result, Result(mark=mark, exit_code=code, ended_at=time.time()).model_dump_json())


def _run(mark: str, command: Sequence[str]) -> int:
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    except OSError as error:
        print(f"the command cannot be started: {error}", flush=True)
        return 127
    try:
        process.wait()
    except KeyboardInterrupt:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
    stop(mark, GRACE)
    code = process.wait()
    return code if code >= 0 else 128 - code  # as shells say that a signal ended it


if __name__ == "__main__":
    _main(Path(sys.argv[1]), sys.argv[2:])
