"""Studies as tables in Markdown and as pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.dreamer_studies.runs import (
    COMPARISON,
    RATIOS,
    SCALED,
    SCALING,
    TASKS,
    Learner,
    Lines,
    Task,
    folder_of,
    read_lines,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: All runs that there are, by the name of the learner, one for each seed.
Runs = dict[str, list[Lines]]
#: The score that a learner is to reach: most of what the best gets.
LEVEL = 0.7
BOTH = "both tasks"
REPEATS = 2000  #: Of the bootstrap.


def read_runs(learners: Mapping[str, Learner], out: Path, seeds: int) -> Runs:
    """Returns the runs of a folder: of each learner those that got as far as its furthest, and no unfinished others."""
    found = {}
    for name, learner in learners.items():
        runs = [read_lines(folder_of(out, name, seed)) for seed in learner.seeds(seeds)]
        furthest = max((each[-1]["steps"] for each in runs if each), default=0)
        found[name] = [each for each in runs if each and each[-1]["steps"] == furthest]
    return {name: runs for name, runs in found.items() if runs}


def table(learners: Mapping[str, Learner], runs: Runs) -> str:
    """Returns a row for each learner, of medians over its seeds: when it reached `LEVEL`, its mean and its last score.

    After each number of steps are the hours of play and the CPU hours that they took.
    """
    rows = [["learner", "seeds", f"score of {LEVEL:g} after steps, hours of play, CPU hours", "mean score, last"]]
    rows[0] += ["steps, hours of play, CPU hours", "updates"]
    rows.append(["---"] * len(rows[0]))
    for name, lines in runs.items():
        task = TASKS[learners[name].task]
        reached = [next((line for line in each if task.score(line["return"]) >= LEVEL), None) for each in lines]
        both = [line for line in reached if line is not None]
        # Where most runs have not reached it, there is no median.
        shown = _spent(task, both) if 2 * len(both) > len(lines) else "not reached"
        shown += f" ({len(both)} of {len(lines)} runs)" if len(both) < len(lines) else ""
        last = [each[-1] for each in lines]
        mean = median(fmean(task.score(line["return"]) for line in each) for each in lines)
        score = median(task.score(line["return"]) for line in last)
        updates = median(line["updates"] for line in last)
        rows.append([name, str(len(lines)), shown, f"{mean:.2f}, {score:.2f}", _spent(task, last), f"{updates:,.0f}"])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _spent(task: Task, lines: Sequence[Mapping[str, Any]]) -> str:
    steps, seconds = (median(line[name] for line in lines) for name in ("steps", "cpu_s"))
    return f"{steps:,.0f}, {task.hours(steps):.3f} h, {seconds / 3600:.3f} h"


def draw_scaling(path: Path, runs: Runs) -> None:
    """Draws scores over steps, hours of play and CPU hours: a panel for each ratio, and when `LEVEL` was reached."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    task = TASKS[next(iter(SCALING.values())).task]
    figure = Figure(figsize=(13, 6.4), layout="constrained")
    panels = figure.subplots(2, len(RATIOS), sharex="row", sharey=True)
    colors = {size: f"C{number}" for number, size in enumerate(SCALED)}
    for column, ratio in enumerate(RATIOS):
        for size, color in colors.items():
            for number, lines in enumerate(runs.get(f"{size}, ratio {ratio}", [])):
                label = None if number else size
                for row, shown in enumerate((lines, lines[1:])):  # it starts at no CPU hours
                    scores = [task.score(line["return"]) for line in shown]
                    panels[row][column].plot(_spans(shown)[row], scores, color=color, label=label, linewidth=1.2)
        panels[0][column].set_title(f"{ratio} steps replayed for each", fontsize=10)
        panels[1][column].set_xscale("log")
        panels[1][column].xaxis.set_minor_formatter(NullFormatter())
        _steps_and_hours(panels[0][column], task)
        panels[1][column].set_xlabel("CPU hours of training")
        for panel in panels[:, column]:
            _level(panel)
    for panel in panels[:, 0]:
        panel.set_ylabel("score: 0 random, 1 the best")
    panels[0][0].legend(fontsize=8, title="size")
    figure.suptitle(f"{task.env_id}: larger, and more often trained")
    figure.savefig(path, dpi=110)


def draw_comparison(path: Path, runs: Runs) -> None:
    """Draws the interquartile mean of scores with 95 % intervals: a panel for each task, and one for both."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.4), layout="constrained")
    panels = figure.subplots(1, len(TASKS) + 1, sharey=True)
    algorithms = list(dict.fromkeys(name.partition(",")[0] for name in COMPARISON))
    places = dict(zip((*TASKS, BOTH), panels, strict=True))
    for algorithm, place, group in _groups(runs):
        shares, (middle, low, high) = intervals(group)
        steps = shares * (TASKS[place].steps if place in TASKS else 1)
        color = f"C{algorithms.index(algorithm)}"
        hours = median(lines[-1]["cpu_s"] for each in group.values() for lines in each) / 3600
        places[place].plot(steps, middle, color=color, label=f"{algorithm}, {hours:.3f} CPU hours a run")
        places[place].fill_between(steps, low, high, color=color, alpha=0.18, linewidth=0)
    for panel, (name, task) in zip(panels, TASKS.items(), strict=False):
        panel.set_title(name)
        _steps_and_hours(panel, task)
    panels[-1].set(title=f"{BOTH}, of those who can play both", xlabel="share of the steps")
    for panel in panels:
        _level(panel)
        if panel.get_legend_handles_labels()[0]:
            panel.legend(fontsize=8)
    panels[0].set_ylabel("score: 0 random, 1 the best")
    figure.savefig(path, dpi=110)


def interval_table(runs: Runs) -> str:
    """Returns a row for each algorithm and task: its interquartile mean after the last steps, with its interval."""
    shown = "interquartile mean of the last scores (95 % interval; of three seeds: mean, least to greatest)"
    rows = [f"| algorithm | task | share of the steps | seeds | {shown} |", "|---|---|---|---|---|"]
    for algorithm, place, group in _groups(runs):
        shares, bounds = intervals(group)
        middle, low, high = bounds[:, -1]
        about = f"{algorithm} | {place} | {shares[-1]:.0%} | {min(map(len, group.values()))}"
        rows.append(f"| {about} | {middle:.2f} ({low:.2f} to {high:.2f}) |")
    return "\n".join(rows)


def _groups(runs: Runs) -> Iterator[tuple[str, str, Runs]]:
    """Yields the runs of each algorithm for each task, and those for both if it plays both."""
    for algorithm in dict.fromkeys(name.partition(",")[0] for name in runs):
        own = {name: runs[name] for name in runs if name.partition(",")[0] == algorithm}
        for name, lines in own.items():
            yield algorithm, COMPARISON[name].task, {name: lines}
        if len(own) == len(TASKS):
            yield algorithm, BOTH, own


def intervals(runs: Runs) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns shares of the steps ``(n,)``, and there the interquartile mean and its interval ``(3, n)``.

    The runs are of one algorithm, in one or several tasks; the interval is that of a bootstrap over seeds, stratified
    by tasks. Only what all runs have reached is counted, and only so many seeds as each task has. Tasks are evaluated
    after other shares of their steps: scores are interpolated at those of the first.
    """
    from rliable import library
    from scipy.stats import trim_mean

    seeds = min(map(len, runs.values()))
    curves = [
        [_shares_and_scores(TASKS[COMPARISON[name].task], lines) for lines in runs[name][:seeds]] for name in runs
    ]
    reached = min(shares[-1] for each in curves for shares, _ in each)
    (first, _), *_ = curves[0]
    common = [share for share in first if share <= reached]
    of_seeds = [[np.interp(common, *curve) for curve in each] for each in zip(*curves, strict=True)]
    matrix = np.array(of_seeds)  # (seeds, tasks, evaluations)

    def middle(found: NDArray[np.float64]) -> NDArray[np.float64]:
        # As `rliable.metrics.aggregate_iqm`, for all evaluations at once.
        return np.asarray(trim_mean(found.reshape(-1, len(common)), 0.25, axis=0))

    means, bounds = library.get_interval_estimates(
        {"": matrix}, middle, reps=REPEATS, random_state=np.random.RandomState(0)
    )
    return np.array(common), np.stack([means[""], *bounds[""]])


def _shares_and_scores(task: Task, lines: Lines) -> tuple[list[float], list[float]]:
    return [line["steps"] / task.steps for line in lines], [task.score(line["return"]) for line in lines]


def _spans(lines: Lines) -> tuple[list[float], list[float]]:
    return [line["steps"] for line in lines], [line["cpu_s"] / 3600 for line in lines]


def _steps_and_hours(panel: Axes, task: Task) -> None:
    panel.set_xlabel("environment steps")
    both_ways: Any = (task.hours, lambda hours: hours * 3600 / task.seconds)
    hours = panel.secondary_xaxis("top", functions=both_ways)
    hours.set_xlabel("hours of play", fontsize=8)
    hours.tick_params(labelsize=8)


def _level(panel: Axes) -> None:
    panel.axhline(LEVEL, color="k", linewidth=0.6, linestyle=":")
    panel.grid(alpha=0.3)
