"""What is known of a job, and the file in which that stands."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from sb3_pvp.common.process_trees import ProcessId

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
