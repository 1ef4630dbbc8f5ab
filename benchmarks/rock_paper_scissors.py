"""``python -m benchmarks rock_paper_scissors``: the figures of docs/self-play-results.md."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer


def bench_rock_paper_scissors(
    rollouts: Annotated[int, typer.Option(min=1, help="Rollouts of 256 games.")] = 120,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from 0 on.")] = 1,
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture.", dir_okay=False)] = Path("self-play.png"),
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write the figures as JSON.", dir_okay=False)
    ] = None,
) -> None:
    """Train against the past and against the newest self, and plot how exploitable the learner becomes."""
    import torch as th

    from benchmarks.self_play import OPPONENTS, figures, plot, summary, train

    th.set_num_threads(1)
    curves: dict[str, Any] = {}
    summaries = []
    for kind in OPPONENTS:
        for seed in range(seeds):
            with TemporaryDirectory() as folder:
                result = figures(train(kind, rollouts, Path(folder), seed))
            curves.setdefault(kind, result)
            summaries.append({"opponents": kind, "seed": seed, **summary(result)})
            typer.echo(json.dumps(summaries[-1]))
    plot(curves, out)
    if json_file is not None:
        json_file.write_text(json.dumps({"summaries": summaries, "seed": 0, **curves}) + "\n", "utf-8")
