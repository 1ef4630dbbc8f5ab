"""Processes that work on one study without training anything."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.process import BaseProcess
from typing import Any

import optuna
from optuna.trial import TrialState

from sb3_pvp.zoo.sweeps.conversion import own_values
from sb3_pvp.zoo.sweeps.space import Parameter, as_dict
from sb3_pvp.zoo.sweeps.storage import open_storage
from sb3_pvp.zoo.sweeps.study import Settings, TrialQueue, open_study

NAME = "study"
SPACE = tuple(
    Parameter(name=name, kind="uniform", target=target, low=0.0, high=1.0)
    for name, target in (("x", "gamma"), ("y", "vf_coef"))
)
SETTINGS = Settings("maskable_ppo", "NhEnv", 100, {"n_envs": 2}, as_dict(SPACE), {"fights": 1}, seed=7)

OWN_VALUES = own_values(SPACE, SETTINGS.block, SETTINGS.n_timesteps)


def sampler(seed: int) -> optuna.samplers.BaseSampler:
    return optuna.samplers.TPESampler(n_startup_trials=3, seed=seed)


def open_queue(storage: str | None, n_trials: int, settings: Settings = SETTINGS) -> tuple[optuna.Study, TrialQueue]:
    opened, locks = open_storage(storage)
    study, begun = open_study(NAME, opened, locks, settings)
    return study, TrialQueue(study, begun, locks, n_trials, sampler)


def do_trials(queue: TrialQueue, seconds: float = 0.0, at_most: int = 10**6) -> int:
    """Works until there is nothing left; returns how many trials were done."""
    done = 0
    with queue.working():
        while done < at_most and (trial := queue.take()) is not None:
            trial.report(trial.params["x"], 1)
            time.sleep(seconds)
            queue.finish(trial, TrialState.COMPLETE, trial.params["x"])
            done += 1
    return done


def start_worker(storage: str, n_trials: int, seconds: float) -> BaseProcess:
    process = multiprocessing.get_context("fork").Process(target=_work, args=(storage, n_trials, seconds))
    process.start()
    return process


def trials_of(storage: str) -> list[Any]:
    return optuna.load_study(study_name=NAME, storage=open_storage(storage, must_exist=True)[0]).trials


def _work(storage: str, n_trials: int, seconds: float) -> None:
    do_trials(open_queue(storage, n_trials)[1], seconds)
