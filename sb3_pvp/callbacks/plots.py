"""How training runs went: figures of the folders that rl-zoo3 leaves, over several seeds, as pictures."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import yaml
from matplotlib.figure import Figure
from numpy.typing import NDArray
from stable_baselines3.common.monitor import load_results

from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.common.names import require_known
from sb3_pvp.matches.evaluation import wilson_interval
from sb3_pvp.selfplay import LEARNER, League
from sb3_pvp.selfplay.leaderboard import of_snapshots

#: What rl-zoo3 writes into ``<run>/<environment>/``, beside ``args.yml``.
CONFIG = "config.yml"
#: Episodes that are averaged in training curves, as in SB3's logs.
WINDOW = 100


@dataclass(frozen=True)
class Run:
    """One training run."""

    folder: Path  #: Where its files are.
    label: str  #: What was trained how: its own name, or the preset's, or that of algorithm and environment.
    seed: int | None  #: ``None`` if it was trained with a random one.
    hyperparams: str  #: The text of what it was trained with.


@dataclass(frozen=True)
class Band:
    """A figure over the training of one run, or of several together; all arrays are ``(n,)``.

    Of several, the center is the interquartile mean, which is the mean of fewer than four, and from ``low`` to ``high``
    goes its 95 % interval, by bootstrapping over runs; of a single run, its own interval, or the center itself.
    """

    steps: NDArray[np.float64]  #: Of all environments, increasing.
    center: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    num_runs: int = 1


class Metric(NamedTuple):
    """Something to plot."""

    title: str  #: Of the axis; ``{opponent}`` stands for whom the learner fought.
    read: Callable[[Path, str], Band]  #: From the folder of a run and an opponent's label.
    share: bool = False  #: Whether it lies between 0 and 1.


def find_runs(sources: Iterable[str]) -> list[Run]:
    """The runs in folders, each given as ``FOLDER`` or ``LABEL=FOLDER``, in their order.

    A folder may be that of a run, or hold some, as ``logs/maskable_ppo`` and ``logs`` do. Raises `ValueError` for a
    folder without any.
    """
    runs: dict[Path, Run] = {}
    for source in sources:
        label, _, folder = source.rpartition("=")
        depths = (Path(folder).glob("*/" * depth + CONFIG) for depth in (1, 2, 3))
        found = next(filter(None, ({path.parent.parent for path in paths} for paths in depths)), None)
        if found is None:
            raise ValueError(f"{folder} holds no training run: there is no {CONFIG} as rl-zoo3 writes it")
        runs |= {each: _read_run(each, label) for each in sorted(found, key=_natural)}
    return list(runs.values())


def group_runs(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Puts runs of one label and the same hyperparameters together; where these differ, the first folder tells."""
    members: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        members.setdefault((run.label, run.hyperparams), []).append(run)
    labels = [label for label, _ in members]
    return {
        label if labels.count(label) == 1 else f"{label} ({group[0].folder.name})": group
        for (label, _), group in members.items()
    }


def read_curve(run: Run, metric: str, opponent: str = "baseline") -> Band:
    """A figure of a run; raises `ValueError` if there is no such metric, or this run has not recorded it."""
    require_known("metric", metric, METRICS)
    try:
        return METRICS[metric].read(run.folder, opponent)
    except FileNotFoundError as error:
        raise ValueError(f"the run {run.folder} has no {metric}: {error.filename or error} is missing") from error


def common_metric(runs: Sequence[Run]) -> str:
    """The first of `METRICS` that all runs have recorded; raises `ValueError` if there is none."""
    for metric in METRICS:
        with contextlib.suppress(ValueError):
            for run in runs:
                read_curve(run, metric)
            return metric
    folders = ", ".join(str(run.folder) for run in runs)
    raise ValueError(f"these runs have none of {', '.join(METRICS)} in common: {folders}")


def summarize(curves: Sequence[Band], seed: int = 0) -> Band:
    """One band of the runs of a group, over the steps that all of them have seen.

    Raises `ValueError` if they have no steps in common.
    """
    if len(curves) == 1:
        return curves[0]
    first, last = max(curve.steps[0] for curve in curves), min(curve.steps[-1] for curve in curves)
    if first > last:
        raise ValueError("runs to be plotted together have no steps in common")
    steps = np.unique(np.concatenate([np.clip(curve.steps, first, last) for curve in curves]))
    values = np.stack([np.interp(steps, curve.steps, curve.center) for curve in curves])
    samples = np.random.default_rng(seed).integers(len(curves), size=(2000, len(curves)))
    low, high = np.quantile([_interquartile_mean(values[sample]) for sample in samples], (0.025, 0.975), axis=0)
    return Band(steps, _interquartile_mean(values), low, high, len(curves))


def draw(path: Path, bands: Mapping[str, Band], title: str, share: bool = False) -> None:
    """Draws a line with its 95 % interval for each label, as a picture of the kind that its suffix says.

    The ``title`` is that of the vertical axis; with ``share`` the values lie between 0 and 1.
    """
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    axes = figure.subplots()
    for number, (label, band) in enumerate(bands.items()):
        runs = "1 run" if band.num_runs == 1 else f"{band.num_runs} runs"
        marker = "o" if len(band.steps) == 1 else ""  # a line of one point is not to be seen
        axes.plot(band.steps / 1e6, band.center, marker=marker, color=f"C{number}", label=f"{label} ({runs})")
        axes.fill_between(band.steps / 1e6, band.low, band.high, color=f"C{number}", alpha=0.18, linewidth=0)
    axes.set(xlabel="million steps", ylabel=title)
    if share:
        axes.set(ylim=(0, 1), yticks=[tenth / 10 for tenth in range(11)])
    axes.grid(alpha=0.3)
    axes.legend(loc="best")
    with replacing(path) as partial:
        figure.savefig(partial, dpi=120, format=path.suffix.lstrip(".") or "png")


def _interquartile_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each column, without a quarter of the rows (rounded down) at either end."""
    cut = len(values) // 4
    middle: NDArray[np.float64] = np.sort(values, axis=0)[cut : len(values) - cut].mean(0)
    return middle


def _natural(folder: Path) -> list[str | int]:
    """rl-zoo3 numbers runs: ``Game_10`` comes after ``Game_9``."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", str(folder))]


def _read_run(folder: Path, label: str) -> Run:
    config = min(folder.glob(f"*/{CONFIG}"))
    path, arguments = config.with_name("args.yml"), dict[str, Any]()
    if path.is_file():  # a Python object as rl-zoo3 dumps it, of which nothing is made but lists
        (pairs,) = yaml.safe_load(path.read_text("utf-8").replace("!!python/object/apply:collections.OrderedDict", ""))
        arguments |= pairs
    conf_file, seed = arguments.get("conf_file"), arguments.get("seed")
    trained = f"{arguments.get('algo')}, {arguments.get('env')}" if arguments else folder.name
    label = label or (Path(conf_file).stem if conf_file else trained)
    return Run(folder, label, seed if isinstance(seed, int) and seed >= 0 else None, config.read_text("utf-8"))


def _line(steps: NDArray[np.float64], values: NDArray[np.float64]) -> Band:
    return Band(steps, values, values, values)


def _win_rate(folder: Path, opponent: str) -> Band:
    rows = pd.read_csv(folder / "win_rates.csv", dtype={"opponent": str})
    require_known(f"opponent in {folder / 'win_rates.csv'}", opponent, rows["opponent"].unique())
    figures = rows.loc[rows["opponent"] == opponent, ["steps", "win_rate", "win_rate_low", "win_rate_high"]]
    return Band(*figures.to_numpy(np.float64).T)


def _eval_win_rate(folder: Path, opponent: str) -> Band:
    with np.load(folder / "evaluations.npz") as file:
        if "successes" not in file:
            raise ValueError(f"{folder / 'evaluations.npz'} does not say which fights were won")
        steps, won = file["timesteps"].astype(np.float64), file["successes"]
    low, high = np.transpose([wilson_interval(int(each.sum()), len(each)) for each in won])
    return Band(steps, won.mean(1), low, high)


def _eval_reward(folder: Path, opponent: str) -> Band:
    with np.load(folder / "evaluations.npz") as file:
        return _line(file["timesteps"].astype(np.float64), file["results"].mean(1))


def _episodes(column: str) -> Callable[[Path, str], Band]:
    def read(folder: Path, opponent: str) -> Band:
        if not any(folder.glob("*monitor.csv")):
            raise FileNotFoundError(f"{folder}/*.monitor.csv")
        episodes = load_results(str(folder))
        if episodes.empty:
            raise ValueError(f"no episode has ended in {folder} yet")
        means = episodes[column].rolling(WINDOW, min_periods=1).mean().to_numpy(np.float64)
        shown = np.unique(np.linspace(0, len(means) - 1, 500).round().astype(int))
        return _line(episodes["l"].cumsum().to_numpy(np.float64)[shown], means[shown])

    return read


def _elo(folder: Path, opponent: str) -> Band:
    ratings = League.existing(folder).ratings().elo.ratings
    own = sorted((player.age, rating) for player, rating in ratings.items() if player.name == LEARNER)
    return _line(*np.array(own, float).reshape(-1, 2).T)


def _rating(folder: Path, opponent: str) -> Band:
    own = of_snapshots(League.existing(folder).leaderboard(rollouts=False), LEARNER)
    rows = [(step, each.rating, each.low, each.high) for step, each in own]
    return Band(*np.array(rows, float).reshape(-1, 4).T)


METRICS = {
    "win_rate": Metric("win rate against {opponent}", _win_rate, share=True),
    "eval_win_rate": Metric("win rate in an evaluation", _eval_win_rate, share=True),
    "eval_reward": Metric("mean reward of an evaluation", _eval_reward),
    "episode_reward": Metric(f"reward in training, mean of {WINDOW} episodes", _episodes("r")),
    "episode_length": Metric(f"steps of an episode in training, mean of {WINDOW}", _episodes("l")),
    "elo": Metric("Elo rating of the learner", _elo),
    "rating": Metric("Bradley-Terry rating of the learner's snapshots", _rating),
}
