"""Processes that work on one study without training anything."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from multiprocessing.process import BaseProcess
from typing import Any

import optuna
from optuna.trial import TrialState

from sb3_pvp.zoo.sweeps.space import Parameter, own_values
from sb3_pvp.zoo.sweeps.study import StudySettings, TrialQueue, find_study

NAME = "study"
SPACE = {
    name: Parameter(kind="uniform", target=target, low=0.0, high=1.0)
    for name, target in (("x", "gamma"), ("y", "vf_coef"))
}
SETTINGS = StudySettings(
    algo="maskable_ppo",
    env_id="NhEnv",
    n_timesteps=100,
    block={"n_envs": 2},
    space=SPACE,
    measure={"fights": 1},
    seed=7,
)

OWN_VALUES = own_values(SPACE, SETTINGS.block, SETTINGS.n_timesteps)


def sampler(seed: int) -> optuna.samplers.BaseSampler:
    return optuna.samplers.TPESampler(n_startup_trials=3, seed=seed)


def open_queue(
    storage: str | None, n_trials: int, settings: StudySettings = SETTINGS
) -> tuple[optuna.Study, TrialQueue]:
    """Opens a queue; without a storage, that of a new one."""
    storage = storage or f"{tempfile.mkdtemp()}/sweep.log"
    queue = TrialQueue(NAME, storage, settings, n_trials, sampler)
    return queue.study, queue


def do_trials(queue: TrialQueue, seconds: float = 0.0, at_most: int = 10**6) -> int:
    """Works until there is nothing left; returns how many trials were done."""
    done = 0
    with queue.process_lock():
        while done < at_most and (trial := queue.next_trial()) is not None:
            trial.report(trial.params["x"], 1)
            time.sleep(seconds)
            queue.study.tell(trial, trial.params["x"], TrialState.COMPLETE)
            done += 1
    return done


def start_worker(storage: str, n_trials: int, seconds: float) -> BaseProcess:
    process = multiprocessing.get_context("fork").Process(target=_work, args=(storage, n_trials, seconds))
    process.start()
    return process


def trials_of(storage: str) -> list[Any]:
    return find_study(storage, NAME)[0].trials


def _work(storage: str, n_trials: int, seconds: float) -> None:
    do_trials(open_queue(storage, n_trials)[1], seconds)
