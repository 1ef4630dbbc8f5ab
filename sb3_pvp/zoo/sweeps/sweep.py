"""Trials, one after the other: each is a training run like any other, with a folder of its own, that is measured."""

from __future__ import annotations

import contextlib
import gc
import io
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import optuna
import torch
import yaml
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp.zoo.sweeps.conversion import Block
from sb3_pvp.zoo.sweeps.evaluation import Measure, SweepEvalCallback
from sb3_pvp.zoo.sweeps.study import ATTEMPTS, SEED, Settings, TrialQueue

#: The file in the folder of a trial with its configuration, which ``train -conf`` reads.
CONFIG = "hyperparameters.yml"


class Experiment(Protocol):
    """What a trial needs of rl-zoo3's experiment manager."""

    callbacks: list[BaseCallback]

    def setup_experiment(self) -> Any:
        """Makes the model."""

    def learn(self, model: Any) -> None:
        """Trains it, and closes its environment."""

    def save_trained_model(self, model: Any) -> None:
        """Saves it."""

    def close_envs(self) -> None:
        """Closes all environments that were made."""


@dataclass(frozen=True)
class Workshop:
    """What trials are made with.

    Attributes:
        make_experiment: from the path of a configuration, the folder for all files, and a seed.
        make_measure: says how good a model is.
        n_evaluations: how often, in a trial.
        interruptions: errors that are no fault of a trial, which is done again when the work goes on.
        keep_in: the folder for the folders of trials; ``None``: they go with the trial.
        verbose: 0: tells nothing, 1: a line for each trial, 2: whatever training tells.
    """

    make_experiment: Callable[[Path, Path, int], Experiment]
    make_measure: Callable[[Experiment], Measure]
    n_evaluations: int
    interruptions: tuple[type[Exception], ...] = ()
    keep_in: Path | None = None
    verbose: int = 1


class Diverged(Exception):
    """The weights of a model are no numbers any more."""


def work(queue: TrialQueue, settings: Settings, workshop: Workshop) -> None:
    """Does trials until there are none left, or somebody interrupts.

    An error in a trial is shown. It ends the work if more trials failed here than came to their end: it is not what was
    drawn that is wrong then. A model that diverges is no error, but a bad trial.
    """
    failed = finished = 0
    with queue.working():
        while (trial := queue.take()) is not None:
            try:
                _run(trial, queue, settings, workshop)
                finished += 1
            except KeyboardInterrupt:
                queue.give_back(trial)
                print("Interrupted: the same command goes on")
                return
            except workshop.interruptions:
                queue.give_back(trial)
                raise
            except optuna.exceptions.UpdateFinishedTrialError:
                print(f"Trial {trial.number} was taken for lost, and is tried again elsewhere")
            except Exception:
                queue.fail(trial)
                failed += 1
                if failed > finished:
                    raise
                traceback.print_exc()
            gc.collect()  # callbacks and models hold on to one another


def _run(trial: optuna.Trial, queue: TrialQueue, settings: Settings, workshop: Workshop) -> None:
    block = settings.hyperparameters(trial.params)
    with _folder(trial, workshop) as folder:
        try:
            value = _train(trial, block, settings, workshop, folder)
        except Diverged as error:
            value, reason = None, str(error)
        else:
            reason = "stopped early"
    if value is None:
        queue.prune(trial)
    else:
        queue.complete(trial, value)
    if workshop.verbose:
        result = reason if value is None else f"{value:.4f}"
        again = " (again)" if ATTEMPTS in trial.user_attrs else ""
        print(f"Trial {trial.number}{again}: {result}, {trial.params}", flush=True)


def _train(trial: optuna.Trial, block: Block, settings: Settings, workshop: Workshop, folder: Path) -> float | None:
    """The result of a trial, ``None`` if it was stopped early; raises `Diverged` for one of which nothing came."""
    config = folder / CONFIG
    config.write_text(yaml.safe_dump({settings.env_id: block}))
    quiet = contextlib.nullcontext() if workshop.verbose >= 2 else contextlib.redirect_stdout(io.StringIO())
    experiment = workshop.make_experiment(config, folder, trial.user_attrs[SEED])
    model = measure = evaluation = None
    try:
        with quiet:
            model, _ = experiment.setup_experiment()
            measure = workshop.make_measure(experiment)
            evaluation = SweepEvalCallback(
                measure, workshop.n_evaluations, settings.n_timesteps, _reporter(trial, workshop.n_evaluations)
            )
            experiment.callbacks.append(evaluation)
            experiment.learn(model)
            if workshop.keep_in is not None:
                experiment.save_trained_model(model)
    except (ValueError, AssertionError, RuntimeError) as error:
        if isinstance(error, workshop.interruptions) or model is None or is_finite(model):
            raise
        raise Diverged(f"diverged ({error})") from error
    finally:
        if evaluation is None or not evaluation.is_over:
            _end(experiment.callbacks)
        if measure is not None:
            measure.close()
        experiment.close_envs()
    if not evaluation.is_over:
        raise KeyboardInterrupt  # which rl-zoo3 takes for an end like any other
    return evaluation.result


def _end(callbacks: list[BaseCallback]) -> None:
    """Lets callbacks clean up, such as end processes of theirs, of which rl-zoo3 tells only the first one."""
    for callback in callbacks:
        with contextlib.suppress(Exception):
            callback.on_training_end()


def is_finite(model: MaskablePPO) -> bool:
    """Whether all weights of a model are numbers."""
    return all(bool(torch.isfinite(weights).all()) for weights in model.policy.parameters())


def _reporter(trial: optuna.Trial, n_evaluations: int) -> Callable[[float, int], bool]:
    def report(value: float, number: int) -> bool:
        trial.report(value, number)
        return number < n_evaluations and trial.should_prune()

    return report


@contextmanager
def _folder(trial: optuna.Trial, workshop: Workshop) -> Iterator[Path]:
    if workshop.keep_in is None:
        with tempfile.TemporaryDirectory(prefix="sb3_pvp_trial_") as name:
            yield Path(name)
    else:
        folder = workshop.keep_in / f"trial_{trial.number}"
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
