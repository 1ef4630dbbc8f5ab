"""``sb3-pvp tensorboard``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sb3_pvp.cli.usage import JobsFolder


def tensorboard(
    logdir: Annotated[Path, typer.Option(help="The folder with the logs, as given to --tensorboard-log.")] = Path(
        "tensorboard"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where it listens; 0 picks a free port.")] = 6006,
    host: Annotated[str, typer.Option(help="0.0.0.0 lets everybody in the network look.")] = "127.0.0.1",
    folder: JobsFolder = Path("logs/jobs"),
) -> None:
    """See to it that a TensorBoard shows this folder, and print where: one that runs is used, else one is started.

    It is a job: sb3-pvp jobs list shows it, sb3-pvp jobs stop tensorboard ends it.
    """
    from sb3_pvp.zoo.jobs import Jobs, ensure_tensorboard

    found = ensure_tensorboard(Jobs(folder), logdir, port, host)
    what = "is started" if found.is_new else "runs already"
    typer.echo(f"TensorBoard {what} as job {found.job.id} and shows {logdir} at {found.url}")
