"""How good a trial is: its win rate against opponents who never change, in fights that are the same for all trials."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.callbacks.win_rate_eval import summarize
from sb3_pvp.contract import Contract
from sb3_pvp.matches.evaluation import EVALUATION_SEED, EvaluationFights
from sb3_pvp.opponents.opponents import OpponentChoice, make_opponent, opponent_name
from sb3_pvp.ppo.resumable import kept_random_state
from sb3_pvp.zoo.sweeps.space import WIN_RATE

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
    """Measures a model at equal distances in a run, the last time at its end, and may stop it.

    Args:
        measure: how good the model is.
        n_evaluations: how often; a roll-out that is longer than the distance misses some.
        n_timesteps: the length of the run.
        report: told the figure to be maximised and the number of the evaluation, from 1 on; true: stop the run.

    Attributes:
        is_over: whether the run came to its end, or was stopped by ``report``.
        result: the last figure of a run that came to its end, before that ``None``.
    """

    is_over = False
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
    names = [opponent_name(opponent) for opponent in pool]
    if len(set(names)) < len(names):
        raise ValueError(f"every opponent of the reference pool needs a name of its own, got {', '.join(names)}")
    for opponent in pool:
        make_opponent(opponent, contract)
    files = (Path(opponent) if opponent.endswith(".zip") else None for opponent in pool)
    digests = ("" if file is None else hashlib.sha256(file.read_bytes()).hexdigest() for file in files)
    return dict(zip(names, digests, strict=True))
