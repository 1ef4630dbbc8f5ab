"""Plots learning curves of rl-zoo3's run folders, aggregated over several seeds."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel
from stable_baselines3.common.monitor import load_results

from sb3_pvp.common.atomic_files import DamagedFile, reading, replacing, skipping_damage
from sb3_pvp.common.errors import extra, one_line, require_known
from sb3_pvp.common.pictures import new_figure
from sb3_pvp.common.plain_yaml import read_ordered_dict
from sb3_pvp.matches.evaluation import wilson_interval
from sb3_pvp.players.league import LEARNER, League
from sb3_pvp.players.league.leaderboard import snapshot_standings
from sb3_pvp.players.league.league import LEAGUE

CONFIG = "config.yml"  #: What rl-zoo3 writes to ``<run>/<environment>/``: hyperparameters, next to ``args.yml``.
WINDOW = 100  #: Episodes in the moving average of training curves, as in SB3's logs.
_BOOTSTRAP_SAMPLES = 2000  #: Of runs, for a 95 % interval.
_MAX_POINTS = 500  #: Most points of a training curve: more cannot be seen in a figure.


@dataclass(frozen=True)
class Run:
    """One training run."""

    folder: Path  #: The run folder.
    label: str  #: A given label, or the preset's name, or algorithm and environment.
    seed: int | None  #: ``None`` if the run had a random seed.
    hyperparams: str  #: The text of its `CONFIG` file.
    arguments: Mapping[str, Any] = field(default_factory=dict)  #: Of rl-zoo3's command; empty if they are unknown.


class _Arguments(BaseModel, extra="allow", strict=True):
    """What is used of rl-zoo3's ``args.yml``, if it is there."""

    algo: str | None = None
    env: str | None = None
    conf_file: str | None = None
    seed: int | None = None
    n_timesteps: int | None = None
    trained_agent: str | None = None


@dataclass(frozen=True)
class Band:
    """A curve with an interval, of one run or of several runs together; all arrays are ``(n,)``.

    For several runs, ``center`` is their interquartile mean (the plain mean of fewer than four), and ``low`` and
    ``high`` are its 95 % interval by bootstrapping over runs. For a single run they are the metric's own interval, or
    equal to ``center`` if it has none.
    """

    steps: NDArray[np.float64]  #: Steps of all environments, increasing.
    center: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    num_runs: int = 1

    @classmethod
    def plain(cls, steps: NDArray[np.float64], values: NDArray[np.float64]) -> Band:
        """Returns the curve of a single run without an interval."""
        return cls(steps, values, values, values)


class CurveMetric(NamedTuple):
    """A metric that can be plotted."""

    title: str  #: Of the vertical axis; ``{opponent}`` is replaced by the opponent's label.
    read: Callable[[Path, str], Band]  #: Reads the curve, given the run folder and the opponent's label.
    share: bool = False  #: Whether its values are between 0 and 1.


def find_runs(sources: Iterable[str]) -> list[Run]:
    """Returns the runs in folders, each given as ``FOLDER`` or ``LABEL=FOLDER``, in this order.

    A folder may be a run folder, or contain some, as ``logs/maskable_ppo`` and ``logs`` do. Raises `ValueError` for a
    folder without any run.
    """
    runs: dict[Path, Run] = {}
    for source in sources:
        # Names of folders, such as ``lr=0.1``, may have the sign as well: what is there counts.
        folders = [source, *(source[sign.end() :] for sign in re.finditer("=", source))]
        folder = next((each for each in folders if Path(each).exists()), folders[-1])
        label = source.removesuffix(folder).removesuffix("=")
        # The folder is a run, an algorithm's folder or a log folder: the first level with runs counts.
        depths = (Path(folder).glob("*/" * depth + CONFIG) for depth in (1, 2, 3))
        found = next(filter(None, ({path.parent.parent for path in paths} for paths in depths)), None)
        if found is None:
            raise ValueError(f"{folder} holds no training run: rl-zoo3 writes a {CONFIG} for each, and none was found")
        runs |= {each: _read_run(each, label) for each in sorted(found, key=_natural_order)}
    return list(runs.values())


def group_runs(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Groups runs by label and hyperparameters; if groups share a label, their first folders are added to it."""
    members: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        members.setdefault((run.label, run.hyperparams), []).append(run)
    labels = [label for label, _ in members]
    return {
        label if labels.count(label) == 1 else f"{label} ({group[0].folder.name})": group
        for (label, _), group in members.items()
    }


def read_curve(run: Run, metric: str, opponent: str = "baseline") -> Band:
    """Returns the curve of a metric; raises `ValueError` if the metric is unknown or this run has not recorded it."""
    require_known("metric", metric, METRICS)
    try:
        band = METRICS[metric].read(run.folder, opponent)
        is_empty = len(band.steps) == 0
    except FileNotFoundError as error:
        raise ValueError(f"the run {run.folder} has no {metric}: {error.filename or error} is missing") from error
    except (TypeError, LookupError, ArithmeticError) as error:  # it can be read, and is of no use
        raise DamagedFile(f"{run.folder}: its {metric} is damaged ({one_line(error):.200})") from error
    if is_empty:
        raise ValueError(f"the run {run.folder} has no {metric} yet")
    return band


def read_curves(runs: Iterable[Run], metric: str, opponent: str = "baseline") -> list[Band]:
    """Returns the curves as `read_curve` does; runs whose files are damaged are skipped with a warning."""
    curves = []
    for run in runs:
        with skipping_damage():
            curves.append(read_curve(run, metric, opponent))
    return curves


def read_evaluations(path: Path) -> dict[str, NDArray[Any]]:
    """Returns what SB3's ``EvalCallback`` has written; raises `DamagedFile`, since it does not write atomically."""
    with reading(path), np.load(path) as file:
        return {"timesteps": file["timesteps"], **{name: file[name] for name in file.files}}


def read_arguments(path: Path) -> dict[str, Any]:
    """Returns the arguments in rl-zoo3's ``args.yml``; none if it is missing or, with a warning, if it is damaged."""
    found: dict[str, Any] = {}
    with contextlib.suppress(FileNotFoundError), skipping_damage(), reading(path):
        found = _Arguments.model_validate(read_ordered_dict(path)).model_dump(exclude_unset=True)
    return found


def common_metric(runs: Sequence[Run]) -> str:
    """Returns the first of `METRICS` that all runs have recorded; raises `ValueError` if there is none.

    A run whose file is damaged has recorded it, as long as another one can be read.
    """
    for metric in METRICS:
        with contextlib.suppress(ValueError):
            if read_curves(runs, metric):
                return metric
    folders = ", ".join(str(run.folder) for run in runs)
    raise ValueError(f"these runs have none of {', '.join(METRICS)} in common: {folders}")


def summarize(curves: Sequence[Band], seed: int = 0) -> Band:
    """Aggregates the curves of a group of runs over the range of steps that all of them cover.

    Raises `ValueError` if there are no such steps.
    """
    if len(curves) == 1:
        return curves[0]
    first, last = max(curve.steps[0] for curve in curves), min(curve.steps[-1] for curve in curves)
    if first > last:
        raise ValueError("runs to be plotted together have no steps in common")
    # Runs record at different steps: interpolate all of them at every recorded step.
    steps = np.unique(np.concatenate([np.clip(curve.steps, first, last) for curve in curves]))
    values = np.stack([np.interp(steps, curve.steps, curve.center) for curve in curves])
    # Not by rliable, which draws from NumPy's global generator: the same runs would give another interval every time.
    samples = np.random.default_rng(seed).integers(len(curves), size=(_BOOTSTRAP_SAMPLES, len(curves)))
    low, high = np.quantile([_interquartile_mean(values[sample]) for sample in samples], (0.025, 0.975), axis=0)
    return Band(steps, _interquartile_mean(values), low, high, len(curves))


def plot_curves(path: Path, bands: Mapping[str, Band], title: str, share: bool = False) -> None:
    """Plots a line with its 95 % interval for each label, in the image format of the path's suffix (default: PNG).

    ``title`` is the label of the vertical axis; with ``share`` this ranges from 0 to 1.
    """
    figure = new_figure(9, 5.5)
    axes = figure.subplots()
    for number, (label, band) in enumerate(bands.items()):
        name = label if band.num_runs == 1 else f"{label} ({band.num_runs} runs)"
        marker = "o" if len(band.steps) == 1 else ""  # a line with a single point is invisible
        axes.plot(band.steps / 1e6, band.center, marker=marker, color=f"C{number}", label=name)
        axes.fill_between(band.steps / 1e6, band.low, band.high, color=f"C{number}", alpha=0.18, linewidth=0)
    axes.set(xlabel="million steps", ylabel=title)
    if share:
        axes.set(ylim=(0, 1), yticks=[tenth / 10 for tenth in range(11)])
    axes.grid(alpha=0.3)
    axes.legend(loc="best")
    with replacing(path) as partial:
        figure.savefig(partial, dpi=120, format=path.suffix.lstrip(".") or "png")


def _interquartile_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the mean of each column without its lowest and highest quarters of values (rounded down)."""
    cut = len(values) // 4  # 0 for fewer than four runs: the plain mean
    return np.asarray(np.sort(values, axis=0)[cut : len(values) - cut].mean(0))


def _natural_order(folder: Path) -> list[str | int]:
    """Sort key that puts ``Game_10`` after ``Game_9``, as rl-zoo3 numbers runs."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", str(folder))]


def _read_run(folder: Path, label: str) -> Run:
    config = min(folder.glob(f"*/{CONFIG}"))
    arguments, hyperparams = read_arguments(config.with_name("args.yml")), config.read_text("utf-8", "replace")
    conf_file, seed = arguments.get("conf_file"), arguments.get("seed")
    trained = f"{arguments.get('algo')}, {arguments.get('env')}" if arguments else folder.name
    label = label or (Path(conf_file).stem if conf_file else trained)
    return Run(folder, label, seed if isinstance(seed, int) and seed >= 0 else None, hyperparams, arguments)


def _read_win_rate(folder: Path, opponent: str) -> Band:
    with extra("plots", "curves"):
        import pandas as pd
    with reading(path := folder / "win_rates.csv"):
        rows = pd.read_csv(path, dtype={"opponent": str}).set_index("opponent")
        columns = rows[["steps", "win_rate", "win_rate_low", "win_rate_high"]].astype(np.float64)
    require_known(f"opponent in {path}", opponent, columns.index.unique())
    return Band(*columns.loc[[opponent]].to_numpy().T)


def _read_eval_win_rate(folder: Path, opponent: str) -> Band:
    evaluations = read_evaluations(folder / "evaluations.npz")
    if "successes" not in evaluations:
        raise ValueError(f"{folder / 'evaluations.npz'} does not record which fights were won")
    steps, won = evaluations["timesteps"].astype(np.float64), evaluations["successes"]
    low, high = np.transpose([wilson_interval(int(each.sum()), len(each)) for each in won])
    return Band(steps, won.mean(1), low, high)


def _read_eval_reward(folder: Path, opponent: str) -> Band:
    evaluations = read_evaluations(folder / "evaluations.npz")
    return Band.plain(evaluations["timesteps"].astype(np.float64), evaluations["results"].mean(1))


def _episode_reader(column: str) -> Callable[[Path, str], Band]:
    def read(folder: Path, opponent: str) -> Band:
        if not any(folder.glob("*monitor.csv")):
            raise FileNotFoundError(f"{folder}/*.monitor.csv")
        with reading(folder / "*.monitor.csv"):
            episodes = load_results(str(folder))[["r", "l"]].astype(np.float64)
        if episodes.empty:
            raise ValueError(f"no episode is recorded in {folder}/*.monitor.csv")
        means = episodes[column].rolling(WINDOW, min_periods=1).mean().to_numpy(np.float64)
        shown = np.unique(np.linspace(0, len(means) - 1, _MAX_POINTS).round().astype(int))
        return Band.plain(episodes["l"].cumsum().to_numpy()[shown], means[shown])

    return read


def _league_reader(read: Callable[[League], Band]) -> Callable[[Path, str], Band]:
    def read_from(folder: Path, opponent: str) -> Band:
        with reading(folder / LEAGUE) if (folder / LEAGUE).is_dir() else contextlib.nullcontext():
            return read(League.existing(folder))

    return read_from


def _read_elo(league: League) -> Band:
    ratings = league.ratings().elo.ratings
    own = sorted((player.age, rating) for player, rating in ratings.items() if player.name == LEARNER)
    return Band.plain(*np.array(own, float).reshape(-1, 2).T)


def _read_rating(league: League) -> Band:
    own = snapshot_standings(league.leaderboard(rollouts=False), LEARNER)
    rows = [(step, each.rating, each.low, each.high) for step, each in own]
    return Band(*np.array(rows, float).reshape(-1, 4).T)


def _read_ghost_elo(folder: Path, opponent: str) -> Band:
    with extra("plots", "curves"):
        import pandas as pd
    with reading(path := folder / "ghost_elo.csv"):
        return Band.plain(*pd.read_csv(path)[["steps", "elo"]].to_numpy(np.float64).T)


METRICS = {
    "win_rate": CurveMetric("win rate against {opponent}", _read_win_rate, share=True),
    "eval_win_rate": CurveMetric("win rate in an evaluation", _read_eval_win_rate, share=True),
    "eval_reward": CurveMetric("mean reward of an evaluation", _read_eval_reward),
    "episode_reward": CurveMetric(f"reward in training, mean of {WINDOW} episodes", _episode_reader("r")),
    "episode_length": CurveMetric(f"steps of an episode in training, mean of {WINDOW}", _episode_reader("l")),
    "elo": CurveMetric("Elo rating of the learner", _league_reader(_read_elo)),
    "rating": CurveMetric("Bradley-Terry rating of the learner's snapshots", _league_reader(_read_rating)),
    "ghost_elo": CurveMetric("Elo rating among the learner's own versions", _read_ghost_elo),
}
