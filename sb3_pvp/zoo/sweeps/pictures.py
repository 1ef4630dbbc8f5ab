"""Pictures of a study. Trials that were stopped early stand, in grey, where they were stopped."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import optuna
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial, TrialState

from sb3_pvp.zoo.sweeps.study import read_settings

_COLUMNS = 5
#: So many characters fit below one of the slices.
_WIDE = 24
#: On axes as long as these only powers of ten have their numbers.
_MANY_DECADES = 1.7
#: The least number of finished trials of which a best share can be compared with the others.
_ENOUGH_TO_COMPARE = 4


def draw_history(study: optuna.Study) -> Figure:
    """Results in the order of trials, and the best one so far."""
    complete, stopped = _trials(study)
    figure, axes = _new_figure("trial", _result(study))
    _scatter(axes, [[trial.number for trial in trials] for trials in (complete, stopped)], complete, stopped)
    best = np.maximum.accumulate([_value(trial) for trial in complete])
    axes.step([trial.number for trial in complete], best, where="post", color="C1", label="best so far")
    axes.legend()
    return figure


def draw_courses(study: optuna.Study) -> Figure:
    """How results developed during the trials."""
    complete, stopped = _trials(study)
    figure, axes = _new_figure("evaluation", _result(study))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    best = max(complete, key=_value)
    for trial in [*stopped, *complete]:
        style: dict[str, Any] = {"color": "C1", "linewidth": 2.5} if trial is best else {"color": "C0", "alpha": 0.4}
        style = {"color": "0.7"} if trial in stopped else style
        axes.plot(*zip(*sorted(trial.intermediate_values.items()), strict=True), marker=".", **style)
    axes.set_title(f"trials to their end, the best one ({best.number}), and stopped ones", fontsize="medium")
    return figure


def draw_importances(study: optuna.Study) -> Figure:
    """How much of what sets the better trials apart each parameter accounts for (PED-ANOVA)."""
    complete, _ = _trials(study)
    if len(complete) < _ENOUGH_TO_COMPARE:
        raise ValueError(f"needs {_ENOUGH_TO_COMPARE} trials that came to their end")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importances = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
    figure, axes = _new_figure("share of what sets the better trials apart", "")
    axes.barh(list(importances)[::-1], list(importances.values())[::-1])
    return figure


def draw_slices(study: optuna.Study) -> Figure:
    """Results over the values of each parameter."""
    complete, stopped = _trials(study)
    names = list(dict.fromkeys(name for trial in complete for name in trial.params))
    rows = math.ceil(len(names) / _COLUMNS)
    figure = Figure(figsize=(3 * _COLUMNS, 2.6 * rows), layout="constrained")
    for number, name in enumerate(names):
        axes = figure.add_subplot(rows, _COLUMNS, number + 1, xlabel=name)
        _slice(axes, name, complete, [trial for trial in stopped if name in trial.params])
    figure.supylabel(_result(study))
    return figure


PICTURES: dict[str, Callable[[optuna.Study], Figure]] = {
    "history": draw_history,
    "courses": draw_courses,
    "importances": draw_importances,
    "slices": draw_slices,
}


def _slice(axes: Axes, name: str, complete: list[FrozenTrial], stopped: list[FrozenTrial]) -> None:
    distribution = complete[0].distributions[name]
    places = [[trial.params[name] for trial in trials] for trials in (complete, stopped)]
    if isinstance(distribution, CategoricalDistribution):
        choices = list(distribution.choices)
        places = [[choices.index(value) for value in values] for values in places]
        names = list(map(str, choices))
        axes.set_xticks(range(len(choices)), names, fontsize="small" if len("".join(names)) > _WIDE else None)
        axes.set_xlim(-0.5, len(choices) - 0.5)
    elif isinstance(distribution, FloatDistribution) and distribution.log:
        axes.set_xscale("log")
        has_room = math.log10(distribution.high / distribution.low) < _MANY_DECADES
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if has_room else (1,)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
    _scatter(axes, places, complete, stopped)


def _scatter(axes: Axes, places: list[list[float]], complete: list[FrozenTrial], stopped: list[FrozenTrial]) -> None:
    axes.scatter(places[1], list(map(_value, stopped)), s=18, color="0.7", label="stopped early")
    axes.scatter(places[0], list(map(_value, complete)), s=22, color="C0", label="to the end")


def _result(study: optuna.Study) -> str:
    pool = read_settings(study).measure.get("reference_pool")
    return "mean reward" if pool is None else f"win rate against {', '.join(pool)}"


def _new_figure(xlabel: str, ylabel: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(8, 5), layout="constrained")
    return figure, figure.add_subplot(xlabel=xlabel, ylabel=ylabel)


def _trials(study: optuna.Study) -> tuple[list[FrozenTrial], list[FrozenTrial]]:
    """Trials that came to their end, and those with a result that were stopped early."""
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    stopped = study.get_trials(deepcopy=False, states=(TrialState.PRUNED,))
    if not complete:
        raise ValueError("no trial has come to its end yet")
    return complete, [trial for trial in stopped if trial.value is not None]


def _value(trial: FrozenTrial) -> float:
    assert trial.value is not None
    return trial.value
