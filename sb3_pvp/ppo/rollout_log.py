"""The figures of a roll-out (self-play.md §11.2)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.ppo.minibatches import MaskableBuffer


@dataclass
class RolloutLog:
    """What happened in a roll-out, as far as the buffer does not tell it."""

    started: float = field(default_factory=time.perf_counter)
    finalizing: float = 0.0
    reward_total: float = 0.0
    num_truncates: int = 0
    episodes: list[dict[str, Any]] = field(default_factory=list)

    def add_step(self, rewards: NDArray[Any], dones: NDArray[np.bool_], infos: list[dict[str, Any]]) -> None:
        """Counts a step of all environments; rewards are raw, and without what stands for the rest of an episode."""
        self.reward_total += float(rewards.sum())
        for index in np.flatnonzero(dones):
            self.num_truncates += bool(infos[index].get("TimeLimit.truncated", False))
            if "episode" in infos[index]:
                self.episodes.append(infos[index]["episode"])

    def begin_finalizing(self) -> None:
        """Starts the clock of ``rollout/buffer_finalize_time``."""
        self.finalizing = time.perf_counter()

    def figures(self, buffer: MaskableBuffer) -> dict[str, Any]:
        """The figures of the finished roll-out, by their tags without ``rollout/``."""
        now, size = time.perf_counter(), buffer.rewards.size
        return self._episode_figures() | {
            "time": now - self.started,
            "fps": size / (now - self.started),
            "buffer_finalize_time": now - self.finalizing,
            "num_episode_starts": int(buffer.episode_starts.sum()),
            "num_truncates": self.num_truncates,
            "num_episodes": len(self.episodes),
            "value_mean": buffer.values.mean(),
            "advantage_mean": buffer.advantages.mean(),
            "return_mean": buffer.returns.mean(),
            "step_reward_mean": self.reward_total / size,
            "steps": buffer.buffer_size,
            "num_envs": buffer.n_envs,
        }

    def _episode_figures(self) -> dict[str, Any]:
        if not self.episodes:
            return {}
        columns = {"len/{}_episode_length": "l", "reward/{}_episode_reward": "r"}
        return {
            tag.format(name): getattr(np, name)([float(episode[key]) for episode in self.episodes])
            for tag, key in columns.items()
            for name in ("min", "max", "mean", "std")
        }
