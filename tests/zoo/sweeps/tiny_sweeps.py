"""Sweeps of which a trial takes a fraction of a second."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna
import yaml

from sb3_pvp import zoo
from sb3_pvp.algorithms.ppo import PvpPPO
from sb3_pvp.zoo.sweeps.study import find_study

STEPS = 96  # of a trial: three to six rollouts
SPACE = """\
n_steps: {choices: [4, 8]}
minibatches: {choices: [2, 4]}
net_arch: {choices: ["4", "8x8"]}
learning_rate: {}
learning_rate_final: {}
ent_coef: {}
ent_coef_fall: {}
one_minus_gamma: {}
damage_dealt: {}
"""


def arguments(folder: Path, n_trials: int, *more: str, space: str = SPACE, preset: str = "NhEnv") -> list[str]:
    """The command line of a sweep, files in that folder."""
    file = folder / "space.yml"
    file.write_text(space)
    sweep = ["--preset", preset, "-optimize", "--search-space", str(file), "-f", str(folder / "logs")]
    sweep += ["-n", str(STEPS), "--n-trials", str(n_trials), "--n-evaluations", "2", "--n-startup-trials", "2"]
    sweep += ["--reference-fights", "2", "--reference-pool", "noop", "--no-optim-plots", "--verbose", "0"]
    return [*sweep, *more, "-params", "n_envs:4"]


def run_sweep(folder: Path, n_trials: int, *more: str, **keywords: str) -> None:
    zoo.train(arguments(folder, n_trials, *more, **keywords))


def study_in(storage: str | Path) -> optuna.Study:
    return find_study(str(storage), None)[0]


def results(trials: Sequence[optuna.trial.FrozenTrial]) -> list[tuple[Any, ...]]:
    return [(each.state, each.params, each.user_attrs["seed"], each.intermediate_values) for each in trials]


def retrain(folder: Path, *more: str) -> tuple[PvpPPO, dict[str, Any]]:
    train = ["--algo", "maskable_ppo", "--env", "NhEnv", "--eval-freq", "-1", "-f", str(folder), "--verbose", "0"]
    zoo.train([*train, *more])
    run = max((folder / "maskable_ppo").glob("NhEnv_*"))
    return PvpPPO.load(run / "NhEnv.zip"), yaml.load((run / "NhEnv/config.yml").read_text(), Loader=yaml.UnsafeLoader)
