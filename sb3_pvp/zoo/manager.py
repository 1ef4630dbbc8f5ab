"""rl-zoo3's experiment manager, taught about masks, the vectorised environment and the defaults of this package."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium
import torch
from rl_zoo3 import ALGOS, exp_manager
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp.rsps import RemoteError
from sb3_pvp.zoo.hyperparams import hyperparams_path, plain_config
from sb3_pvp.zoo.workers import WorkerVecEnv


class PvpExperimentManager(exp_manager.ExperimentManager):
    """`rl_zoo3.exp_manager.ExperimentManager`, with the same arguments."""

    def __init__(self, args: argparse.Namespace, algo: str, env_id: str, *positional: Any, **keywords: Any) -> None:
        ours = is_ours(env_id)
        default = hyperparams_path(algo) if ours else None
        if default is not None and keywords.get("config") is None:
            keywords["config"] = str(default)
        super().__init__(args, algo, env_id, *positional, **keywords)
        if ours:
            self._choose_processes(keywords.get("vec_env_type", "dummy"))

    def _choose_processes(self, vec_env_type: str) -> None:
        from sb3_pvp.envs import NhVecEnv

        self.vec_env_class = {"dummy": NhVecEnv, "subproc": WorkerVecEnv}[vec_env_type]
        # More threads only get into each other's way with networks as small as these.
        if getattr(self.args, "num_threads", -1) < 1:
            torch.set_num_threads(1)

    def read_hyperparameters(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Reads them as the base class does, with the presets that the file imports (`sb3_pvp.zoo.hyperparams`)."""
        original = self.config
        with plain_config(original) as self.config:
            hyperparams: tuple[dict[str, Any], dict[str, Any]] = super().read_hyperparameters()
        self.config = original
        return hyperparams

    @staticmethod
    def _preprocess_schedules(hyperparams: dict[str, Any]) -> dict[str, Any]:
        # The base class knows numbers and "lin_..."; the algorithm itself reads what is a schedule of this package.
        ours = {name: value for name, value in hyperparams.items() if isinstance(value, dict)}
        others = {name: value for name, value in hyperparams.items() if name not in ours}
        return {**super(PvpExperimentManager, PvpExperimentManager)._preprocess_schedules(others), **ours}

    def _preprocess_hyperparams(
        self, hyperparams: dict[str, Any]
    ) -> tuple[dict[str, Any], Callable[..., Any] | None, list[BaseCallback], Callable[..., Any] | None]:
        processed = super()._preprocess_hyperparams(hyperparams)
        # The base class lets only the command line's env_kwargs reach the evaluation environment.
        if self._eval_env_kwargs_args is None:
            self.eval_env_kwargs = self.env_kwargs
        return processed

    def create_callbacks(self) -> None:
        """Creates the callbacks of the base class, with an evaluation that respects masks."""
        with _masked_evaluation(self.algo):
            super().create_callbacks()  # type: ignore[no-untyped-call]

    def learn(self, model: BaseAlgorithm) -> None:
        """Trains the model; what it was before is kept as ``initial_model.zip``, to compare with.

        If an error ends the training, what was learned so far is kept as ``interrupted_model.zip``; it is a
        `TrainingInterrupted` if a server or the process of an environment is gone.
        """
        vars(model)["run_folder"] = self.save_path  # where callbacks put their files
        model.save(f"{self.save_path}/initial_model")
        try:
            super().learn(model)
        except Exception as error:
            model.save(f"{self.save_path}/interrupted_model")
            reason = _reason(error)
            if reason is None:
                raise
            raise TrainingInterrupted(
                f"{reason}; the model so far is {self.save_path}/interrupted_model.zip"
            ) from error


class TrainingInterrupted(RuntimeError):
    """What is learned from is gone; the message says where the model is."""


def _reason(error: Exception) -> str | None:
    """What a user can be told of what ended the training without seeing where."""
    if isinstance(error, (EOFError, ConnectionError)):  # from the pipes of a SubprocVecEnv
        return "the process of an environment has ended (its own error stands above)"
    return str(error) if isinstance(error, RemoteError) else None


def is_ours(env_id: str) -> bool:
    """Whether this environment was registered by this package."""
    return str(gymnasium.spec(env_id).entry_point).startswith("sb3_pvp.")


@contextmanager
def _masked_evaluation(algo: str) -> Iterator[None]:
    # The base class looks the callback up in its module when it makes one.
    names = vars(exp_manager)
    stock = names["EvalCallback"]
    names["EvalCallback"] = MaskableEvalCallback if issubclass(ALGOS[algo], MaskablePPO) else stock
    try:
        yield
    finally:
        names["EvalCallback"] = stock
