"""``sb3-pvp analyse grid`` and ``sb3-pvp analyse legibility``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sb3_pvp.common.errors import extra, refusals

_AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

analyse = typer.Typer(help="Grids of actions, and pictures, of the lanes.", add_completion=False)


@analyse.command("grid")
def grid(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of results; the same command goes on.")],
    tile: Annotated[
        list[int] | None, typer.Option(min=1, help="Tiles of a side of a cell; default: 1, 2, 3, 4.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs with each size.")] = 3,
    minutes: Annotated[float, typer.Option(min=0.0, help="CPU minutes of training of a run; 0: only count.")] = 20.0,
    opponent: Annotated[str, typer.Option(help="The script that they learn against.")] = "tactician",
    battles: Annotated[int, typer.Option(min=2, help="Battles of the evaluation.")] = 500,
    as_json: _AsJson = False,
) -> None:
    """Train on coarser and coarser grids with the same budget, and show what each of them costs.

    The same command goes on exactly from the last model that is kept of a stopped run, and adds what is missing.
    """
    import torch

    from sb3_pvp.games.lanes.cli.grid_table import draw_grids, grid_rows

    torch.set_num_threads(1)
    with extra("plots", "pictures"):
        import matplotlib  # noqa: F401  (before work whose end is a picture)
    with refusals():
        rows = grid_rows(
            output, tile or [1, 2, 3, 4], seeds, minutes, opponent, battles, typer.echo if not as_json else None
        )
        draw_grids(output / "grid.png", rows, opponent)
    if as_json:
        typer.echo(json.dumps({"rows": rows, "picture": str(output / "grid.png")}))
        return
    for row in rows:
        typer.echo("  ".join(f"{name} {value:g}" for name, value in row.items()))
    typer.echo(f"the grids over the arena are in {output / 'grid.png'}")


@analyse.command("legibility")
def legibility(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the picture.")],
    size: Annotated[list[int] | None, typer.Option(help="Pixels of a side; default: 64, 96, 128, 224, 448.")] = None,
    frames: Annotated[int, typer.Option(min=50, help="Frames, of which a quarter is for the test.")] = 600,
    as_json: _AsJson = False,
) -> None:
    """Read elixir, and what a troop is, from pictures of 64 to 448 pixels with a linear probe."""
    from sb3_pvp.games.lanes.cli.legibility import draw_legibility, probe

    with extra("plots", "pictures"):
        import matplotlib  # noqa: F401  (before work whose end is a picture)
    with refusals():
        rows = [probe(each, frames) for each in size or [64, 96, 128, 224, 448]]
        draw_legibility(output / "legibility.png", rows)
    if as_json:
        typer.echo(json.dumps({"rows": rows}))
        return
    for row in rows:
        typer.echo("  ".join(f"{name} {value:g}" for name, value in row.items()))
