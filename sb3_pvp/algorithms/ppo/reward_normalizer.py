"""Dividing rewards by the standard deviation of discounted returns (training.md §4, §6.2 c)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CLIP = 10.0
EPSILON = 1e-8


@dataclass
class RewardNormalizer:
    """Running mean and variance of the discounted returns of all rollouts so far."""

    mean: float = 0.0  #: Mean of the returns.
    variance: float = 1.0  #: Variance of the returns.
    count: float = 1e-4  #: Number of returns; starts near zero, so that the initial variance soon stops mattering.

    @property
    def std(self) -> float:
        """The divisor of rewards; normalised values times this are on the raw scale."""
        return float(np.sqrt(self.variance + EPSILON))

    def update(self, returns: NDArray[np.floating]) -> None:
        """Merges returns of any shape into the statistics (parallel variance, training.md §4)."""
        size, mean, variance = returns.size, float(returns.mean(dtype=float)), float(returns.var(dtype=float))
        # From moments of both parts (Chan et al.), since the returns of earlier rollouts are gone.
        delta, total = mean - self.mean, self.count + size
        spread = self.variance * self.count + variance * size + delta**2 * self.count * size / total
        self.mean += delta * size / total
        self.variance = spread / total
        self.count = total

    def __call__(self, rewards: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns rewards of any shape divided by `std` and clipped to ±10; the mean is not subtracted."""
        normalized: NDArray[np.float32] = np.clip(rewards / self.std, -CLIP, CLIP).astype(np.float32)
        return normalized

    def metrics(self, normalized: NDArray[np.float32]) -> dict[str, float]:
        """Returns the statistics, and the number of clipped rewards, by tag without ``rollout/``."""
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
    """Returns the discounted return from each step of a rollout on, float32 ``(steps, envs)``.

    ``rewards`` and ``episode_starts`` are ``(steps, envs)``; ``last_values`` and ``last_dones``, ``(envs,)``, are those
    after the last step. Values must be on the scale of the rewards.
    """
    returns = np.empty_like(rewards)
    following, not_done = last_values, 1.0 - last_dones.astype(np.float32)
    # Backwards, as each return is its reward and the discounted return after it, and none crosses an episode's end.
    for step in reversed(range(len(rewards))):
        following = returns[step] = rewards[step] + gamma * not_done * following
        # An episode that starts at this step ended the one before it.
        not_done = 1.0 - episode_starts[step]
    return returns
