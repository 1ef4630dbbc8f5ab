"""How the model of a trial is evaluated."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.algorithms.ppo.resumable import preserved_random_state
from sb3_pvp.callbacks.evaluations import summarize
from sb3_pvp.matches.evaluation import EVALUATION_SEED, EvaluationFights
from sb3_pvp.players.opponents import OpponentChoice
from sb3_pvp.zoo.sweeps.space import WIN_RATE

#: A function that returns metrics of a model by tag, the first of which is the objective; and one that cleans up.
Measure = tuple[Callable[[MaskablePPO], dict[str, float]], Callable[[], None]]


def win_rates(fights: EvaluationFights, pool: Sequence[str], number: int, model: MaskablePPO) -> dict[str, float]:
    """Returns the mean win rate and that against each opponent of the pool, of ``number`` fights each.

    The seeds are always the same. Raises `RuntimeError` if all fights against an opponent were broken off.
    """
    choices = [OpponentChoice(opponent) for opponent in pool]
    order = [choice for choice in choices for _ in range(number)]
    finished, rates = fights.play(model, order, False, EVALUATION_SEED), {}
    for choice in choices:
        results = summarize([each for each in finished if each.choice is choice])
        if results["broken_fights"] == number:
            raise RuntimeError(f"all {number} reference fights against {choice.label} were broken off")
        rates[f"sweep/{choice.label}/win_rate"] = results["win_rate"]
    return {WIN_RATE: float(np.mean(list(rates.values()))), **rates}


def mean_reward(env: VecEnv, n_eval_episodes: int, deterministic: bool, model: MaskablePPO) -> dict[str, float]:
    """Returns the mean episode reward with masked actions, for environments without a choice of opponents."""
    with preserved_random_state():  # evaluation must not change the random numbers of training
        env.seed(EVALUATION_SEED)
        mean, _ = evaluate_policy(model, env, n_eval_episodes, deterministic=deterministic)
    return {"sweep/mean_reward": cast("float", mean)}


class SweepEvalCallback(BaseCallback):
    """Evaluates the model ``n_evaluations`` times, evenly spread over the run, the last time at its end.

    A run ends after ``n_timesteps``, or after ``cpu_seconds`` of training without evaluations if those are over first.
    Evaluations take place at the start of a rollout; if several are due, only the last one is done. ``report`` is
    called with the objective and the number of the evaluation, from 1; training stops if it returns true.
    """

    #: Whether the run was completed, or stopped by ``report``.
    is_over = False
    #: The final objective of a completed run.
    result: float | None = None

    def __init__(
        self,
        make_measure: Callable[[], Measure],
        n_evaluations: int,
        n_timesteps: int,
        report: Callable[[float, int], bool] = lambda value, number: False,
        cpu_seconds: float | None = None,
    ) -> None:
        super().__init__()
        self._make_measure, self._n_evaluations, self._n_timesteps = make_measure, n_evaluations, n_timesteps
        self._report, self._number, self._cpu_seconds = report, 0, cpu_seconds or np.inf

    def _init_callback(self) -> None:
        self._measure, self._close = self._make_measure()

    def _on_training_start(self) -> None:
        self._start = time.process_time()

    def _on_rollout_start(self) -> None:
        spent = (time.process_time() - self._start) / self._cpu_seconds
        number = int(max(self.num_timesteps / self._n_timesteps, spent) * self._n_evaluations)
        if spent >= 1:
            self._finish()
        elif self._number < number < self._n_evaluations:
            self._evaluate(number)

    def _on_step(self) -> bool:
        return not self.is_over

    def _on_training_end(self) -> None:
        # Also called after an interruption, and possibly twice.
        try:
            if not self.is_over and self.num_timesteps >= self._n_timesteps:
                self._finish()
        finally:
            self._close()

    def _finish(self) -> None:
        self.result, self.is_over = self._evaluate(self._n_evaluations), True
        self.logger.dump(self.num_timesteps)

    def _evaluate(self, number: int) -> float:
        before = time.process_time()
        metrics = self._measure(self.model)  # type: ignore[arg-type]
        self._start += time.process_time() - before  # evaluations do not count as training
        for tag, metric in metrics.items():
            self.logger.record(tag, metric)
        value, self._number = next(iter(metrics.values())), number
        self.is_over = self._report(value, number)
        return value
