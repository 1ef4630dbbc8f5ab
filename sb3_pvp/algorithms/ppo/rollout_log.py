"""The tags that `PvpPPO` logs, and the metrics of a rollout (self-play.md §11.1, §11.2)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.algorithms.ppo.update import MaskableBuffer

#: Every tag that `PvpPPO` logs. ``{head}`` stands for the id of an action head, or its index.
METRICS = {
    "rollout/advantage_mean": "Mean advantage (GAE) of all steps.",
    "rollout/buffer_finalize_time": "Seconds for values, normalising rewards and advantages.",
    "rollout/ep_len_mean": "Mean length of the last 100 episodes, in steps.",
    "rollout/ep_rew_mean": "Mean raw reward of the last 100 episodes.",
    "rollout/eps_greedy": "Probability that a whole batch of actions is taken greedily.",
    "rollout/fps": "Steps of all environments per second of rollout.",
    "rollout/gae_lambda": "Lambda of the advantages.",
    "rollout/gamma": "Discount factor.",
    "rollout/len/max_episode_length": "Longest episode that ended in this rollout.",
    "rollout/len/mean_episode_length": "Mean length of the episodes that ended in this rollout.",
    "rollout/len/min_episode_length": "Shortest episode that ended in this rollout.",
    "rollout/len/std_episode_length": "Standard deviation of the lengths of the episodes that ended in this rollout.",
    "rollout/num_envs": "Number of parallel environments.",
    "rollout/num_episode_starts": "Episodes that began in this rollout.",
    "rollout/num_episodes": "Episodes that ended in this rollout.",
    "rollout/num_truncates": "Episodes truncated in this rollout, bootstrapped with the critic's value.",
    "rollout/return_mean": "Mean target of the critic.",
    "rollout/reward/max_episode_reward": "Highest raw reward of an episode that ended in this rollout.",
    "rollout/reward/mean_episode_reward": "Mean raw reward of the episodes that ended in this rollout.",
    "rollout/reward/min_episode_reward": "Lowest raw reward of an episode that ended in this rollout.",
    "rollout/reward/std_episode_reward": "Standard deviation of the raw rewards of these episodes.",
    "rollout/reward_clip_count": "Normalised rewards at the limit of ±10 (with normalize_reward).",
    "rollout/running_reward_count": "Steps in the statistics of returns (with normalize_reward).",
    "rollout/running_reward_mean": "Running mean of discounted returns (with normalize_reward).",
    "rollout/running_reward_var": "Running variance of discounted returns (with normalize_reward).",
    "rollout/step_reward_mean": "Mean reward of a step, raw, with what callbacks have added to it.",
    "rollout/steps": "Steps per environment.",
    "rollout/success_rate": "Share of successes in the last 100 episodes (if the environment reports them).",
    "rollout/time": "Seconds of the rollout.",
    "rollout/value_mean": "Mean value predicted by the critic while acting.",
    "time/fps": "Steps of all environments per second since learn() began.",
    "time/iterations": "Rollouts since learn() began.",
    "time/time_elapsed": "Seconds since learn() began.",
    "time/total_timesteps": "Steps of all environments in the life of the model.",
    "train/approx_kl": "Estimate of the KL divergence from the acting policy, mean of the last epoch.",
    "train/batch_size": "Steps per mini-batch.",
    "train/clip_coef": "Clipping range of the probability ratio.",
    "train/clip_fraction": "Share of the steps whose ratio was beyond the clipping range.",
    "train/clip_range": "The same as train/clip_coef, under the name of SB3.",
    "train/clip_range_vf": "Clipping range of the values (if there is one).",
    "train/entropy_coef": "Weight of the entropy in the loss.",
    "train/entropy_loss": "Minus the mean entropy of an action, all heads together, with their weights.",
    "train/entropy_loss/{head}": "Minus the mean entropy of one action head (if the policy has separate heads).",
    "train/epochs": "Passes over the rollout; 0 while the policy only collects statistics.",
    "train/explained_variance": "Share of the variance of the returns that the values explain, 1 at best.",
    "train/grad_accum": "Mini-batches whose gradients make one step of the optimiser.",
    "train/grad_norm": "Mean norm of the gradient before clipping.",
    "train/kl": "Estimate of the KL divergence from the acting policy, mean of all mini-batches.",
    "train/learning_rate": "Learning rate of the optimiser.",
    "train/loss": "Total loss, mean of all mini-batches (stock SB3: of the last one).",
    "train/magnet_coef": "Weight of the divergence from the magnet in the loss (if there is one).",
    "train/magnet_kl": "Mean KL divergence of an action from the magnet, all heads together (if there is one).",
    "train/max_grad_norm": "Norm to which gradients are clipped.",
    "train/n_updates": "Epochs in the life of the model, as SB3 counts.",
    "train/num_updates": "Steps of the optimiser in this learning phase.",
    "train/policy_gradient_loss": "Clipped surrogate loss of the actor.",
    "train/time": "Seconds of the learning phase.",
    "train/total_steps": "Steps of all environments in the life of the model.",
    "train/trained_rollouts": "Finished rollouts in the life of the model, the time of all schedules.",
    "train/value_loss": "Mean squared error of the critic.",
    "train/vf_coef": "Weight of the value loss.",
}


@dataclass
class RolloutLog:
    """Metrics of a rollout that are not in its buffer; times are those of `time.perf_counter`."""

    started: float = field(default_factory=time.perf_counter)
    finalizing: float = 0.0  #: When the buffer was full.
    reward_total: float = 0.0
    ends: list[dict[str, Any]] = field(default_factory=list)  #: Infos of finished episodes.

    def add_step(self, rewards: NDArray[Any], dones: NDArray[np.bool_], infos: list[dict[str, Any]]) -> None:
        """Adds one step of all environments, with raw rewards ``(envs,)``."""
        self.reward_total += float(rewards.sum())
        self.ends += [infos[index] for index in np.flatnonzero(dones)]

    def metrics(self, buffer: MaskableBuffer) -> dict[str, Any]:
        """Returns the metrics of the finished rollout, by tag without ``rollout/``."""
        now, size = time.perf_counter(), buffer.rewards.size
        episodes = [info["episode"] for info in self.ends if "episode" in info]
        columns = {"len/{}_episode_length": "l", "reward/{}_episode_reward": "r"} if episodes else {}
        of_episodes = {
            tag.format(name): getattr(np, name)([float(episode[key]) for episode in episodes])
            for tag, key in columns.items()
            for name in ("min", "max", "mean", "std")
        }
        return of_episodes | {
            "time": now - self.started,
            "fps": size / (now - self.started),
            "buffer_finalize_time": now - self.finalizing,
            "num_episode_starts": int(buffer.episode_starts.sum()),
            "num_truncates": sum(bool(info.get("TimeLimit.truncated", False)) for info in self.ends),
            "num_episodes": len(episodes),
            "value_mean": buffer.values.mean(),
            "advantage_mean": buffer.advantages.mean(),
            "return_mean": buffer.returns.mean(),
            "step_reward_mean": self.reward_total / size,
            "steps": buffer.buffer_size,
            "num_envs": buffer.n_envs,
        }


def truncated(ended: NDArray[np.int64], infos: list[dict[str, Any]]) -> tuple[list[int], Any]:
    """Returns which of these rows have been truncated, and their last observations, stacked, Dict ones by key."""
    cut = [row for row in ended.tolist() if infos[row].get("TimeLimit.truncated", False)]
    cut = [row for row in cut if infos[row].get("terminal_observation") is not None]
    last = [infos[row]["terminal_observation"] for row in cut]
    if not last or not isinstance(last[0], dict):
        return cut, last and np.stack(last)
    return cut, {key: np.stack([each[key] for each in last]) for key in last[0]}
