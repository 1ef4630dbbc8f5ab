"""``python -m benchmarks dreamer scaling|compare|soak|domains``, beside the benchmark of speed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeVar

import typer

from benchmarks.dreamer import bench_dreamer
from sb3_pvp.common.errors import Refusal
from sb3_pvp.zoo.domains import require_packages

dreamer = typer.Typer(invoke_without_command=True)
dreamer.callback()(bench_dreamer)
T = TypeVar("T")
Out = Annotated[Path, typer.Option(help="The folder of the runs: the same command goes on with them.")]
Seeds = Annotated[int, typer.Option(min=1, help="So many runs of each; of PPO, DQN and SAC three times as many.")]
Minutes = Annotated[float, typer.Option(min=0.0, help="CPU minutes of this part; 0: only draw what there is.")]
Steps = Annotated[int, typer.Option(min=0, help="Steps of each run in place of its own; 0: its own.")]


@dreamer.command("scaling")
def scaling(out: Out, seeds: Seeds = 2, minutes: Minutes = 30, steps: Steps = 0) -> None:
    """Learn one task with three sizes and three ratios; print a table and draw scaling.png."""
    from benchmarks.dreamer_studies import pictures, runs

    runs.run_part(runs.SCALING, seeds, out, 60 * minutes, steps)
    found = _some(pictures.read_runs(runs.SCALING, out, seeds), out)
    pictures.draw_scaling(out / "scaling.png", found)
    typer.echo(pictures.table(runs.SCALING, found))


@dreamer.command("compare")
def compare(out: Out, seeds: Seeds = 3, minutes: Minutes = 30, steps: Steps = 0) -> None:
    """Learn two tasks with DreamerV3 and SB3's PPO, DQN and SAC; print a table and draw comparison.png.

    The picture has rliable's interquartile means over seeds, with 95 % intervals of its stratified bootstrap.
    """
    from benchmarks.dreamer_studies import pictures, runs

    require_packages("test", "rliable")
    runs.run_part(runs.COMPARISON, seeds, out, 60 * minutes, steps)
    found = _some(pictures.read_runs(runs.COMPARISON, out, seeds), out)
    pictures.draw_comparison(out / "comparison.png", found)
    typer.echo(f"{pictures.table(runs.COMPARISON, found)}\n\n{pictures.interval_table(found)}")


@dreamer.command("soak")
def soak(
    out: Out, minutes: Annotated[float, typer.Option(min=0.0, help="Minutes of the clock of this part.")] = 120
) -> None:
    """Train for hours with one thread, as `sb3-pvp train --logdir` does; print its memory and draw soak.png."""
    from benchmarks.dreamer_studies.soak import draw_soak, read_samples, soak_part, soak_table

    soak_part(out, 60 * minutes)
    found = _some(read_samples(out), out)
    draw_soak(out / "soak.png", found)
    typer.echo(soak_table(found))


@dreamer.command("domains")
def domains(
    out: Out, minutes: Annotated[float, typer.Option(min=0.0, help="CPU minutes of each preset in this part.")] = 5
) -> None:
    """Train the preset of each domain that is installed; print a table beside random play and draw domains.png."""
    from benchmarks.dreamer_studies import domains as study

    for name, preset in study.domain_presets().items() if minutes else ():
        study.train_part(name, out, 60 * minutes)
        study.play_randomly(name, preset, out)
    found = _some(study.domain_rows(out), out)
    study.draw_domains(out / "domains.png", found)
    typer.echo(study.domain_table(found))


def _some(found: T, out: Path) -> T:
    if not found:
        raise Refusal(f"{out} has no evaluations yet: give --minutes")
    return found
