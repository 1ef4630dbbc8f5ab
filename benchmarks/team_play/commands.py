"""``python -m benchmarks team_play``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sb3_pvp.cli.usage import json_object
from sb3_pvp.common.errors import refusals, require_known

team_play = typer.Typer(help="Show what MA-POCA learns in games for teams, beside independent agents.")


@team_play.command("train")
def train(
    proof: Annotated[str, typer.Argument(help="gate, key_sacrifice, simple_spread or knights_archers_zombies.")],
    out: Annotated[Path, typer.Option(help="Gets the curve as JSON lines.", dir_okay=False)],
    method: Annotated[str, typer.Option(help="mapoca, terminal (the ablation), ppo or untrained.")] = "mapoca",
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights, sampling and matches.")] = 0,
    agent_steps: Annotated[int, typer.Option(min=0, help="How long to learn; 0: as long as the proof says.")] = 0,
    settings: Annotated[str, typer.Option(help="Settings that replace the proof's, as JSON.")] = "{}",
) -> None:
    """Train on one core: MA-POCA, the same with death as an end, or agents that learn independently (MaskablePPO)."""
    changes = json_object(settings, "--settings")
    from benchmarks.team_play.proofs import PROOFS
    from benchmarks.team_play.run import METHODS, run

    with refusals():
        require_known("proof", proof, PROOFS)
        require_known("method", method, METHODS)
    typer.echo(run(proof, method, seed, out, changes, agent_steps or None))  # type: ignore[arg-type]


@team_play.command("plot")
def plot(
    curves: Annotated[list[Path], typer.Argument(help="Files of runs, or what --json has written.", exists=True)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture.", dir_okay=False)] = Path("team-play.png"),
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write the curves as JSON.", dir_okay=False)
    ] = None,
) -> None:
    """Draw curves, and print how the last episodes went as a Markdown table."""
    from benchmarks.team_play.curves import draw, read_curves, table, write_curves

    with refusals():
        found = read_curves(curves)
    draw(out, found)
    if json_file is not None:
        write_curves(json_file, found)
    typer.echo(table(found))
