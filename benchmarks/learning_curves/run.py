"""One run of a learning curve: a preset, or a variant of it, trained until its CPU time is used up; it can resume."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import yaml
from stable_baselines3.common.vec_env import VecEnv

from benchmarks.learning_curves.callback import Budget, CurveCallback
from benchmarks.learning_curves.records import fix_settings, forget_evaluations_after
from benchmarks.learning_curves.variants import vary
from sb3_pvp import zoo
from sb3_pvp.algorithms.ppo import PvpPPO
from sb3_pvp.algorithms.presets import ALGO, Preset, find_preset
from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.games.osrs.meta_fields import RANDOMISED
from sb3_pvp.zoo.manager import PvpExperimentManager

CHECKPOINT, HYPERPARAMS = "checkpoint.zip", "hyperparams.yml"
#: Practically endless: the budget of CPU time ends a run.
NO_LIMIT = 10**12


@dataclass(frozen=True)
class CurveRun:
    """A run and the folder of its files.

    Attributes:
        folder: gets the settings, the evaluations, the checkpoint and TensorBoard's files.
        preset: name of a preset, or path of a yaml file in rl-zoo3's format.
        variant: name in `VARIANTS`.
        seed: of weights, sampling and fights.
        changes: hyperparameters that replace those of the preset.
        n_timesteps: limit of agent steps; values such as ``lin_3e-4`` fall over this time.
    """

    folder: Path
    preset: str = "NhEnv"
    variant: str = "full"
    seed: int = 0
    changes: Mapping[str, Any] = field(default_factory=dict)
    n_timesteps: int = NO_LIMIT

    def prepare(self) -> dict[str, Any]:
        """Writes the settings and returns the hyperparameters by environment.

        A run that is already in the folder resumes with the hyperparameters that it began with.

        Raises:
            ValueError: for an unknown preset or variant, or if the folder has a run of another preset, variant or seed.
        """
        preset = find_preset(self.preset)
        wanted = self._hyperparams(preset)
        identity = {"preset": preset.name, "variant": self.variant, "seed": self.seed}
        fixed = fix_settings(self.folder, {**identity, "hyperparams": wanted})["hyperparams"]
        if fixed != wanted:
            print(f"{self.folder}: resumes with the hyperparameters that it began with", file=sys.stderr)
        content = {preset.env_id: fixed}
        write_atomically(self.folder / HYPERPARAMS, yaml.safe_dump(content, sort_keys=False))
        return content

    def train(self, budget: Budget) -> None:
        """Trains until the budget is used up, from the checkpoint in the folder if there is one.

        Raises:
            ValueError: see `prepare`.
        """
        (env_id,) = self.prepare()
        with redirect_stdout(sys.stderr):  # rl-zoo3 prints what it reads
            model, callbacks, evaluation_env = self._set_up(self._manager(env_id), budget.fights)
        forget_evaluations_after(self.folder, model.num_timesteps)
        curve = CurveCallback(self.folder, budget, evaluation_env, self.folder / CHECKPOINT)
        steps_left = max(self.n_timesteps - model.num_timesteps, 0)
        model.learn(steps_left, callback=[*callbacks, curve], reset_num_timesteps=False)
        evaluation_env.close()
        model.get_env().close()  # type: ignore[union-attr]

    def _manager(self, env_id: str) -> PvpExperimentManager:
        zoo.install()
        torch.set_num_threads(1)  # networks this small are slower with more threads
        keywords: dict[str, Any] = {
            "config": str(self.folder / HYPERPARAMS),
            "n_timesteps": self.n_timesteps,
            "seed": self.seed,
        }
        # No actors: a run takes the same CPU time, and learns the same, on any number of cores.
        arguments = Namespace(num_threads=1, actors=0)
        return PvpExperimentManager(arguments, ALGO, env_id, str(self.folder), verbose=0, **keywords)

    def _set_up(self, manager: PvpExperimentManager, fights: int) -> tuple[PvpPPO, list[Any], VecEnv]:
        raw, _ = manager.read_hyperparameters()
        hyperparams, manager.env_wrapper, callbacks, manager.vec_env_wrapper = manager._preprocess_hyperparams(raw)
        env = manager.create_envs(manager.n_envs, no_log=True)
        manager.eval_env_kwargs = {**manager.env_kwargs, "opponent": "baseline"}
        evaluation_env = manager.create_envs(fights, eval_env=True)
        return self._model(env, hyperparams), callbacks, evaluation_env

    def _hyperparams(self, preset: Preset) -> dict[str, Any]:
        hyperparams = {**preset.hyperparams(), **self.changes}
        env_kwargs = dict(hyperparams.get("env_kwargs", {}))
        if preset.env_id == "NhEnv":
            # Randomise everything that the preset does not fix; other games have only one kind of fight.
            env_kwargs["reset_params"] = {**RANDOMISED, **env_kwargs.get("reset_params", {})}
        return vary(self.variant, {**hyperparams, "env_kwargs": env_kwargs})

    def _model(self, env: VecEnv, hyperparams: dict[str, Any]) -> PvpPPO:
        checkpoint = self.folder / CHECKPOINT
        if checkpoint.is_file():
            return PvpPPO.load(checkpoint, env=env, device="cpu")
        log = str(self.folder / "tensorboard")
        return PvpPPO(env=env, seed=self.seed, tensorboard_log=log, device="cpu", **hyperparams)
