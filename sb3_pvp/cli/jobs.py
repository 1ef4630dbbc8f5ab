"""``sb3-pvp jobs``."""

from __future__ import annotations

import shlex
import time
from argparse import ArgumentParser
from collections import deque
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sb3_pvp.cli.tables import AsJson, Column, print_table
from sb3_pvp.cli.usage import JobsFolder, progress
from sb3_pvp.common.errors import Refusal
from sb3_pvp.common.user_modules import PYTHON

if TYPE_CHECKING:
    from sb3_pvp.zoo.jobs import Jobs

jobs = typer.Typer(help="Run trainings and other commands in the background.")

JobName = Annotated[str, typer.Argument(help="A job's name or number, or all for every job.", metavar="NAME|ID")]
_FOLDER = Path("logs/jobs")


# Options after the first word of COMMAND belong to that command.
@jobs.command("start", context_settings={"allow_interspersed_args": False})
def start(
    command: Annotated[list[str], typer.Argument(help="Command to run, after --.", metavar="COMMAND")],
    name: Annotated[str | None, typer.Option(help="Name of the job; default: its preset or program.")] = None,
    folder: JobsFolder = _FOLDER,
) -> None:
    """Start a command in the background.

    It keeps running when the terminal is closed. COMMAND is "train" or "enjoy" with the options of rl-zoo3 and
    --preset, or any program with its arguments.
    """
    from sb3_pvp.algorithms.presets import find_preset

    if command[0] in ("train", "enjoy"):
        parser = ArgumentParser(add_help=False)
        parser.add_argument("--preset", nargs="?", const="")  # without a name: the unknown preset ""
        preset = parser.parse_known_args(command)[0].preset
        default = command[0] if preset is None else find_preset(preset).name  # refuses an unknown preset right here
        name = name or default
        command = [*PYTHON, "sb3_pvp.zoo", *command]
    job = _jobs(folder).start(command, name)
    typer.echo(f"job {job.id} ({job.name}) started; its output is in {job.log}")


@jobs.command("list")
def list_(folder: JobsFolder = _FOLDER, as_json: AsJson = False) -> None:
    """List all jobs, including finished ones."""

    def took(job: dict[str, Any]) -> timedelta | None:
        if job["state"] == "lost":  # gone without a trace of when, for instance after a reboot
            return None
        return timedelta(seconds=int((job["ended_at"] or time.time()) - job["started_at"]))

    columns: dict[str, Column] = {
        "id": "{id}",
        "name": "{name}",
        "state": "{state}",
        "exit": "{exit_code}",
        "pid": lambda job: job["pid"] if job["state"] == "running" else None,
        "started": lambda job: datetime.fromtimestamp(job["started_at"]).isoformat(" ", "seconds"),
        "for": took,
        "command": lambda job: shlex.join(job["command"]),
    }
    found = []
    for job, state, code, ended_at in _jobs(folder).all():
        found.append({**job.model_dump(exclude={"mark"}), "state": state, "exit_code": code, "ended_at": ended_at})
    print_table("jobs", found, columns, as_json, f"no jobs in {folder}")


@jobs.command("logs")
def logs(
    job: JobName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing until the job ends.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of last lines.")] = 50,
    folder: JobsFolder = _FOLDER,
) -> None:
    """Show the log of a job (the newest with this name)."""
    opened = _jobs(folder)
    newest = max(opened.find(job), key=lambda each: each.job.started_at, default=None)
    if newest is None:
        raise Refusal(f"there are no jobs in {folder}")  # only for ``all``: an unknown name is refused by `find`
    with open(newest.job.log, "rb") as file:
        typer.echo(b"".join(deque(file, maxlen=lines)), nl=False)
        shown = file.tell()
    for chunk in opened.follow(newest.job, shown) if follow else ():
        typer.echo(chunk, nl=False)


@jobs.command("stop")
def stop(
    job: JobName,
    grace: Annotated[float, typer.Option(min=0, help="Seconds to wait before it is killed.")] = 30.0,
    folder: JobsFolder = _FOLDER,
) -> None:
    """Stop a job, or all jobs with this name, and all their processes."""
    opened = _jobs(folder)
    running = [each.job for each in opened.find(job) if each.state == "running"]
    with progress("stopping"):
        opened.stop(running, grace)
    typer.echo("\n".join(f"job {each.id} ({each.name}) stopped" for each in running) or "no running jobs")


def _jobs(folder: Path) -> Jobs:
    from sb3_pvp.zoo.jobs import Jobs

    return Jobs(folder)
