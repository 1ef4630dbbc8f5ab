"""Curves of team play as JSON, as a picture, and as a Markdown table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from pydantic import BaseModel, ValidationError

from sb3_pvp.common.atomic_files import replacing, write_atomically

#: Methods in the order of the table, with the names that they have in it.
NAMES = {"untrained": "untrained", "ppo": "independent PPO", "terminal": "death is terminal", "mapoca": "MA-POCA"}
BINS = 40  #: Points of a curve.


class Point(BaseModel):
    """What has happened after some steps."""

    agent_steps: int
    episodes: int
    cpu_s: float
    score: float  #: Mean over the episodes since the last point.
    last: float  #: Mean over the last episodes, as many as the proof says.


class TeamRun(BaseModel):
    """A run: what was learned how, and its curve."""

    proof: str
    method: str
    seed: int
    settings: dict[str, Any]
    points: list[Point]

    def lines(self) -> str:
        """Returns the run as JSON lines: first all but the points, then a line for each of them."""
        head = self.model_dump_json(exclude={"points"})
        return "\n".join([head, *(each.model_dump_json() for each in self.points)]) + "\n"


def read_runs(paths: Iterable[Path]) -> list[TeamRun]:
    """Reads files of runs, and those of `write_runs`; `ValueError` for anything else, and for a run without a point."""
    found = [run for path in paths for run in _read(path)]
    for run in found:
        if not run.points:
            raise ValueError(f"{run.proof}, {run.method}, seed {run.seed}: no episode has ended; train for longer")
    return sorted(found, key=lambda run: (_order(run), run.seed))


def _read(path: Path) -> list[TeamRun]:
    try:
        if path.suffix == ".json":
            return [TeamRun.model_validate(each) for each in json.loads(path.read_text())]
        head, *points = map(json.loads, path.read_text().splitlines())
        return [TeamRun(**head, points=points)]
    except (ValueError, TypeError) as error:
        said = "not the fields of a run" if isinstance(error, ValidationError) else error
        raise ValueError(f"{path} is no file of team_play train: {said}") from error


def _order(run: TeamRun) -> int:
    return [*NAMES].index(run.method)


def write_runs(path: Path, runs: Sequence[TeamRun]) -> None:
    """Writes the runs as JSON for `read_runs`."""
    write_atomically(path, "[\n" + ",\n".join(run.model_dump_json() for run in runs) + "\n]\n")


def table(runs: Sequence[TeamRun]) -> str:
    """Returns a Markdown table of the last episodes: means over the seeds, with the lowest and the highest seed."""
    rows = [["", *NAMES.values()], ["---"] * (len(NAMES) + 1)]
    for proof in dict.fromkeys(run.proof for run in runs):
        own = {
            name: [run.points[-1].last for run in runs if (run.proof, run.method) == (proof, name)] for name in NAMES
        }
        rows.append([proof.replace("_", " "), *(_cell(each) for each in own.values())])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(scores: Sequence[float]) -> str:
    if len(scores) < 2:
        return "".join(f"{each:.2f}" for each in scores)
    return f"{mean(scores):.2f} ({min(scores):.2f} to {max(scores):.2f})"


def draw(path: Path, runs: Sequence[TeamRun]) -> None:
    """Draws a panel for each proof: the mean over the seeds, and the range between them."""
    from matplotlib.figure import Figure

    proofs = [*dict.fromkeys(run.proof for run in runs)]
    figure = Figure(figsize=(4.6 * len(proofs), 3.8), layout="constrained")
    panels = figure.subplots(1, len(proofs), squeeze=False)[0]
    for panel, proof in zip(panels, proofs, strict=True):
        for number, (method, name) in enumerate(NAMES.items()):
            own = [run for run in runs if (run.proof, run.method) == (proof, method)]
            if method == "untrained" and own:
                panel.axhline(mean(run.points[-1].last for run in own), color="0.6", linestyle=":", label=name)
            elif own:
                _draw_method(panel, own, f"C{number - 1}", name)
        scores = own[0].settings["score"] if own else ""
        panel.set(title=proof.replace("_", " "), xlabel="thousand agent-steps")
        panel.set_ylabel({"success": "share of matches won", "return": "return of the team"}.get(scores, ""))
        panel.grid(alpha=0.3)
    labels = {text: line for panel in panels for line, text in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(labels.values(), labels.keys(), loc="outside lower center", ncols=len(NAMES))
    with replacing(path) as partial:
        figure.savefig(partial, format="png", dpi=110)


def _draw_method(panel: Any, runs: Sequence[TeamRun], color: str, name: str) -> None:
    first, last = max(run.points[0].agent_steps for run in runs), min(run.points[-1].agent_steps for run in runs)
    steps, scores = np.linspace(first, last, BINS), []
    for run in runs:
        at = [each.agent_steps for each in run.points]
        scores.append(np.interp(steps, at, [each.score for each in run.points]))
    panel.plot(steps / 1000, np.mean(scores, 0), color=color, label=name)
    panel.fill_between(steps / 1000, np.min(scores, 0), np.max(scores, 0), color=color, alpha=0.2, linewidth=0)
