"""Runs that differ in their seeds only, and what they show together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.callbacks.plots.metrics import Curve
from sb3_pvp.callbacks.plots.run_folders import Run
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
    """What runs show together.

    Attributes:
        steps, center: ``(n,)``; the center is the interquartile mean, which is the mean of fewer than four runs.
        low, high: its 95 % interval ``(n,)``, by bootstrapping over runs; of a single run, its own interval, or the
            center itself.
        num_runs: how many.
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
    low, high = _bootstrap(values, seed)
    return Band(steps, _interquartile_mean(values, axis=0), low, high, len(curves))


def _interquartile_mean(values: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    from scipy.stats import trim_mean

    return np.asarray(trim_mean(values, 0.25, axis=axis))


def _bootstrap(values: NDArray[np.float64], seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    try:
        from scipy.stats import bootstrap
    except ImportError as error:
        raise MissingExtra(f'several seeds need SciPy: pip install "sb3-pvp[plots]" ({error})') from error

    interval = bootstrap(
        (values,),
        _interquartile_mean,
        axis=0,
        n_resamples=RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return np.asarray(interval.low), np.asarray(interval.high)
