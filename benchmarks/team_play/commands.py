"""``python -m benchmarks team_play``."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from sb3_pvp.common.arguments import json_object
from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.common.errors import refusals, require_all_known, require_known

team_play = typer.Typer(help="Show what MA-POCA learns in games for teams, beside independent agents.")


@team_play.command("train")
def train(
    proof: Annotated[
        str, typer.Argument(help="gate, key_sacrifice, simple_spread(_numbers), knights_archers_zombies.")
    ],
    out: Annotated[Path, typer.Option(help="Gets the curve as JSON lines.", dir_okay=False)],
    method: Annotated[str, typer.Option(help="mapoca, terminal (the ablation), ppo or untrained.")] = "mapoca",
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights, sampling and matches.")] = 0,
    agent_steps: Annotated[int, typer.Option(min=0, help="How long to learn; 0: as long as the proof says.")] = 0,
    settings: Annotated[str, typer.Option(help="Settings that replace the proof's, as JSON.")] = "{}",
) -> None:
    """Train on one core: MA-POCA, the same with death as an end, or agents that learn independently (MaskablePPO)."""
    changes = json_object(settings, "--settings")
    from benchmarks.team_play.curves import NAMES
    from benchmarks.team_play.proofs import PROOFS, Proof
    from benchmarks.team_play.run import run

    with refusals():
        require_known("proof", proof, PROOFS)
        require_known("method", method, NAMES)
        require_all_known("setting", changes, [each.name for each in fields(Proof)])
    with refusals():
        learned = run(proof, method, seed, changes, agent_steps or None)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, learned.lines())
    typer.echo(learned.lines().splitlines()[-1])


@team_play.command("plot")
def plot(
    runs: Annotated[list[Path], typer.Argument(help="Files of runs, or what --json has written.", exists=True)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture.", dir_okay=False)] = Path("team-play.png"),
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write the curves as JSON.", dir_okay=False)
    ] = None,
) -> None:
    """Draw curves, and print how the last episodes went as a Markdown table."""
    from benchmarks.team_play.curves import draw, read_runs, table, write_runs

    with refusals():
        found = read_runs(runs)
    draw(out, found)
    if json_file is not None:
        write_runs(json_file, found)
    typer.echo(table(found))
