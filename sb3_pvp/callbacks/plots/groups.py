"""Runs that differ in their seeds only, what they show together, and that as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.callbacks.plots.metrics import Curve
from sb3_pvp.callbacks.plots.run_folders import Run
from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.common.errors import MissingExtra

#: Bootstrap samples of an interval.
RESAMPLES = 2000


@dataclass(frozen=True)
class Group:
    """Runs of the same label and hyperparameters."""

    label: str
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Band:
    """What so many runs show together; all arrays are ``(n,)``.

    The center is the interquartile mean, which is the mean of fewer than four runs. From ``low`` to ``high`` goes its
    95 % interval, by bootstrapping over runs; of a single run, its own interval, or the center itself.
    """

    steps: NDArray[np.float64]
    center: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    num_runs: int


def group_runs(runs: Sequence[Run]) -> list[Group]:
    """Puts runs of one label and the same hyperparameters together; where these differ, the first folder tells."""
    members: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        members.setdefault((run.label, run.hyperparams), []).append(run)
    labels = [label for label, _ in members]
    return [
        Group(label if labels.count(label) == 1 else f"{label} ({group[0].folder.name})", tuple(group))
        for (label, _), group in members.items()
    ]


def summarize(curves: Sequence[Curve], seed: int = 0) -> Band:
    """One band of the curves of a group, over the steps that all of them have seen.

    Raises:
        ValueError: if they have no steps in common.
        ImportError: for several curves without SciPy.
    """
    if len(curves) == 1:
        (curve,) = curves
        low, high = (curve.values, curve.values) if curve.interval is None else curve.interval
        return Band(curve.steps, curve.values, low, high, 1)
    first, last = max(curve.steps[0] for curve in curves), min(curve.steps[-1] for curve in curves)
    if first > last:
        raise ValueError("runs to be plotted together have no steps in common")
    steps = np.unique(np.concatenate([np.clip(curve.steps, first, last) for curve in curves]))
    values = np.stack([np.interp(steps, curve.steps, curve.values) for curve in curves])
    try:
        from scipy.stats import bootstrap, trim_mean
    except ImportError as error:
        raise MissingExtra(f'several seeds need SciPy: pip install "sb3-pvp[plots]" ({error})') from error

    interquartile_mean, rng = partial(trim_mean, proportiontocut=0.25), np.random.default_rng(seed)
    found = bootstrap((values,), interquartile_mean, axis=0, n_resamples=RESAMPLES, method="percentile", rng=rng)
    low, high = (np.asarray(end) for end in (found.confidence_interval.low, found.confidence_interval.high))
    return Band(steps, np.asarray(interquartile_mean(values, axis=0)), low, high, len(curves))


def draw(path: Path, bands: Mapping[str, Band], title: str, share: bool = False) -> None:
    """Draws a line with its 95 % interval for each label, as a picture of the kind that its suffix says.

    The ``title`` is that of the vertical axis; with ``share`` the values lie between 0 and 1.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.5), layout="constrained")
    axes = figure.subplots()
    for number, (label, band) in enumerate(bands.items()):
        runs = "1 run" if band.num_runs == 1 else f"{band.num_runs} runs"
        axes.plot(band.steps / 1e6, band.center, color=f"C{number}", label=f"{label} ({runs})")
        axes.fill_between(band.steps / 1e6, band.low, band.high, color=f"C{number}", alpha=0.18, linewidth=0)
    axes.set(xlabel="million steps", ylabel=title)
    if share:
        axes.set(ylim=(0, 1), yticks=[tenth / 10 for tenth in range(11)])
    axes.grid(alpha=0.3)
    axes.legend(loc="best")
    with replacing(path) as partial:
        figure.savefig(partial, dpi=120, format=path.suffix.lstrip(".") or "png")
