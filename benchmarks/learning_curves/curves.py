"""Learning curves as JSON, as a plot, and as a Markdown table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.learning_curves.records import SETTINGS, Evaluation, read_evaluations, read_settings
from sb3_pvp.common.atomic_files import write_atomically

MILESTONES = (0.5, 0.8, 0.9, 0.95)


@dataclass(frozen=True)
class Curve:
    """The evaluations of one run.

    Attributes:
        settings: ``preset``, ``variant``, ``seed`` and ``hyperparams`` of the run.
        evaluations: oldest first.
    """

    settings: dict[str, Any]
    evaluations: Sequence[Evaluation]

    @property
    def label(self) -> str:
        """The run's name in plots and tables."""
        what = self.settings["preset"] if self.settings["variant"] == "full" else self.settings["variant"]
        return f"{what}, seed {self.settings['seed']}"

    def first_at(self, win_rate: float) -> Evaluation | None:
        """Returns the first evaluation whose point estimate of the win rate is at least ``win_rate``."""
        return next((each for each in self.evaluations if each.win_rate >= win_rate), None)


def read_curves(sources: Iterable[Path]) -> list[Curve]:
    """Reads the curves in folders of runs and JSON files of `write_curves`; raises ``ValueError`` for anything else."""
    curves = [curve for source in sources for curve in (_from_json(source) if source.is_file() else [_of(source)])]
    for curve in curves:
        if not curve.evaluations:
            raise ValueError(f"the run {curve.label} has no evaluation yet")
    return curves


def write_curves(path: Path, curves: Sequence[Curve]) -> None:
    """Writes the curves as JSON for `read_curves`."""
    write_atomically(path, json.dumps([asdict(curve) for curve in curves], indent=1) + "\n")


def table(curves: Sequence[Curve]) -> str:
    """Returns a Markdown table of agent steps and CPU seconds until each of `MILESTONES` was first reached."""
    head = ["run", "untrained", *(f"{share:.0%}" for share in MILESTONES), "last"]
    rows = [
        [curve.label, _untrained(curve), *(_when(curve.first_at(share)) for share in MILESTONES), _last(curve)]
        for curve in curves
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def draw(path: Path, curves: Sequence[Curve]) -> None:
    """Plots win rates with their intervals over steps and over CPU minutes, on log scales that show the beginning."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5.2), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for number, curve in enumerate(curves):
        # A logarithmic axis has no place for the untrained model, at 0 steps.
        evaluations = [each for each in curve.evaluations if each.steps]
        low, high = zip(*(each.ci95 for each in evaluations), strict=True) if evaluations else ((), ())
        across = [[each.steps / 1e6 for each in evaluations], [each.cpu_s / 60 for each in evaluations]]
        style = "-" if curve.settings["variant"] == "full" else "--"
        for axis, x in zip(axes, across, strict=True):
            axis.plot(x, [each.win_rate for each in evaluations], style, color=f"C{number}", label=curve.label)
            axis.fill_between(x, low, high, color=f"C{number}", alpha=0.12, linewidth=0)
    for axis, label in zip(axes, ("million agent steps", "CPU minutes of training"), strict=True):
        axis.set(xlabel=label, xscale="log", ylim=(0, 1), yticks=[share / 10 for share in range(11)])
        axis.axhline(0.9, color="black", linewidth=0.8, linestyle=":")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("win rate against the baseline bot")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(len(curves), 4))
    figure.savefig(path, dpi=120)


def _of(folder: Path) -> Curve:
    return Curve(read_settings(folder), read_evaluations(folder))


def _from_json(path: Path) -> list[Curve]:
    try:
        entries = json.loads(path.read_text())
        return [Curve(each["settings"], [Evaluation.read(line) for line in each["evaluations"]]) for each in entries]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} holds no curves; name the folder of a run (with {SETTINGS}): {error}") from error


def _when(evaluation: Evaluation | None) -> str:
    return "-" if evaluation is None else f"{_millions(evaluation)}, {evaluation.cpu_s:,.0f} CPU s"


def _untrained(curve: Curve) -> str:
    first = curve.evaluations[0]
    return "-" if first.steps else f"{first.win_rate:.1%}"


def _last(curve: Curve) -> str:
    last = curve.evaluations[-1]
    low, high = last.ci95
    return f"{last.win_rate:.1%} ({low:.1%} to {high:.1%}) after {_millions(last)}, {last.cpu_s / 60:.0f} CPU min"


def _millions(evaluation: Evaluation) -> str:
    return f"{evaluation.steps / 1e6:.2f} M steps"
