"""Rewards divided by the spread of what is still to come (training.md §4, §6.2 c)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CLIP = 10.0
EPSILON = 1e-8


@dataclass
class RewardNormalizer:
    """Running mean and variance of discounted returns, each over all rollouts so far.

    A fresh one has the standard deviation 1 and next to no weight.
    """

    mean: float = 0.0
    variance: float = 1.0
    count: float = 1e-4

    @property
    def std(self) -> float:
        """What rewards are divided by, and what brings a value back to the scale of raw rewards."""
        return float(np.sqrt(self.variance + EPSILON))

    def update(self, returns: NDArray[np.floating]) -> None:
        """Merges a batch of returns of any shape into the statistics (parallel variance, training.md §4)."""
        size, mean, variance = returns.size, float(returns.mean(dtype=float)), float(returns.var(dtype=float))
        delta, total = mean - self.mean, self.count + size
        spread = self.variance * self.count + variance * size + delta**2 * self.count * size / total
        self.mean += delta * size / total
        self.variance = spread / total
        self.count = total

    def __call__(self, rewards: NDArray[np.float32]) -> NDArray[np.float32]:
        """Rewards of any shape, divided by the standard deviation and clipped to ±10; the mean stays."""
        normalized: NDArray[np.float32] = np.clip(rewards / self.std, -CLIP, CLIP).astype(np.float32)
        return normalized

    def figures(self, normalized: NDArray[np.float32]) -> dict[str, float]:
        """What there is to log: the statistics, and how many of the normalised rewards are at the limit."""
        return {
            "running_reward_mean": self.mean,
            "running_reward_var": self.variance,
            "running_reward_count": self.count,
            "reward_clip_count": int((np.abs(normalized) >= CLIP).sum()),
        }


def returns_to_go(
    rewards: NDArray[np.float32],
    episode_starts: NDArray[np.float32],
    last_values: NDArray[np.float32],
    last_dones: NDArray[np.bool_],
    gamma: float,
) -> NDArray[np.float32]:
    """Discounted sums of what follows each step of a rollout, float32 ``(steps, envs)``.

    ``rewards`` and ``episode_starts`` are ``(steps, envs)``; ``last_values`` and ``last_dones``, ``(envs,)``, tell what
    follows the last step. All on one scale: that of raw rewards, if the sums are to be of raw rewards.
    """
    returns = np.empty_like(rewards)
    following, goes_on = last_values, 1.0 - last_dones.astype(np.float32)
    for step in reversed(range(len(rewards))):
        following = returns[step] = rewards[step] + gamma * goes_on * following
        goes_on = 1.0 - episode_starts[step]
    return returns
