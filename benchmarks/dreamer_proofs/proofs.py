"""The proofs: a game, the settings, and what has to be reached within how many steps of the environment."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch as th
from stable_baselines3 import PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from benchmarks.dreamer_proofs.games import Chase, Cue, Repeat
from benchmarks.json_lines import append_line, read_lines
from sb3_pvp.algorithms.dreamer.dreamer import DreamerV3
from sb3_pvp.algorithms.dreamer.sizes import SIZES

#: The settings of all proofs (curves/settings.json): one update for each record.
SETTINGS: dict[str, Any] = {
    "learning_rate": 1e-3, "buffer_size": 100_000, "batch_size": 16, "batch_length": 32, "train_ratio": 512.0,
    "imag_last": 8, "policy_kwargs": {"size": "micro", "optimizer_kwargs": {"warmup": 100}},
}  # fmt: skip
#: All episodes of all proofs of a folder, one JSON object a line.
EPISODES = "episodes.jsonl"


@dataclass(frozen=True)
class Bar:
    """The mean return of the last ``episodes`` finished episodes is to be above ``mean`` within ``steps``."""

    episodes: int
    mean: float
    steps: int


@dataclass(frozen=True)
class Proof:
    """A game and the bars for it; a run ends when all are reached, or after ``steps`` of the environment.

    ``settings`` replace those of `SETTINGS`. ``control`` is learnt by PPO without memory instead.
    """

    game: Callable[[], gym.Env[Any, Any]]
    bars: tuple[Bar, ...]
    steps: int
    settings: dict[str, Any] = field(default_factory=dict)
    control: bool = False


def _cue(delay: int, steps: int = 12_000, **settings: Any) -> Proof:
    return Proof(lambda: Cue(delay), (Bar(100, 0.8, 6000),), steps, settings)


PROOFS: dict[str, Proof] = {
    "cartpole": Proof(lambda: gym.make("CartPole-v1"), (Bar(5, 195, 4000), Bar(20, 195, 7500)), 7500),
    "pendulum": Proof(lambda: gym.make("Pendulum-v1"), (Bar(20, -250, 12_000),), 12_000),
    # Pixels take longer: smaller batches, half as many. With less entropy, it walks into a wall before it can see.
    "chase": Proof(
        Chase, (Bar(20, 24, 6000),), 6000,
        {"batch_length": 6, "train_ratio": 48.0, "imag_last": 0, "imagined_steps": 6, "ent_coef": 3e-2,
         "policy_kwargs": {"size": replace(SIZES["micro"], depth=2), "optimizer_kwargs": {"warmup": 100}}},
    ),
    "repeat1": Proof(lambda: Repeat(1), (Bar(20, 25, 3500),), 3500),
    "repeat2": Proof(lambda: Repeat(2), (Bar(20, 24, 4500),), 4500),
    "repeat4": Proof(lambda: Repeat(4), (Bar(20, 22.4, 6000),), 6000),
    "cue2": _cue(2, ent_coef=1e-2),
    "cue2-entropy3e-4": _cue(2, 6000),
    "cue3": _cue(3, ent_coef=1e-2),
    "cue4": _cue(4, ent_coef=1e-2),
    "cue8": _cue(8, ent_coef=1e-2),
    "repeat1-ppo": Proof(lambda: Repeat(1), (Bar(20, 25, 30_000),), 30_000, control=True),
}  # fmt: skip


class EpisodeLines(BaseCallback):
    """Appends a line for each finished episode; ends the run when all bars are reached."""

    def __init__(self, name: str, seed: int, folder: Path) -> None:
        super().__init__()
        self.names, self.bars = {"proof": name, "seed": seed}, list(PROOFS[name].bars)
        self.path, self.start = folder / EPISODES, time.process_time()
        self.returns: list[float] = []

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self._write(float(info["episode"]["r"]), int(info["episode"]["l"]))
        self.bars = [bar for bar in self.bars if not self._reached(bar)]
        return bool(self.bars)

    def _write(self, episode_return: float, length: int) -> None:
        self.returns.append(episode_return)
        seconds = round(time.process_time() - self.start, 2)
        updates = getattr(self.model, "n_updates", 0)
        line = self.names | {"env_steps": self.num_timesteps, "episode_return": round(episode_return, 3)}
        line |= {"length": length, "updates": updates, "cpu_s": seconds}
        # A record whose reward of +-1 is known leaves a loss of 0.67, one of unknown sign 1.36 (dreamer.md §5.4).
        shown = {"reward_loss": "loss/rew", "entropy": "ent/action"}.items()
        figures = getattr(self.model, "_figures", {})
        line |= {name: round(figures[figure].item(), 3) for name, figure in shown if figures}
        append_line(self.path, line)

    def _reached(self, bar: Bar) -> bool:
        last = self.returns[-bar.episodes :]
        return len(last) == bar.episodes and sum(last) / bar.episodes > bar.mean


def learner(name: str, seed: int) -> BaseAlgorithm:
    """Returns the algorithm that a proof begins with."""
    proof = PROOFS[name]
    env = make_vec_env(proof.game, 4, seed=seed)
    if proof.control:
        return PPO("MlpPolicy", env, n_steps=128, batch_size=128, learning_rate=1e-3, seed=seed, device="cpu")
    return DreamerV3("MlpPolicy", env, seed=seed, device="cpu", **SETTINGS | proof.settings)


def run_proof(name: str, seed: int, folder: Path) -> None:
    """Runs a proof with one thread; its episodes are appended to the file of the folder."""
    th.set_num_threads(1)
    learner(name, seed).learn(PROOFS[name].steps, callback=EpisodeLines(name, seed, folder))


def run_queue(
    jobs: Iterable[tuple[str, int]], folder: Path, processes: int, job_seconds: float, seconds: float
) -> None:
    """Runs proofs with seeds in their order, as many at once as there are ``processes``.

    A run ends after ``job_seconds`` and all of them end ``seconds`` from now, wherever they are then.
    """
    folder.mkdir(parents=True, exist_ok=True)
    waiting, end = list(jobs), time.monotonic() + seconds
    running: dict[Any, float] = {}
    context = multiprocessing.get_context("fork")
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    while (waiting or running) and time.monotonic() < end:
        while waiting and len(running) < processes:
            job = waiting.pop(0)
            process = context.Process(target=run_proof, args=(*job, folder))
            process.start()
            running[process] = time.monotonic() + job_seconds
        time.sleep(0.5)
        for process, limit in list(running.items()):
            if time.monotonic() > limit:
                process.terminate()
            if not process.is_alive():
                del running[process]
    for process in running:
        process.terminate()


def read_episodes(folder: Path) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Returns the episodes of each run, of one that was made again those of the last time."""
    runs: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for episode in read_lines(folder / EPISODES):
        run = runs.setdefault((episode["proof"], episode["seed"]), [])
        if run and episode["env_steps"] < run[-1]["env_steps"]:
            run.clear()
        run.append(episode)
    return runs


def reached_at(episodes: Sequence[Mapping[str, Any]], bar: Bar) -> int | None:
    """Returns the steps of the environment after which a bar was reached."""
    returns = [episode["episode_return"] for episode in episodes]
    for i in range(bar.episodes, len(returns) + 1):
        if sum(returns[i - bar.episodes : i]) / bar.episodes > bar.mean:
            return int(episodes[i - 1]["env_steps"])
    return None
