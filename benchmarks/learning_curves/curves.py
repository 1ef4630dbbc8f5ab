"""Learning curves as JSON, as a plot, and as a Markdown table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any

from benchmarks.learning_curves.records import SETTINGS, Evaluation, read_evaluations, read_settings
from sb3_pvp.common.atomic_files import write_atomically

MILESTONES = (0.8, 0.9, 0.95, 0.97, 0.985)
#: Million steps of self-play and win rate of the original system's published fighters (docs/spec/training.md).
ORIGINAL = ((20.0, 0.90), (170.0, 0.98))
#: A picture shows win rates up to this: its scale stretches towards 1, which it never reaches.
HIGHEST = 0.997


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
    def group(self) -> str:
        """The name of what the runs of several seeds have in common."""
        preset, variant = self.settings["preset"], self.settings["variant"]
        return str(preset if variant == "full" else variant)

    @property
    def label(self) -> str:
        """The run's name in tables."""
        return f"{self.group}, seed {self.settings['seed']}"

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
    """Returns a Markdown table of agent steps and CPU seconds until each of `MILESTONES` was first reached.

    A group of several seeds also has a row of medians, in which a milestone counts if most seeds have reached it.
    """
    head = ["run", "untrained", *(f"{share:.1%}".replace(".0%", "%") for share in MILESTONES), "last"]
    rows = []
    for name, group in _groups(curves).items():
        if len(group) > 1:
            rows.append(
                [f"**{name}, median of {len(group)}**", "", *(_median(group, share) for share in MILESTONES), ""]
            )
        for curve in group:
            reached = (_when(curve.first_at(share)) for share in MILESTONES)
            rows.append([curve.label, _untrained(curve), *reached, _last(curve)])
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def draw(path: Path, curves: Sequence[Curve]) -> None:
    """Plots win rates over steps and over CPU minutes, with the original system's for comparison."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5.6), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for number, (name, group) in enumerate(_groups(curves).items()):
        style = "-" if all(each.settings["variant"] == "full" for each in group) else "--"
        for curve, label in zip(group, [name, *[None] * len(group)], strict=False):
            # A logarithmic axis has no place for the untrained model, at 0 steps.
            evaluations = [each for each in curve.evaluations if each.steps]
            rates = [min(each.win_rate, HIGHEST) for each in evaluations]
            across = [each.steps / 1e6 for each in evaluations], [each.cpu_s / 60 for each in evaluations]
            for axis, x in zip(axes, across, strict=True):
                axis.plot(x, rates, style, color=f"C{number}", label=label, linewidth=1, alpha=0.8)
    axes[0].plot(*zip(*ORIGINAL, strict=True), "k*", label="the original system (self-play)")
    shown = (0.2, 0.5, *MILESTONES, 0.995)
    for axis, label in zip(axes, ("million agent steps", "CPU minutes of training"), strict=True):
        axis.set(xlabel=label, xscale="log", yscale="logit", ylim=(0.15, HIGHEST))
        axis.set_yticks(shown, [f"{100 * share:g} %" for share in shown])
        axis.set_yticks([], minor=True)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("win rate against the baseline bot")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(path, dpi=120)


def _groups(curves: Sequence[Curve]) -> dict[str, list[Curve]]:
    groups: dict[str, list[Curve]] = {}
    for curve in curves:
        groups.setdefault(curve.group, []).append(curve)
    return groups


def _median(group: Sequence[Curve], share: float) -> str:
    """Returns the CPU seconds after which the middle one of a group reached a win rate."""
    seconds = sorted(each.cpu_s if (each := curve.first_at(share)) else inf for curve in group)
    middle = seconds[len(group) // 2]  # of an even number the slower one
    return "-" if middle == inf else f"**{middle:,.0f} CPU s**"


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
