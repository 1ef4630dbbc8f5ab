"""``python -m benchmarks yardsticks``."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from sb3_pvp.common.errors import Refusal, refusals, require_known

yardsticks = typer.Typer(help="Self-play where exploitability is known exactly: poker, liar's dice, Goofspiel.")
Folder = Annotated[Path, typer.Option("--folder", "-f", help="Of the runs and their figures.", file_okay=False)]


@yardsticks.command("run")
def run(
    folder: Folder,
    games: Annotated[list[str] | None, typer.Option("--game", help="Default: all; may be repeated.")] = None,
    methods: Annotated[list[str] | None, typer.Option("--method", help="Default: all; may be repeated.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from --first-seed on.")] = 3,
    first_seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    steps: Annotated[int | None, typer.Option("--steps", "-n", min=1, help="Default: those of the game.")] = None,
    points: Annotated[int, typer.Option(min=1, help="Exact figures of a run.")] = 20,
) -> None:
    """Train in self-play, and compute after every part of it what the best response to the policy wins.

    The same command goes on where it stopped; what is finished is not trained again.
    """
    if find_spec("pyspiel") is None:
        raise Refusal("the yardsticks need OpenSpiel: pip install 'sb3-pvp[openspiel]'")
    import torch as th

    from benchmarks.yardsticks.study import GAMES, METHODS, Run

    th.set_num_threads(1)
    for name in games or ():
        require_known("game", name, GAMES)
    for name in methods or ():
        require_known("method", name, METHODS)
    with refusals():
        for game in games or GAMES:
            for seed in range(first_seed, first_seed + seeds):
                for method in methods or METHODS:
                    planned = Run(folder, game, method, seed, steps or GAMES[game].steps, points)
                    for point in planned.points_left():
                        about = f"{game}, {method}, seed {seed}, {point.steps:,} steps"
                        typer.echo(f"{about}: {point.policy:.4f}, averaged policy {point.average:.4f}")


@yardsticks.command("draw")
def draw(
    folder: Folder,
    picture: Annotated[Path, typer.Option("--picture", "-o", help="The picture.", dir_okay=False)] = Path(
        "yardsticks.png"
    ),
) -> None:
    """Print a Markdown table of all runs in a folder, and draw their curves."""
    from benchmarks.yardsticks.curves import draw_curves, read_points, table

    with refusals():
        found = read_points(folder)
        if not found:
            raise Refusal(f"there are no figures in {folder}: python -m benchmarks yardsticks run makes them")
        draw_curves(picture, found)
    typer.echo(table(found))
