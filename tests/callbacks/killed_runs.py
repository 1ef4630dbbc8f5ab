"""Self-play runs in processes that are killed and resume from their last checkpoint."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import psutil
import torch as th
from chosen_duel import chosen_duels
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import LeagueCallback, SelfPlayCallback
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.players.league import League
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.files.model_files import load_opponent

#: Called in every step of a run with the number of steps that its process has done.
Watcher = Callable[[int], None]

_PROCESSES = multiprocessing.get_context("fork")


class Checkpoints(BaseCallback):
    """Saves the model before every rollout, and notifies a watcher of every step."""

    def __init__(self, path: Path, watcher: Watcher) -> None:
        super().__init__()
        self.path, self.watcher = path, watcher

    def _on_rollout_start(self) -> None:
        self.model.save(self.path)

    def _on_step(self) -> bool:
        self.watcher(self.n_calls)
        return True


class DuelRun:
    """A run of tiny duels; `NhRun` is one of real fights."""

    rollouts, num_envs, n_steps = 10, 8, 16
    policy: Any = "MultiInputPolicy"
    shares: ClassVar[dict[str, Any]] = {"past": 0.5, "latest": 0.25}

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkpoint = folder / "checkpoint.zip"

    def env(self) -> Any:
        return chosen_duels(self.num_envs)

    def model(self) -> PvpPPO:
        if self.checkpoint.is_file():
            model = PvpPPO.load(self.checkpoint, env=self.env(), device="cpu")
        else:
            settings: dict[str, Any] = {"n_steps": self.n_steps, "batch_size": 64, "n_epochs": 2, "seed": 3}
            net = {"net_arch": [16]}
            model = PvpPPO(self.policy, self.env(), **settings, policy_kwargs=net, learning_rate=3e-3, device="cpu")
        model.run_folder = self.folder
        return model

    def go_on(self, watcher: Watcher = lambda steps: None) -> None:
        """From the last checkpoint, or from nothing, to the end."""
        model = self.model()
        league = LeagueCallback(snapshot_every={"type": "expression", "expression": "1 if t < 4 else 2"})
        options = {"past": {"delay_chance": {"type": "expression", "expression": "random() * 0.1"}}}
        choices = SelfPlayCallback(**self.shares, num_live_opponents=3, opponent_options=options)
        left = self.rollouts * self.num_envs * self.n_steps - model.num_timesteps
        callbacks = [league, choices, Checkpoints(self.checkpoint, watcher)]
        model.learn(left, callback=callbacks, reset_num_timesteps=not model.num_timesteps)
        model.save(self.folder / "final.zip")

    def outcome(self) -> dict[str, Any]:
        """All that an interruption must not change."""
        league, model = League.existing(self.folder / "league"), PvpPPO.load(self.folder / "final.zip", device="cpu")
        weights = {name: tensor.tolist() for name, tensor in model.policy.state_dict().items()}
        moments = [state["exp_avg"].sum().item() for state in model.policy.optimizer.state_dict()["state"].values()]
        return {
            "weights": weights,
            "optimizer": moments,
            "counters": (model.num_timesteps, model.trained_rollouts, model.num_updates),
            "matches": [replace(record, finished_at=0.0) for record in league.log.records(counted_only=False)],
            "rollouts of the log": [len(records) for records in league.log.appended()],
            "league.json": (league.folder / "league.json").read_text(),
            "ratings.json": (league.folder / "ratings.json").read_text(),
            "leaderboard": (league.folder / "leaderboard.csv").read_text(),
            "snapshots": [
                (str(player), load_opponent(league.path(player)).content_hash) for player in league.players()
            ],
        }


class NhRun(DuelRun):
    """Fights in the embedded world, of all kinds."""

    rollouts, num_envs, n_steps = 8, 16, 64
    policy = AutoregressivePolicy
    shares: ClassVar[dict[str, Any]] = {
        "self_play": 0.125,
        "past": 0.375,
        "latest": 0.125,
        "target": 0.125,
        "targets": ["noop", "stayalive"],
    }

    def env(self) -> Any:
        return NhVecEnv(self.num_envs, max_episode_ticks=200, seed=5)


def start(work: Callable[[], None]) -> Any:
    """Starts a process that does the work, and returns it."""
    process = _PROCESSES.Process(target=_alone, args=(work,))
    process.start()
    return process


def kill_myself() -> None:
    """As the kernel does it: nothing is tidied up."""
    os.kill(os.getpid(), signal.SIGKILL)


def killed(work: Callable[[], None]) -> bool:
    """Does the work in a process; whether that has killed itself."""
    process = start(work)
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return bool(process.exitcode)


def kill_after(run: DuelRun, cpu_seconds: float) -> bool:
    """Resumes a run in a process that is killed after this CPU time since its first step; returns whether it was."""
    playing = _PROCESSES.Event()
    process = start(lambda: run.go_on(lambda steps: playing.set()))
    assert playing.wait(120)
    end = cpu_time_of(process.pid) + cpu_seconds
    while process.is_alive() and cpu_time_of(process.pid) < end:
        time.sleep(0.001)
    process.kill()
    process.join()
    return bool(process.exitcode == -signal.SIGKILL)


def cpu_time_of(pid: int) -> float:
    """Seconds of CPU time that a process has had."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _alone(work: Callable[[], None]) -> None:
    th.set_num_threads(1)
    work()


def at_steps(steps: Iterable[int]) -> list[Watcher]:
    """Watchers that kill the process at these steps of its own."""

    def watcher(at: int) -> Watcher:
        return lambda done: kill_myself() if done == at else None

    return [watcher(at) for at in steps]
