"""What is known of a job, and the file in which that stands."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.common.process_trees import ProcessId

#: Addresses all jobs; no job can have this name.
ALL = "all"

RUNNING, FINISHED, FAILED, STOPPED, LOST = "running", "finished", "failed", "stopped", "lost"

_VERSION = 1
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
    """How a job is.

    Attributes:
        job: the job.
        state: `RUNNING`; `FINISHED` with exit code 0, `FAILED` with another one; `STOPPED` by somebody; or `LOST`, if
            it ended without a word, as when the machine was switched off.
        exit_code: of the command, as shells count: 128 and more for signals; ``None`` while it runs and if it is lost.
        ended_at: seconds since 1970, or ``None``.
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


def status_of(job: Job, is_running: bool) -> Status:
    """How the job is; a job that does not run has left its result, or is lost."""
    if is_running:
        return Status(job, RUNNING)
    try:
        result = json.loads(job.result.read_text(encoding="utf-8"))
        code, ended_at = int(result["exit_code"]), float(result["ended_at"])
        if result["mark"] != job.mark:
            raise ValueError("the result of an earlier job with this number")
    except (OSError, ValueError, KeyError, TypeError):
        return Status(job, STOPPED if job.stopped_at else LOST, None, job.stopped_at)
    if job.stopped_at and code:
        return Status(job, STOPPED, code, ended_at)
    return Status(job, FAILED if code else FINISHED, code, ended_at)


def write_result(path: Path, mark: str, exit_code: int, ended_at: float) -> None:
    """What the supervisor of a job has to say at the end."""
    write_atomically(path, json.dumps({"mark": mark, "exit_code": exit_code, "ended_at": ended_at}))


def checked_name(name: str) -> str:
    """The name; raises `JobError` for one that is no good file name, or would be taken for something else."""
    if not _NAME.fullmatch(name) or name.isdigit() or name == ALL:
        raise JobError(
            f"{name!r} cannot be the name of a job: use letters, digits, '.', '_' and '-', not digits only, not {ALL!r}"
        )
    return name


def write_jobs(path: Path, jobs: Sequence[Job]) -> None:
    """Writes the file of all jobs."""
    write_atomically(path, json.dumps({"version": _VERSION, "jobs": [asdict(job) for job in jobs]}, indent=1) + "\n")


def read_jobs(path: Path) -> list[Job]:
    """All jobs, by number; none if there is no such file. Raises `JobError` for a file that is something else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise JobError(f"{path} cannot be read ({error}): move it away; jobs that run go on") from error
    version = content.get("version") if isinstance(content, dict) else None
    if version != _VERSION:
        raise JobError(f"{path} has version {version!r}, and this program reads {_VERSION}: use another --jobs-dir")
    try:
        return [_job(fields) for fields in content["jobs"]]
    except (KeyError, TypeError) as error:
        raise JobError(f"{path} is damaged ({error}): move it away; jobs that run go on") from error


def _job(fields: dict[str, Any]) -> Job:
    supervisor = fields["supervisor"]
    process = None if supervisor is None else ProcessId(**supervisor)
    return Job(**{**fields, "command": tuple(fields["command"]), "supervisor": process})
