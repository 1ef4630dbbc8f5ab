"""``sb3-pvp jobs`` and ``sb3-pvp tensorboard``."""

from __future__ import annotations

import shlex
import sys
import time
from argparse import ArgumentParser
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sb3_pvp.cli.tables import AsJson, Column, print_table
from sb3_pvp.cli.usage import JobsFolder, progress
from sb3_pvp.common.errors import Refusal
from sb3_pvp.common.stop_signals import deferring, uninterrupted

if TYPE_CHECKING:
    from sb3_pvp.zoo.jobs import Jobs

jobs = typer.Typer(help="Run trainings and other commands in the background.")

LAST_LINES = 50  #: Lines to show of the log of a failed job.
VALIDATION_SECONDS = 15.0  #: How long ``--validate`` waits.

JobName = Annotated[str, typer.Argument(help="A job's name or number, or all for every job.", metavar="NAME|ID")]
_FOLDER = Path("logs/jobs")


# Options after the first word of COMMAND belong to that command.
@jobs.command("start", context_settings={"allow_interspersed_args": False})
def start(
    command: Annotated[list[str], typer.Argument(help="Command to run, after --.", metavar="COMMAND")],
    name: Annotated[str | None, typer.Option(help="Name of the job; default: its preset or program.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait, and exit with its exit code; Ctrl-C stops it.")] = False,
    log: Annotated[bool, typer.Option("--log", help="Show its log until it ends; Ctrl-C leaves it running.")] = False,
    validate: Annotated[bool, typer.Option("--validate", help="Wait 15 s to see whether it fails early.")] = False,
    folder: JobsFolder = _FOLDER,
) -> None:
    """Start a command in the background.

    It keeps running when the terminal is closed. COMMAND is "train" or "enjoy" with the options of rl-zoo3 and
    --preset, or any program with its arguments.
    """
    from sb3_pvp.algorithms.presets import find_preset
    from sb3_pvp.zoo.jobs import last_lines

    opened = _jobs(folder)
    if command[0] in ("train", "enjoy"):
        parser = ArgumentParser(add_help=False)
        parser.add_argument("--preset", nargs="?", const="")  # without a name: the unknown preset ""
        preset = parser.parse_known_args(command)[0].preset
        default = command[0] if preset is None else find_preset(preset).name  # refuses an unknown preset right here
        name = name or default
        command = [sys.executable, "-m", "sb3_pvp.zoo", *command]
    early = list[int]()
    with deferring(lambda number, _: early.append(number)):  # else a job could be running that nobody knows of here
        job = opened.start(command, name)
    try:
        # stdout is the log's.
        typer.echo(f"job {job.id} ({job.name}) started; its output is in {job.log}", err=wait or log)
        if early:
            raise KeyboardInterrupt
        for chunk in opened.follow(job) if log else ():
            typer.echo(chunk, nl=False)
        status = opened.wait(job, float("inf") if wait or log else VALIDATION_SECONDS if validate else 0.0)
    except BaseException:
        if wait:  # the caller relies on the job being over, whatever happens to this command
            with uninterrupted():
                opened.stop([job])
        raise
    if status.state in ("running", "finished"):
        return
    if not log:
        code = "" if status.exit_code is None else f" with exit code {status.exit_code}"
        head = f"job {job.id} ({job.name}) {status.state}{code}; last lines of {job.log}:"
        typer.echo("\n".join([head, *last_lines(Path(job.log), LAST_LINES)]), err=True)
    raise typer.Exit(1 if status.exit_code is None else status.exit_code)


@jobs.command("list")
def list_(folder: JobsFolder = _FOLDER, as_json: AsJson = False) -> None:
    """List all jobs, including finished ones."""
    now = time.time()
    columns: dict[str, Column] = {
        "id": "{id}",
        "name": "{name}",
        "state": "{state}",
        "exit": "{exit_code}",
        "pid": lambda job: job["pid"] if job["state"] == "running" else None,
        "started": lambda job: datetime.fromtimestamp(job["started_at"]).isoformat(" ", "seconds"),
        # "lost": it is gone without a trace of when, for instance after a reboot.
        "for": lambda job: (
            None if job["state"] == "lost" else timedelta(seconds=int((job["ended_at"] or now) - job["started_at"]))
        ),
        "command": lambda job: shlex.join(job["command"]),
    }
    print_table("jobs", [each.as_dict() for each in _jobs(folder).all()], columns, as_json, f"no jobs in {folder}")


@jobs.command("logs")
def logs(
    job: JobName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing until the job ends.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of last lines.")] = LAST_LINES,
    folder: JobsFolder = _FOLDER,
) -> None:
    """Show the log of a job (the newest with this name)."""
    from sb3_pvp.zoo.jobs import last_lines

    opened = _jobs(folder)
    newest = max(opened.find(job), key=lambda each: each.job.started_at, default=None)
    if newest is None:
        raise Refusal(f"there are no jobs in {folder}")  # only for ``all``: an unknown name is refused by `find`
    path = Path(newest.job.log)
    size = path.stat().st_size if path.is_file() else 0  # before the lines are read, so that --follow misses nothing
    for line in last_lines(path, lines):
        typer.echo(line)
    if follow:
        for chunk in opened.follow(newest.job, size):
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


@jobs.command("cleanup")
def cleanup(
    job: Annotated[str | None, typer.Argument(help="Stop and remove this job, or all.", metavar="NAME|ID")] = None,
    folder: JobsFolder = _FOLDER,
) -> None:
    """Remove jobs that are over, and their logs."""
    opened = _jobs(folder)
    if job is None:
        removed = [each.job for each in opened.all() if each.state != "running"]
    else:
        removed = [each.job for each in opened.find(job)]
        opened.stop(removed)
    opened.forget(removed)
    typer.echo("\n".join(f"job {each.id} ({each.name}) removed" for each in removed) or "nothing to clean up")


def tensorboard(
    logdir: Annotated[Path, typer.Option(help="Folder of the logs, as passed to --tensorboard-log.")] = Path(
        "tensorboard"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free port.")] = 6006,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 allows other machines.")] = "127.0.0.1",
    folder: JobsFolder = _FOLDER,
) -> None:
    """Start TensorBoard in the background.

    Reuses one that already shows this folder. It is a job: sb3-pvp jobs list shows it, sb3-pvp jobs stop tensorboard
    stops it.
    """
    with progress("starting"):
        job, is_new = _jobs(folder).tensorboard(logdir, port, host)
    state = "started" if is_new else "is already running"
    typer.echo(f"TensorBoard {state} as job {job.id} and shows {logdir} at {job.details['url']}")


def _jobs(folder: Path) -> Jobs:
    from sb3_pvp.zoo.jobs import Jobs

    return Jobs(folder)
