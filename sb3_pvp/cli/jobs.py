"""``sb3-pvp jobs`` and ``sb3-pvp tensorboard``."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from argparse import ArgumentParser
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sb3_pvp.cli.usage import AsJson, JobsFolder, progress, table, tell
from sb3_pvp.common.errors import Refusal

if TYPE_CHECKING:
    from sb3_pvp.zoo.jobs import Jobs

jobs = typer.Typer(help="Run trainings and other commands in the background.")

#: Of the log of a job that has failed.
LAST_LINES = 50
#: How long `--validate` looks, in seconds.
VALIDATION_SECONDS = 15.0

Which = Annotated[str, typer.Argument(help="A job's name or number; all: every job.", metavar="NAME|ID")]
_FOLDER = Path("logs/jobs")


# What follows the first word of the command belongs to the command.
@jobs.command("start", context_settings={"allow_interspersed_args": False})
def start(
    command: Annotated[list[str], typer.Argument(help="What to run, after --.", metavar="COMMAND")],
    name: Annotated[str | None, typer.Option(help="What it is called; else as its preset, or its program.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end and exit code; Ctrl-C stops it.")] = False,
    log: Annotated[bool, typer.Option("--log", help="Show its log until it ends; Ctrl-C leaves it running.")] = False,
    validate: Annotated[bool, typer.Option("--validate", help="Wait 15 s to see whether it fails at once.")] = False,
    folder: JobsFolder = _FOLDER,
) -> None:
    """Start a command in the background.

    It goes on when the terminal is closed. COMMAND is "train" or "enjoy" with the options of rl-zoo3 and --preset,
    or any program with its arguments.
    """
    from sb3_pvp.presets.presets import find_preset
    from sb3_pvp.zoo.jobs import last_lines

    opened = _jobs(folder)
    if command[0] in ("train", "enjoy"):
        parser = ArgumentParser(add_help=False)
        parser.add_argument("--preset", nargs="?", const="")
        preset = parser.parse_known_args(command)[0].preset
        called = command[0] if preset is None else find_preset(preset).name
        name = name or called
        command = [sys.executable, "-m", "sb3_pvp.zoo", *command]
    job = opened.start(command, name)
    typer.echo(f"job {job.id} ({job.name}) is started; its output is in {job.log}", err=wait or log)
    try:
        _hear_signals()
        for chunk in opened.follow(job) if log else ():
            typer.echo(chunk, nl=False)
        status = opened.wait(job, float("inf") if wait or log else VALIDATION_SECONDS if validate else 0.0)
    except BaseException as error:
        if wait:  # whatever has happened, nobody else looks after it
            opened.stop([job])
        if isinstance(error, KeyboardInterrupt):
            raise typer.Exit(130) from error
        raise
    if status.state in ("running", "finished"):
        return
    if not log:
        code = "" if status.exit_code is None else f" with exit code {status.exit_code}"
        head = f"job {job.id} ({job.name}) {status.state}{code}; the last lines of {job.log}:"
        typer.echo("\n".join([head, *last_lines(Path(job.log), LAST_LINES)]), err=True)
    raise typer.Exit(1 if status.exit_code is None else status.exit_code)


@jobs.command("list")
def list_(folder: JobsFolder = _FOLDER, as_json: AsJson = False) -> None:
    """Show all jobs, also those that are over."""
    found = _jobs(folder).all()
    rows: list[list[object]] = [["id", "name", "state", "exit", "pid", "started", "for", "command"]]
    for job, state, code, ended_at in found:
        took = None if state == "lost" else timedelta(seconds=int((ended_at or time.time()) - job.started_at))
        started = datetime.fromtimestamp(job.started_at).isoformat(" ", "seconds")
        pid = job.pid if state == "running" else None
        rows.append([job.id, job.name, state, code, pid, started, took, shlex.join(job.command)])
    tell({"jobs": [each.as_dict() for each in found]}, table(rows) if found else f"no jobs in {folder}", as_json)


@jobs.command("logs")
def logs(
    job: Which,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines.")] = LAST_LINES,
    folder: JobsFolder = _FOLDER,
) -> None:
    """Show the end of a job's log, of several with its name the newest."""
    from sb3_pvp.zoo.jobs import last_lines

    opened = _jobs(folder)
    newest = max(opened.find(job), key=lambda each: each.job.started_at, default=None)
    if newest is None:
        raise Refusal(f"there are no jobs in {folder}")
    path = Path(newest.job.log)
    size = path.stat().st_size if path.is_file() else 0
    for line in last_lines(path, lines):
        typer.echo(line)
    if follow:
        _hear_signals()
        for chunk in opened.follow(newest.job, size):
            typer.echo(chunk, nl=False)


@jobs.command("stop")
def stop(
    job: Which,
    grace: Annotated[float, typer.Option(min=0, help="Seconds that it has to end on its own.")] = 5.0,
    folder: JobsFolder = _FOLDER,
) -> None:
    """End a job, or all of this name, with everything it has started."""
    opened = _jobs(folder)
    running = [each.job for each in opened.find(job) if each.state == "running"]
    with progress("stopping"):
        opened.stop(running, grace)
    typer.echo("\n".join(f"job {each.id} ({each.name}) is stopped" for each in running) or "nothing runs")


@jobs.command("cleanup")
def cleanup(
    job: Annotated[str | None, typer.Argument(help="Stop and forget this one; or all.", metavar="NAME|ID")] = None,
    folder: JobsFolder = _FOLDER,
) -> None:
    """Forget jobs that are over, and remove their logs."""
    opened = _jobs(folder)
    if job is None:
        gone = [each.job for each in opened.all() if each.state != "running"]
    else:
        gone = [each.job for each in opened.find(job)]
        opened.stop(gone)
    opened.forget(gone)
    typer.echo("\n".join(f"job {each.id} ({each.name}) is forgotten" for each in gone) or "nothing to clean up")


def tensorboard(
    logdir: Annotated[Path, typer.Option(help="The folder with the logs, as given to --tensorboard-log.")] = Path(
        "tensorboard"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where it listens; 0 picks a free port.")] = 6006,
    host: Annotated[str, typer.Option(help="0.0.0.0 lets everybody in the network look.")] = "127.0.0.1",
    folder: JobsFolder = _FOLDER,
) -> None:
    """Show a folder of logs in TensorBoard, in the background.

    One that shows it already is used, else one is started. It is a job: sb3-pvp jobs list shows it, sb3-pvp jobs
    stop tensorboard ends it.
    """
    with progress("starting"):
        job, is_new = _jobs(folder).tensorboard(logdir, port, host)
    what = "is started" if is_new else "runs already"
    typer.echo(f"TensorBoard {what} as job {job.id} and shows {logdir} at {job.details['url']}")


def _jobs(folder: Path) -> Jobs:
    from sb3_pvp.zoo.jobs import Jobs

    return Jobs(folder)


def _hear_signals() -> None:
    """All signals that are to end this process are a `KeyboardInterrupt` from now on."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
