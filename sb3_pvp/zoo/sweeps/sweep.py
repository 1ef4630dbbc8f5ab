"""Trials, one after the other: each is a training run like any other, with a folder of its own, that is measured."""

from __future__ import annotations

import contextlib
import gc
import io
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import optuna
import torch
import yaml
from optuna.trial import TrialState

from sb3_pvp.common.errors import TrainingInterrupted
from sb3_pvp.zoo.sweeps.conversion import Block
from sb3_pvp.zoo.sweeps.evaluation import SweepEvalCallback
from sb3_pvp.zoo.sweeps.study import ATTEMPTS, SEED, Settings, TrialQueue

if TYPE_CHECKING:
    from sb3_pvp.zoo.sweeps.manager import SweepingManager

#: The file in the folder of a trial with its configuration, which ``train -conf`` reads.
CONFIG = "hyperparameters.yml"


class Diverged(Exception):
    """The weights of a model are no numbers any more."""


def work(queue: TrialQueue, settings: Settings, manager: SweepingManager) -> None:
    """Does trials until there are none left, or somebody interrupts.

    An error in a trial is shown. It ends the work if more trials failed here than came to their end: it is not what was
    drawn that is wrong then. A model that diverges is no error, but a bad trial.
    """
    failed = finished = 0
    with queue.working():
        while (trial := queue.take()) is not None:
            try:
                _run(trial, queue, settings, manager)
                finished += 1
            except KeyboardInterrupt:
                queue.give_back(trial)
                print("Interrupted: the same command goes on")
                return
            except TrainingInterrupted:  # no fault of the trial, which is done again when the work goes on
                queue.give_back(trial)
                raise
            except optuna.exceptions.UpdateFinishedTrialError:
                print(f"Trial {trial.number} was taken for lost, and is tried again elsewhere")
            except Exception:
                queue.finish(trial, TrialState.FAIL)
                failed += 1
                if failed > finished:
                    raise
                traceback.print_exc()
            gc.collect()  # callbacks and models hold on to one another


def _run(trial: optuna.Trial, queue: TrialQueue, settings: Settings, manager: SweepingManager) -> None:
    block, value, result = settings.hyperparameters(trial.params), None, "stopped early"
    with tempfile.TemporaryDirectory(prefix="sb3_pvp_trial_") as name:
        folder = Path(manager.optimization_log_path or name) / f"trial_{trial.number}"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            value = _train(trial, block, settings, manager, folder)
        except Diverged as error:
            result = str(error)
    queue.finish(trial, TrialState.PRUNED if value is None else TrialState.COMPLETE, value)
    if manager.verbose:
        again = " (again)" if ATTEMPTS in trial.user_attrs else ""
        result = result if value is None else f"{value:.4f}"
        print(f"Trial {trial.number}{again}: {result}, {trial.params}", flush=True)


def _train(
    trial: optuna.Trial, block: Block, settings: Settings, manager: SweepingManager, folder: Path
) -> float | None:
    """The result of a trial, ``None`` if it was stopped early; raises `Diverged` for one of which nothing came."""
    config, n_evaluations = folder / CONFIG, settings.measure["n_evaluations"]
    config.write_text(yaml.safe_dump({settings.env_id: block}))

    def report(value: float, number: int) -> bool:
        trial.report(value, number)
        return number < n_evaluations and trial.should_prune()

    experiment = manager.experiment(settings, config, folder, trial.user_attrs[SEED])
    model = measure = evaluation = None
    try:
        with contextlib.nullcontext() if manager.verbose >= 2 else contextlib.redirect_stdout(io.StringIO()):
            model, _ = experiment.setup_experiment()
            measure = experiment.measure()
            evaluation = SweepEvalCallback(measure, n_evaluations, settings.n_timesteps, report)
            experiment.callbacks.append(evaluation)
            experiment.learn(model)
            if manager.optimization_log_path:
                experiment.save_trained_model(model)
    except TrainingInterrupted:
        raise
    except (ValueError, AssertionError, RuntimeError) as error:
        if model is None or all(bool(torch.isfinite(weights).all()) for weights in model.policy.parameters()):
            raise
        raise Diverged(f"diverged ({error})") from error
    finally:
        # Callbacks clean up, such as end processes of theirs: rl-zoo3 tells only the first one of a break-off.
        for callback in experiment.callbacks if evaluation is None or not evaluation.is_over else ():
            with contextlib.suppress(Exception):
                callback.on_training_end()
        for each in (measure, model and model.env):
            if each is not None:
                each.close()
    if not evaluation.is_over:
        raise KeyboardInterrupt  # which rl-zoo3 takes for an end like any other
    return evaluation.result
