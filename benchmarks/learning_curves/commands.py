"""``python -m benchmarks learning_curves``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sb3_pvp.common.arguments import json_object
from sb3_pvp.common.errors import refusals

learning_curves = typer.Typer(help="Measure and plot how fast a preset learns.")


@learning_curves.command("train")
def train(
    out: Annotated[Path, typer.Option(help="The run's folder; a run that is already there is resumed.")],
    preset: Annotated[str, typer.Option(help="Name of a preset, or a yaml file in rl-zoo3's format.")] = "NhEnv",
    variant: Annotated[str, typer.Option(help="full, no-autoregression, no-privileged-critic or no-shaping.")] = "full",
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights, sampling and fights.")] = 0,
    cpu_minutes: Annotated[float, typer.Option(min=0, help="CPU minutes of training, without evaluations.")] = 30,
    n_timesteps: Annotated[int, typer.Option("--n-timesteps", "-n", min=0, help="0: no limit of steps.")] = 0,
    win_rate: Annotated[float | None, typer.Option(help="Stop when two evaluations in a row reach this.")] = None,
    fights: Annotated[int, typer.Option(min=1, help="Fights of an evaluation.")] = 256,
    evaluate_every: Annotated[float, typer.Option(help="CPU minutes between evaluations.")] = 1.5,
    checkpoint_every: Annotated[float, typer.Option(help="CPU minutes between checkpoints.")] = 3,
    hyperparams: Annotated[str, typer.Option(help="Hyperparameters that replace the preset's, as JSON.")] = "{}",
) -> None:
    """Train against the baseline bot with randomised builds, gear and fight types, and evaluate periodically."""
    changes = json_object(hyperparams, "--hyperparams")
    from benchmarks.learning_curves import Budget, CurveRun
    from benchmarks.learning_curves.run import NO_LIMIT

    run = CurveRun(out, preset, variant, seed, changes, n_timesteps or NO_LIMIT)
    with refusals():
        run.prepare()
    run.train(Budget(cpu_minutes, evaluate_every, checkpoint_every, fights, win_rate))


@learning_curves.command("plot")
def plot(
    sources: Annotated[list[Path], typer.Argument(help="Folders of runs, or files written by --json.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture.", dir_okay=False)] = Path("learning.png"),
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write the curves as JSON.", dir_okay=False)
    ] = None,
) -> None:
    """Plot learning curves, and print when they reached 80, 90, 95, 97 and 98.5 % as a Markdown table."""
    from benchmarks.learning_curves.curves import draw, read_curves, table, write_curves

    with refusals():
        curves = read_curves(sources)
        draw(out, curves)
        if json_file is not None:
            write_curves(json_file, curves)
    typer.echo(table(curves))
