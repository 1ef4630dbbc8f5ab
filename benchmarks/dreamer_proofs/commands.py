"""``python -m benchmarks dreamer_proofs``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sb3_pvp.common.errors import Refusal, refusals, require_known

dreamer_proofs = typer.Typer(help="Show what DreamerV3 learns: runs of small games, a table and pictures.")
Out = Annotated[Path, typer.Option(help="The folder; episodes are appended to its file.")]


@dreamer_proofs.command("run")
def run(
    jobs: Annotated[list[str], typer.Argument(help="Names of proofs with seeds, such as repeat1:0, in this order.")],
    out: Out,
    processes: Annotated[int, typer.Option(min=1, help="How many run at once, with one thread each.")] = 1,
    job_minutes: Annotated[float, typer.Option(min=0.1, help="Minutes after which a run is ended.")] = 30,
    minutes: Annotated[float, typer.Option(min=0.1, help="Minutes after which all are ended.")] = 24 * 60,
) -> None:
    """Run proofs; each ends when it has reached all of its bars, or has made all of its steps."""
    from benchmarks.dreamer_proofs.proofs import PROOFS, run_queue

    with refusals():
        chosen = []
        for job in jobs:
            name, _, seed = job.partition(":")
            require_known("proof", name, PROOFS)
            if not seed.isdecimal():
                raise Refusal(f"a proof is named with its seed, such as {name}:0; got {job!r}")
            chosen.append((name, int(seed)))
    run_queue(chosen, out, processes, job_minutes * 60, minutes * 60)


@dreamer_proofs.command("draw")
def draw(
    folder: Annotated[Path, typer.Argument(help="The folder of the runs.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture.", dir_okay=False)] = Path("dreamer-proofs.png"),
) -> None:
    """Draw the returns of all runs of a folder, and print when they reached their bars as a Markdown table."""
    from benchmarks.dreamer_proofs.pictures import draw_runs, table
    from benchmarks.dreamer_proofs.proofs import read_episodes

    with refusals():
        runs = read_episodes(folder)
    draw_runs(out, runs)
    typer.echo(table(runs))
