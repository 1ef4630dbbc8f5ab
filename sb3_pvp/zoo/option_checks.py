"""What rl-zoo3 takes without a look, and fails with later or not at all: numbers, and the files of plots."""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from sb3_pvp.common.errors import Refusal

#: Options of ``train``, and the least that each may be.
_LEAST = {
    "--eval-episodes": 1,
    "--n-eval-envs": 1,
    "--n-trials": 1,
    "--max-total-trials": 1,
    "--n-evaluations": 1,
    "--n-startup-trials": 0,
}
#: The files of a run that a plot is drawn from, and what makes them.
_DRAWN_FROM = {
    "plot_train": ("*monitor.csv", "train"),
    "all_plots": ("evaluations.npz", "train with --eval-freq"),
}
#: What is no environment in a file of ``all_plots``.
_TABLE = "results_table"


class _Parser(argparse.ArgumentParser):
    """Knows some options, and nothing of the others."""

    def error(self, message: str) -> NoReturn:
        raise Refusal(message)


def check_numbers(arguments: list[str]) -> None:
    """Raises `Refusal` for impossible numbers among the arguments of ``train``."""
    parser = _Parser(add_help=False)
    parser.add_argument("-n", "--n-timesteps", type=int, default=-1)
    for option in _LEAST:
        parser.add_argument(option, type=int, dest=option)
    given = vars(parser.parse_known_args(arguments)[0])
    n_timesteps = given.pop("n_timesteps")
    if n_timesteps < 1 and n_timesteps != -1:
        raise Refusal(f"-n must be a positive number of steps, or -1 for those of the preset, got {n_timesteps}")
    for option, number in given.items():
        if number is not None and number < _LEAST[option]:
            raise Refusal(f"{option} must be at least {_LEAST[option]}, got {number}")


def check_plot(name: str, arguments: list[str]) -> None:
    """Raises `Refusal` if there is nothing to draw for these arguments of a plot of rl-zoo3."""
    if {"-h", "--help"} & set(arguments):
        return
    if name == "plot_from_file":
        _check_results(arguments)
    else:
        _check_runs(name, arguments)


def _check_runs(name: str, arguments: list[str]) -> None:
    """For every environment one of the folders must have a run with what is drawn."""
    several = "s" if name == "all_plots" else ""
    parser = _Parser(add_help=False)
    parser.add_argument("-a", f"--algo{several}", nargs="+", required=True, dest="algos")
    parser.add_argument("-e", "--env", nargs="+", required=True)
    parser.add_argument("-f", f"--exp-folder{several}", nargs="+", required=True, dest="folders")
    given, _ = parser.parse_known_args(arguments)
    for folder in given.folders:
        if not Path(folder).is_dir():
            raise Refusal(f"there is no folder {folder}: -f takes a folder of runs, such as logs")
    pattern, maker = _DRAWN_FROM[name]
    algos = [algo.lower() if several else algo for algo in given.algos]
    runs = [run for folder in given.folders for algo in algos for run in Path(folder, algo).glob("*")]
    for env in given.env:
        if not any(env in run.name and any(run.glob(pattern)) for run in runs):
            where = " or ".join(str(Path(folder, algo)) for folder in given.folders for algo in algos)
            raise Refusal(f"there is no run of {env} with {pattern.strip('*')} (from {maker}) in {where}")


def _check_results(arguments: list[str]) -> None:
    """Of each line that is to be drawn the file must have more than one run."""
    parser = _Parser(add_help=False)
    parser.add_argument("-i", "--input", required=True)
    parser.add_argument("-iqm", "--iqm", action="store_true")  # is not -i qm
    parser.add_argument("-skip", "--skip-envs", nargs="+", default=[])
    for option in ("--keep-envs", "--skip-keys", "--keep-keys"):
        parser.add_argument(option, nargs="+", default=[])
    given, _ = parser.parse_known_args(arguments)
    path = Path(given.input if given.input.endswith(".pkl") else f"{given.input}.pkl")
    results = _read_results(path)
    envs = _chosen(results, given.skip_envs, given.keep_envs)
    keys = _chosen(next(iter(results.values()), ()), given.skip_keys, given.keep_keys)
    if not envs or not keys:
        raise Refusal(f"{path} has no evaluations to draw: all_plots -o wants two or more of each run")
    for key in keys:
        for env in envs:
            if key not in results[env]:
                raise Refusal(
                    f"{path} has no evaluations of {key} on {env}: leave it out with --skip-envs or --skip-keys"
                )
        if not any(np.ndim(results[env][key]["last_evals"]) for env in envs):
            raise Refusal(
                f"{path} has a single run of {key}, or evaluations of one episode: plot_from_file compares runs, and "
                "needs two or more with two or more episodes each"
            )


def _read_results(path: Path) -> dict[str, Any]:
    """By environment and label, what ``all_plots`` has put together."""
    if not path.is_file():
        raise Refusal(f"there is no file {path}: -i takes what all_plots wrote with -o")
    try:
        with path.open("rb") as file:  # the user's own, which rl-zoo3 unpickles as well
            results: dict[str, Any] = pickle.load(file)
        del results[_TABLE]
    except Exception as error:  # a file that is no pickle raises anything
        raise Refusal(f"{path} is no file of all_plots -o: {error!r}") from error
    return results


def _chosen(names: Iterable[str], skipped: list[str], kept: list[str]) -> list[str]:
    return [name for name in names if name not in skipped and (not kept or name in kept)]
