"""What the callbacks of this package have in common."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp.callbacks.rollouts import trained_rollouts
from sb3_pvp.common.arguments import AT_LEAST_1, POSITIVE
from sb3_pvp.matches.evaluation import EvaluationFights, Finished
from sb3_pvp.opponents.opponents import OpponentChoice
from sb3_pvp.schedules import parse_schedule


class PvpCallback(BaseCallback):
    """A callback that never ends the training, is told of every episode that does, and can be resumed with the run."""

    def _resume_with_model(self, name: str, *attributes: str) -> None:
        """Lets the model save and resume these attributes under this name, if it is a model that can (`PvpPPO`)."""
        self._resumed = attributes
        parts = getattr(self.model, "resumable_parts", None)
        if parts is not None:
            parts[name] = self

    def get_state(self) -> dict[str, Any]:
        """Where it stands between two roll-outs."""
        return {name.removeprefix("_"): copy.deepcopy(getattr(self, name)) for name in self._resumed}

    def set_state(self, state: dict[str, Any], same_episodes: bool) -> None:
        """Goes back to the moment of `get_state`."""
        for name in self._resumed:
            setattr(self, name, copy.deepcopy(state[name.removeprefix("_")]))

    def _on_step(self) -> bool:
        for row in np.flatnonzero(self.locals["dones"]).tolist():
            self._on_episode(row, self.locals["infos"][row])
        return True

    def _on_episode(self, row: int, info: dict[str, Any]) -> None:
        """An episode of environment ``row`` has ended, with this ``info``."""

    def _told(self, info: dict[str, Any], name: str) -> str:
        """What the environment says at the end of an episode; raises `ValueError` if it says nothing."""
        if name not in info:
            raise ValueError(
                f"{type(self).__name__} needs info[{name!r}] at the end of an episode; the training environment does "
                "not give it"
            )
        return str(info[name])


class Every:
    """Tells when to do again what is done every so many roll-outs: a number or a schedule, an argument ``name``."""

    def __init__(self, name: str, rollouts: Any) -> None:
        self._name, self._schedule = name, parse_schedule(rollouts)
        self.is_due(0, 0)

    def is_due(self, last: int | None, now: int) -> bool:
        """Whether it is, after ``now`` roll-outs; raises `ValueError` if the schedule is below 1."""
        freq = AT_LEAST_1.read(self._name, self._schedule(now), f" after {now} roll-outs")
        return last is None or now - last >= freq


class EvaluationCallback(PvpCallback):
    """Lets the learner play ``n_eval_episodes`` fights (`EvaluationFights`) every ``eval_freq`` roll-outs."""

    def __init__(self, eval_freq: int, n_eval_episodes: int, n_envs: int, env: Any, verbose: int) -> None:
        super().__init__(verbose)
        POSITIVE.check(eval_freq=eval_freq, n_eval_episodes=n_eval_episodes, n_envs=n_envs)
        self._eval_freq, self._n_eval_episodes = eval_freq, n_eval_episodes
        self._fights = EvaluationFights(env, n_envs)

    def _init_callback(self) -> None:
        self._rollout = trained_rollouts(self.model)

    def _on_rollout_start(self) -> None:
        self._rollout = trained_rollouts(self.model)
        if self._rollout % self._eval_freq == 0:
            self._evaluate()

    def _on_training_end(self) -> None:
        self._fights.close()

    def _play(self, choices: list[OpponentChoice], deterministic: bool, seed: int) -> list[Finished]:
        return self._fights.play(self.model, choices, deterministic, seed)  # type: ignore[arg-type]

    def _evaluate(self) -> None:
        raise NotImplementedError
