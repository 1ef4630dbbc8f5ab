"""``python -m benchmarks recipes``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sb3_pvp.common.errors import refusals

recipes = typer.Typer(help="Compare recipes of self-play by exploitability, rating and win rate.")
Runs = Annotated[list[Path], typer.Argument(help="Folders of runs of learning_curves train.", file_okay=False)]


@recipes.command("league")
def league(
    runs: Runs, folder: Annotated[Path, typer.Option("--folder", "-f", help="The league's folder.", file_okay=False)]
) -> None:
    """Copy the fighters of runs into a league, to be rated by sb3-pvp league rate."""
    from benchmarks.recipes.study import add_to_league

    with refusals():
        add_to_league(folder, runs)


@recipes.command("report")
def report(
    runs: Runs,
    league: Annotated[Path | None, typer.Option(help="A league that has rated them.", file_okay=False)] = None,
    json_file: Annotated[Path, typer.Option("--json", help="Gets the runs, beside those of before.")] = Path(
        "recipes.json"
    ),
    picture: Annotated[Path, typer.Option(help="Gets what the responses win.")] = Path("recipes.png"),
) -> None:
    """Print a Markdown table of runs and their best responses, and draw the responses."""
    from benchmarks.recipes.study import draw, merged, read_run, table, with_rating

    with refusals():
        found = merged(json_file, [with_rating(each, league) for run in runs for each in read_run(run)])
    draw(picture, found)
    typer.echo(table(found))


@recipes.command("builds")
def builds(
    folder: Annotated[Path, typer.Argument(help="Of sb3-pvp exploit --each-build.", file_okay=False)],
    most: Annotated[int, typer.Option(min=1, help="How often the most exploitable build is in the list.")] = 4,
) -> None:
    """Print builds for a recipe's randomBuildOptions: the more exploitable the fighter is in one, the more often."""
    import json

    from benchmarks.recipes.study import drawn_builds
    from sb3_pvp.callbacks.exploiters.each_build import FIGURES

    with refusals(about=f"{folder} has no figures of sb3-pvp exploit --each-build"):
        figures = json.loads((folder / FIGURES).read_text(encoding="utf-8"))
        found = drawn_builds({name: each["result"]["value"] for name, each in figures["builds"].items()}, most)
    typer.echo(f"randomBuildOptions: [{', '.join(found)}]")
