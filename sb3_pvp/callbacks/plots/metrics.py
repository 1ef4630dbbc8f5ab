"""What can be plotted of a run, and where its folder says it."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.callbacks.plots.run_folders import Run
from sb3_pvp.common.names import require_known, unknown_name
from sb3_pvp.selfplay import LEARNER, League
from sb3_pvp.selfplay.leaderboard import of_snapshots

#: Episodes that are averaged in training curves, as in SB3's logs.
WINDOW = 100
#: Training curves have so many points at most.
POINTS = 500


@dataclass(frozen=True)
class Curve:
    """One figure of a run over its training."""

    steps: NDArray[np.float64]  #: Of all environments, increasing ``(n,)``.
    values: NDArray[np.float64]  #: ``(n,)``
    interval: NDArray[np.float64] | None = None  #: 95 % intervals ``(2, n)``, low and high; ``None``: not known.


@dataclass(frozen=True)
class Metric:
    """Something to plot."""

    title: str  #: Of the axis; ``{opponent}`` stands for whom the learner fought.
    read: Callable[[Path, str], Curve]  #: From the folder of a run and an opponent's label.
    share: bool = False  #: Whether it lies between 0 and 1.


def read_curve(run: Run, metric: str, opponent: str = "baseline") -> Curve:
    """A figure of a run; raises `ValueError` if there is no such metric, or this run has not recorded it."""
    require_known("metric", metric, METRICS)
    try:
        return METRICS[metric].read(run.folder, opponent)
    except FileNotFoundError as error:
        raise ValueError(f"the run {run.folder} has no {metric}: {error.filename or error} is missing") from error


def common_metric(runs: Iterable[Run]) -> str:
    """The first of `METRICS` that all runs have recorded; raises `ValueError` if there is none."""
    runs = list(runs)
    for metric in METRICS:
        with contextlib.suppress(ValueError):
            for run in runs:
                read_curve(run, metric)
            return metric
    folders = ", ".join(str(run.folder) for run in runs)
    raise ValueError(f"these runs have none of {', '.join(METRICS)} in common: {folders}")


def _win_rate(folder: Path, opponent: str) -> Curve:
    with (folder / "win_rates.csv").open(encoding="utf-8", newline="") as file:
        every = list(csv.DictReader(file))
    rows = [row for row in every if row["opponent"] == opponent]
    if not rows:
        raise unknown_name(f"opponent in {folder / 'win_rates.csv'}", opponent, {row["opponent"] for row in every})
    names = ("steps", "win_rate", "win_rate_low", "win_rate_high")
    steps, rate, low, high = np.array([[float(row[name]) for name in names] for row in rows]).T
    return Curve(steps, rate, np.stack([low, high]))


def _eval_reward(folder: Path, opponent: str) -> Curve:
    with np.load(folder / "evaluations.npz") as file:
        return Curve(file["timesteps"].astype(np.float64), file["results"].mean(1))


def _episodes(column: str) -> Callable[[Path, str], Curve]:
    def read(folder: Path, opponent: str) -> Curve:
        from stable_baselines3.common.monitor import LoadMonitorResultsError, load_results

        try:
            episodes = load_results(str(folder))
        except LoadMonitorResultsError as error:
            raise FileNotFoundError(f"{folder}/*.monitor.csv") from error
        if episodes.empty:
            raise ValueError(f"no episode has ended in {folder} yet")
        means = episodes[column].rolling(WINDOW, min_periods=1).mean().to_numpy(np.float64)
        shown = np.unique(np.linspace(0, len(means) - 1, POINTS).round().astype(int))
        return Curve(episodes["l"].cumsum().to_numpy(np.float64)[shown], means[shown])

    return read


def _elo(folder: Path, opponent: str) -> Curve:
    ratings = _league(folder).ratings().elo.ratings
    own = sorted((player.age, rating) for player, rating in ratings.items() if player.name == LEARNER)
    steps, values = np.array(own, float).reshape(-1, 2).T
    return Curve(steps, values)


def _rating(folder: Path, opponent: str) -> Curve:
    own = of_snapshots(_league(folder).leaderboard(rollouts=False), LEARNER)
    rows = [(step, each.rating, each.low, each.high) for step, each in own]
    steps, values, *interval = np.array(rows, float).reshape(-1, 4).T
    return Curve(steps, values, np.stack(interval))


def _league(folder: Path) -> League:
    if not (folder / "league").is_dir():
        raise FileNotFoundError(str(folder / "league"))
    return League.existing(folder / "league")


METRICS = {
    "win_rate": Metric("win rate against {opponent}", _win_rate, share=True),
    "eval_reward": Metric("mean reward of an evaluation", _eval_reward),
    "episode_reward": Metric(f"reward in training, mean of {WINDOW} episodes", _episodes("r")),
    "episode_length": Metric(f"steps of an episode in training, mean of {WINDOW}", _episodes("l")),
    "elo": Metric("Elo rating of the learner", _elo),
    "rating": Metric("Bradley-Terry rating of the learner's snapshots", _rating),
}
