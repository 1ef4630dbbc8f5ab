"""Learners, and their runs: evaluated every so many steps, made in parts, each with one thread."""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch as th
from filelock import FileLock, Timeout
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecEnv

from benchmarks import json_lines
from benchmarks.dreamer_proofs.proofs import SETTINGS
from sb3_pvp.algorithms.dreamer.dreamer import DreamerV3
from sb3_pvp.algorithms.dreamer.sizes import ModelSize
from sb3_pvp.algorithms.ppo.resumable import preserved_random_state
from sb3_pvp.common.atomic_files import replacing, write_atomically
from sb3_pvp.common.errors import Refusal

MODEL, REPLAY, LINES, SETTINGS_FILE = "model.zip", "replay.pkl", "evaluations.jsonl", "learner.txt"
EPISODES = 10  #: Of an evaluation.
CHEAP = 3  #: So many times as many seeds have learners that need little computation.
EVALUATION_SEED = 1_000_000_007
#: A line for each evaluation, in the order of steps.
Lines = list[dict[str, Any]]


@dataclass(frozen=True)
class Task:
    """An environment that is learnt for ``steps``, with an evaluation every so many; a step is ``seconds`` of play.

    A return of ``random``, what random actions get, is a score of 0, and ``best`` is 1.
    """

    env_id: str
    seconds: float
    steps: int
    every: int
    random: float
    best: float

    def score(self, episode_return: float) -> float:
        """Returns a return on the scale from 0 to 1."""
        return (episode_return - self.random) / (self.best - self.random)

    def hours(self, steps: float) -> float:
        """Returns how many hours of play so many steps are."""
        return steps * self.seconds / 3600


TASKS = {
    "CartPole": Task("CartPole-v1", 0.02, 6_000, 500, 22.0, 500.0),
    "Pendulum": Task("Pendulum-v1", 0.05, 9_000, 1_000, -1_220.0, -150.0),
}


@dataclass(frozen=True)
class Learner:
    """An algorithm with its settings for a task, in ``n_envs`` environments."""

    task: str
    algorithm: type[BaseAlgorithm]
    settings: dict[str, Any] = field(default_factory=dict)
    n_envs: int = 1

    def start(self, folder: Path, seed: int) -> BaseAlgorithm:
        """Returns a new model, or the one that a part of its run has left in a folder."""
        seed *= 1000  # environments have it and those that follow: those of two runs must differ
        env = make_vec_env(TASKS[self.task].env_id, self.n_envs, seed=seed)
        # The folder may have been moved.
        place: dict[str, Any] = {"replay_folder": f"{folder}/replay"} if self.algorithm is DreamerV3 else {}
        if (folder / MODEL).exists():
            model = self.algorithm.load(folder / MODEL, env=env, device="cpu", **place)
            if (folder / REPLAY).exists():
                assert isinstance(model, OffPolicyAlgorithm)
                model.load_replay_buffer(folder / REPLAY)
            model.set_random_seed(seed + model.num_timesteps)  # not the episodes and numbers of the first part again
            return model
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed before it saved a model
        folder.mkdir(parents=True)
        write_atomically(folder / SETTINGS_FILE, repr(self))
        return self.algorithm("MlpPolicy", env, seed=seed, device="cpu", **place, **self.settings)

    def seeds(self, seeds: int) -> range:
        """Returns the seeds of this learner, of which those that learn no model of the world have more."""
        return range(seeds if self.algorithm is DreamerV3 else CHEAP * seeds)


def dreamer(task: str, size: str | ModelSize = "micro", train_ratio: float = 512.0) -> Learner:
    """Returns DreamerV3 with the settings of the original's own runs on a CPU (dreamer.md §5.4)."""
    kwargs = SETTINGS["policy_kwargs"] | {"size": size}
    changes = {"policy_kwargs": kwargs, "train_ratio": train_ratio, "rollout_steps": 64}
    return Learner(task, DreamerV3, SETTINGS | changes, 4)


def _width(width: int) -> ModelSize:
    narrow = {"classes": width // 4, "stoch": width // 4, "depth": 4, "blocks": 4, "layers": 2, "image_blocks": 4}
    return ModelSize(deter=4 * width, hidden=width, units=width, **narrow)


#: Each is twice as wide as the one before; "micro" is the one of the package.
SCALED = {"half": _width(16), "micro": _width(32), "double": _width(64)}
RATIOS = (32, 128, 512)

#: By name, in the order in which they are run.
SCALING = {
    f"{size}, ratio {ratio}": dreamer("CartPole", found, ratio) for ratio in RATIOS for size, found in SCALED.items()
}
#: Those of SB3 as rl-zoo3 has tuned them for these tasks and 50,000 (DQN) or 100,000 steps, with two changes for as few
#: as here: DQN explores for as many steps, not the same share of all, and PPO's rollouts on Pendulum are shorter.
COMPARISON = {
    "PPO, CartPole": Learner(
        "CartPole", PPO,
        {"n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98, "n_epochs": 20, "ent_coef": 0.0,
         "learning_rate": LinearSchedule(1e-3, 0.0, 1.0), "clip_range": LinearSchedule(0.2, 0.0, 1.0)}, 8,
    ),
    "DQN, CartPole": Learner(
        "CartPole", DQN,
        {"learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000, "learning_starts": 1000, "gamma": 0.99,
         "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128, "exploration_fraction": 8_000 / 6_000,
         "exploration_final_eps": 0.04, "policy_kwargs": {"net_arch": [256, 256]}},
    ),
    "PPO, Pendulum": Learner(
        "Pendulum", PPO,
        {"n_steps": 128, "gae_lambda": 0.95, "gamma": 0.9, "n_epochs": 10, "ent_coef": 0.0, "learning_rate": 1e-3,
         "clip_range": 0.2, "use_sde": True, "sde_sample_freq": 4}, 4,
    ),
    "SAC, Pendulum": Learner("Pendulum", SAC, {"learning_rate": 1e-3, "buffer_size": 20_000}),
    "DreamerV3, CartPole": dreamer("CartPole"),
    "DreamerV3, Pendulum": dreamer("Pendulum"),
}  # fmt: skip


class Evaluations(BaseCallback):
    """Evaluates every so many steps, on other random numbers than the training's, up to ``total``, or until ``end``.

    CPU seconds are those of training alone. The model is saved between rollouts, where it can go on.
    """

    def __init__(self, folder: Path, every: int, total: int, end: float) -> None:
        super().__init__()
        self.folder, self.every, self.total, self.end = folder, every, total, end
        self.is_over, self.saved = False, -1

    def _on_training_start(self) -> None:
        before: tuple[float, int] = getattr(self.model, "evaluated", (0.0, 0))
        self.spent, self.due = before
        self.start = time.process_time()

    def _on_rollout_start(self) -> None:
        if time.process_time() > self.end or self.due != self.saved:
            self.is_over, self.saved = time.process_time() > self.end, self.due
            self.save()

    def _on_step(self) -> bool:
        if self.num_timesteps >= self.due:
            self._pause()
            self._write()
            self.due, self.start = self.due + self.every, time.process_time()
        return not self.is_over and self.due <= self.total

    def _on_training_end(self) -> None:
        if not self.is_over:
            self.save()

    def save(self) -> None:
        """Saves the model, and a replay that is not in a folder."""
        self._pause()
        self.model.evaluated = (self.spent, self.due)  # type: ignore[attr-defined]
        if isinstance(self.model, OffPolicyAlgorithm) and not isinstance(self.model, DreamerV3):
            with replacing(self.folder / REPLAY) as partial:  # first: a model that has less than its replay can go on
                self.model.save_replay_buffer(partial)
        with replacing(self.folder / MODEL) as partial:
            self.model.save(partial)

    def _pause(self) -> None:
        now = time.process_time()
        self.spent, self.start = self.spent + now - self.start, now

    def _write(self) -> None:
        env_id = self.training_env.get_attr("spec", 0)[0].id
        line = {"steps": self.due, "return": evaluated(self.model, env_id), "cpu_s": round(self.spent, 2)}
        json_lines.append_line(self.folder / LINES, line | {"updates": updates(self.model)})


def updates(model: BaseAlgorithm) -> int:
    """Returns how many steps the optimizer has made; PPO itself counts its passes over a rollout."""
    if isinstance(model, DreamerV3):
        return model.n_updates
    per_epoch = -(-model.n_steps * model.n_envs // model.batch_size) if isinstance(model, PPO) else 1
    return int(model._n_updates) * per_epoch


def evaluated(model: BaseAlgorithm, env_id: str) -> float:
    """Returns the mean return of `EPISODES` episodes: of DreamerV3 as it plays, of others of the likeliest actions."""
    with preserved_random_state():
        env: VecEnv = make_vec_env(env_id, EPISODES, seed=EVALUATION_SEED)
        mean, _ = evaluate_policy(model, env, EPISODES, deterministic=not isinstance(model, DreamerV3))
        env.close()
    return float(mean)  # type: ignore[arg-type]


def run_part(learners: Mapping[str, Learner], seeds: int, out: Path, seconds: float, steps: int) -> None:
    """Goes on with all runs, one after the other, for so many CPU seconds; leaves out those that another process makes.

    ``steps``: of each run, in place of the task's; 0: those of the task.
    """
    th.set_num_threads(1)
    warnings.filterwarnings("ignore", "Training resumes with new episodes")  # these environments have no state
    end = time.process_time() + seconds
    for seed in range(CHEAP * seeds):
        for name, learner in learners.items():
            if seed not in learner.seeds(seeds):
                continue
            task, folder = TASKS[learner.task], folder_of(out, name, seed)
            total, every = (steps, max(steps // 10, 1)) if steps else (task.steps, task.every)
            if time.process_time() >= end:
                return
            out.mkdir(parents=True, exist_ok=True)
            with suppress(Timeout), FileLock(f"{folder}.lock", timeout=0):
                _require_same(folder / SETTINGS_FILE, learner)
                if (lines := read_lines(folder)) and lines[-1]["steps"] + every > total:
                    continue
                is_new = not (folder / MODEL).exists()
                model = learner.start(folder, seed)
                left = max(total - model.num_timesteps, 1)
                model.learn(left, Evaluations(folder, every, total, end), reset_num_timesteps=is_new)


def _require_same(path: Path, learner: Learner) -> None:
    """Raises `Refusal` if a run was begun with other settings, as by another version of this file."""
    if path.exists() and path.read_text("utf-8") != repr(learner):
        raise Refusal(f"{path.parent} was begun with other settings: give another --out")


def folder_of(out: Path, name: str, seed: int) -> Path:
    """Returns the folder of a run."""
    return out / f"{name.replace(', ', '-').replace(' ', '')}-{seed}"


def read_lines(folder: Path) -> Lines:
    """Returns the evaluations of a run; what was done again by a later part replaces what was there."""
    path = folder / LINES
    found = {line["steps"]: line for line in (json_lines.read_lines(path) if path.exists() else ())}
    return [found[steps] for steps in sorted(found)]
