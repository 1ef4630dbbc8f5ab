"""Trials, one after the other: each is a training run like any other, with a folder of its own, that is measured.

How good a trial is: its win rate against opponents who never change, in fights that are the same for all trials.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import io
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import optuna
import torch
import yaml
from optuna.trial import TrialState
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv
from tqdm import tqdm

from sb3_pvp.callbacks.evaluations import summarize
from sb3_pvp.common.errors import TrainingInterrupted
from sb3_pvp.contract import Contract
from sb3_pvp.matches.evaluation import EVALUATION_SEED, EvaluationFights
from sb3_pvp.opponents.opponents import OpponentChoice, make_opponent, opponent_name
from sb3_pvp.ppo.resumable import kept_random_state
from sb3_pvp.zoo.sweeps.conversion import Block
from sb3_pvp.zoo.sweeps.space import WIN_RATE
from sb3_pvp.zoo.sweeps.study import ATTEMPTS, SEED, Settings, TrialQueue

if TYPE_CHECKING:
    from sb3_pvp.zoo.sweeps.manager import SweepingManager

#: The file in the folder of a trial with its configuration, which ``train -conf`` reads.
CONFIG = "hyperparameters.yml"
_PARALLEL_FIGHTS = 64


class WinRates:
    """Mean of the win rates in so many fights against each opponent, with sampled actions and always the same seeds.

    ``env_kwargs`` are where the environment of these fights differs from that of the training.
    """

    def __init__(self, pool: Sequence[str], fights: int, env_kwargs: Mapping[str, Any] | None = None) -> None:
        self._choices = [OpponentChoice(opponent) for opponent in pool]
        self._num_fights, self._fights = fights, EvaluationFights(env_kwargs or {}, _PARALLEL_FIGHTS)
        self.close = self._fights.close

    def __call__(self, model: MaskablePPO) -> dict[str, float]:
        """The mean, and the win rate against each opponent; raises `RuntimeError` if all fights broke off."""
        order = [choice for choice in self._choices for _ in range(self._num_fights)]
        finished = list(self._fights.play(model, order, False, EVALUATION_SEED))
        rates = {}
        for choice in self._choices:
            figures = summarize([each for each in finished if each.choice is choice])
            if figures["broken_fights"] == self._num_fights:
                raise RuntimeError(f"all {self._num_fights} reference fights against {choice.label} broke off")
            rates[f"sweep/{choice.label}/win_rate"] = figures["win_rate"]
        return {WIN_RATE: float(np.mean(list(rates.values()))), **rates}


class MeanReward:
    """Mean reward of so many episodes in an environment in which nobody can be chosen to fight."""

    def __init__(self, env: VecEnv, n_eval_episodes: int, deterministic: bool) -> None:
        self._env, self._n_eval_episodes, self._deterministic = env, n_eval_episodes, deterministic
        self.close = env.close

    def __call__(self, model: MaskablePPO) -> dict[str, float]:
        """The mean reward, of actions that obey the masks."""
        with kept_random_state():
            self._env.seed(EVALUATION_SEED)
            mean, _ = evaluate_policy(model, self._env, self._n_eval_episodes, deterministic=self._deterministic)
        return {"sweep/mean_reward": cast("float", mean)}


#: Tells how good a model is: figures by tag, of which the first one is to be maximised.
Measure = WinRates | MeanReward


class SweepEvalCallback(BaseCallback):
    """Measures a model ``n_evaluations`` times in a run of ``n_timesteps``, the last time at its end, and may stop it.

    A roll-out that is longer than the distance between two evaluations misses some. ``report`` is told the figure to be
    maximised and the number of the evaluation, from 1 on; if that is true, the run is stopped.
    """

    #: Whether the run came to its end, or was stopped by ``report``.
    is_over = False
    #: The last figure of a run that came to its end, before that ``None``.
    result: float | None = None

    def __init__(
        self,
        measure: Measure,
        n_evaluations: int,
        n_timesteps: int,
        report: Callable[[float, int], bool] = lambda value, number: False,
    ) -> None:
        super().__init__()
        self._measure, self._n_evaluations, self._n_timesteps = measure, n_evaluations, n_timesteps
        self._report, self._number = report, 0

    def _on_rollout_start(self) -> None:
        number = min(self.num_timesteps * self._n_evaluations // self._n_timesteps, self._n_evaluations)
        if self._number < number < self._n_evaluations:
            self._evaluate(number)

    def _on_step(self) -> bool:
        return not self.is_over

    def _on_training_end(self) -> None:
        # Whoever cleans up calls this as well, also when training was interrupted.
        if not self.is_over and self.num_timesteps >= self._n_timesteps:
            self.result, self.is_over = self._evaluate(self._n_evaluations), True
            self.logger.dump(self.num_timesteps)
        self._measure.close()

    def _evaluate(self, number: int) -> float:
        figures = self._measure(self.model)  # type: ignore[arg-type]
        for tag, figure in figures.items():
            self.logger.record(tag, figure)
        value, self._number = next(iter(figures.values())), number
        self.is_over = self._report(value, number)
        return value


def check_pool(pool: Sequence[str], contract: Contract) -> dict[str, str]:
    """What the opponents are, to know them again: a digest for a model's file, ``""`` for others.

    Raises `ValueError` for an opponent who is unknown, listed twice or cannot play this contract.
    """
    found: dict[str, str] = {}
    for opponent in pool:
        if (name := opponent_name(opponent)) in found:
            raise ValueError(f"every opponent of the reference pool needs a name of its own, got {name} twice")
        make_opponent(opponent, contract)
        is_file = opponent.endswith(".zip")
        found[name] = hashlib.sha256(Path(opponent).read_bytes()).hexdigest() if is_file else ""
    return found


def work(queue: TrialQueue, settings: Settings, manager: SweepingManager) -> None:
    """Does trials until there are none left, or somebody interrupts.

    An error in a trial is shown. It ends the work if more trials failed here than came to their end: it is not what was
    drawn that is wrong then. A model that diverges is no error, but a bad trial.
    """
    failed = finished = 0
    with queue.working(), tqdm(desc="Trials", total=queue.n_trials, disable=None) as bar:  # None: if on a terminal
        while (trial := queue.take()) is not None:
            bar.update(trial.number - bar.n)  # those of other processes as well
            try:
                _run(trial, queue, settings, manager, bar)
                bar.update()
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


def _run(trial: optuna.Trial, queue: TrialQueue, settings: Settings, manager: SweepingManager, bar: tqdm[Any]) -> None:
    with tempfile.TemporaryDirectory(prefix="sb3_pvp_trial_") as name:
        folder = Path(manager.optimization_log_path or name) / f"trial_{trial.number}"
        folder.mkdir(parents=True, exist_ok=True)
        value, result = _train(trial, settings.hyperparameters(trial.params), settings, manager, folder, bar)
    queue.finish(trial, TrialState.PRUNED if value is None else TrialState.COMPLETE, value)
    if manager.verbose:
        bar.clear()
        again = " (again)" if ATTEMPTS in trial.user_attrs else ""
        print(f"Trial {trial.number}{again}: {result}, {trial.params}", flush=True)


def _train(
    trial: optuna.Trial, block: Block, settings: Settings, manager: SweepingManager, folder: Path, bar: tqdm[Any]
) -> tuple[float | None, str]:
    """The result of a trial, ``None`` if it was stopped early or diverged; and the same in words."""
    config, n_evaluations = folder / CONFIG, settings.measure["n_evaluations"]
    config.write_text(yaml.safe_dump({settings.env_id: block}))

    def report(value: float, number: int) -> bool:
        trial.report(value, number)
        bar.set_postfix_str(f"trial {trial.number}, evaluation {number} of {n_evaluations}: {value:.3f}")
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
            if manager.optimization_log_path and evaluation.is_over:
                experiment.save_trained_model(model)
    except TrainingInterrupted:
        raise
    except (ValueError, AssertionError, RuntimeError) as error:
        if model is None or all(bool(torch.isfinite(weights).all()) for weights in model.policy.parameters()):
            raise
        return None, f"diverged ({error})"
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
    return evaluation.result, "stopped early" if evaluation.result is None else f"{evaluation.result:.4f}"
