"""A plain PPO loop in one file, in the style of CleanRL: what anybody would write for NhVecEnv in an afternoon.

Illegal choices are masked out of the logits; the heads know nothing of each other. No normalisation of observations,
and no bootstrapping where a fight is cut off.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch as th
from numpy.typing import NDArray
from torch import nn

from benchmarks.peer_programs.rounds import Rounds, Task, read_task

GAMMA, GAE_LAMBDA, CLIP_RANGE, VF_COEF, ENT_COEF, MAX_GRAD_NORM, LEARNING_RATE = 0.99, 0.95, 0.2, 0.5, 0.0, 0.5, 3e-4
MASKED = -1e8


class Samples(NamedTuple):
    """Some agent-steps, in tensors ``(..., size)`` or ``(...)``; observations begin with what the actor sees."""

    observations: th.Tensor
    masks: th.Tensor
    actions: th.Tensor
    log_probs: th.Tensor
    values: th.Tensor
    rewards: th.Tensor
    dones: th.Tensor


class Agent(nn.Module):
    """An actor and a critic of their own layers. The logits of all heads are one table, ``(batch, heads, widest)``."""

    def __init__(self, num_public: int, num_all: int, head_sizes: NDArray[np.int64], net_arch: list[int]) -> None:
        super().__init__()
        self.num_public = num_public
        self.actor = _network([num_public, *net_arch, int(head_sizes.sum())], 0.01)
        self.critic = _network([num_all, *net_arch, 1], 1.0)
        starts = np.cumsum(head_sizes) - head_sizes
        places = np.arange(head_sizes.max())
        is_choice = places < head_sizes[:, None]
        #: Column in the flat logits and masks of each place in the table (any column outside the head's choices).
        self.columns = th.from_numpy(np.where(is_choice, starts[:, None] + places, 0))
        self.is_choice = th.from_numpy(is_choice)

    def log_probs(self, observations: th.Tensor, masks: th.Tensor) -> th.Tensor:
        """Returns log-probabilities ``(batch, heads, widest)``; ``masks``: table of the same shape."""
        logits: th.Tensor = self.actor(observations[:, : self.num_public])[:, self.columns]
        return logits.masked_fill(~masks, MASKED).log_softmax(2)

    def table(self, masks: NDArray[np.bool_]) -> th.Tensor:
        """Returns flat masks as a table; a head with nothing allowed takes its first choice."""
        table = th.from_numpy(masks)[:, self.columns] & self.is_choice
        table[:, :, 0] |= ~table.any(2)
        return table


class Loop:
    """The environment, the agent and the buffer."""

    def __init__(self, task: Task) -> None:
        th.manual_seed(task.seed)
        self.task, self.env = task, task.make_vec_env()
        self.observation = self.env.reset()
        spaces, head_sizes = self.env.observation_space.spaces, self.env.action_space.nvec
        num_public, num_privileged = (int(np.prod(spaces[key].shape)) for key in ("observation", "privileged"))
        self.agent = Agent(num_public, num_public + num_privileged, head_sizes, list(task.net_arch))
        self.optimizer = th.optim.Adam(self.agent.parameters(), lr=LEARNING_RATE, eps=1e-5)
        shape = (task.n_steps, task.n_envs)
        self.buffer = Samples(
            observations=th.zeros(*shape, num_public + num_privileged),
            masks=th.zeros(*shape, *self.agent.columns.shape, dtype=th.bool),
            actions=th.zeros(*shape, len(head_sizes), dtype=th.int64),
            log_probs=th.zeros(shape),
            values=th.zeros(shape),
            rewards=th.zeros(shape),
            dones=th.zeros(shape),
        )

    @th.no_grad()
    def collect(self) -> None:
        """Fills the buffer."""
        for step in range(self.task.n_steps):
            now = Samples(*(part[step] for part in self.buffer))
            self._observe(now.observations)
            now.masks.copy_(self.agent.table(self.env.action_masks()))
            log_probs = self.agent.log_probs(now.observations, now.masks)
            # The largest of probabilities over exponential noise is a sample, at a fraction of `multinomial`'s price.
            noise = th.empty_like(log_probs).exponential_().clamp_min_(1e-20)
            actions = (log_probs.exp() / noise).argmax(2)
            now.actions.copy_(actions)
            now.log_probs.copy_(_chosen(log_probs, actions).sum(1))
            now.values.copy_(self.agent.critic(now.observations).squeeze(1))
            self.observation, rewards, dones, _ = self.env.step(actions.numpy())
            now.rewards.copy_(th.from_numpy(rewards))
            now.dones.copy_(th.from_numpy(dones))

    def learn(self) -> None:
        """One epoch of PPO over the buffer."""
        advantages = self._advantages()
        parts = Samples(*(part.flatten(0, 1) for part in self.buffer))
        advantages, returns = advantages.flatten(), (advantages + self.buffer.values).flatten()
        for rows in th.split(th.randperm(self.task.agent_steps), self.task.batch_size):
            batch = Samples(*(part[rows] for part in parts))
            log_probs = self.agent.log_probs(batch.observations, batch.masks)
            ratio = (_chosen(log_probs, batch.actions).sum(1) - batch.log_probs).exp()
            own = advantages[rows]
            own = (own - own.mean()) / (own.std() + 1e-8)
            policy_loss = -th.min(own * ratio, own * ratio.clamp(1 - CLIP_RANGE, 1 + CLIP_RANGE)).mean()
            value_loss = nn.functional.mse_loss(self.agent.critic(batch.observations).squeeze(1), returns[rows])
            entropy = -(log_probs.exp() * log_probs).sum((1, 2)).mean()
            self.optimizer.zero_grad()
            (policy_loss + VF_COEF * value_loss - ENT_COEF * entropy).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self.agent.parameters(), MAX_GRAD_NORM)
            self.optimizer.step()

    def _observe(self, into: th.Tensor) -> None:
        parts = [th.from_numpy(self.observation[key]).flatten(1) for key in ("observation", "privileged")]
        th.cat(parts, 1, out=into)

    @th.no_grad()
    def _advantages(self) -> th.Tensor:
        last = th.empty_like(self.buffer.observations[0])
        self._observe(last)
        next_values = self.agent.critic(last).squeeze(1)
        advantages, advantage = th.zeros_like(self.buffer.values), th.zeros(self.task.n_envs)
        for step in reversed(range(self.task.n_steps)):
            goes_on = 1 - self.buffer.dones[step]
            delta = self.buffer.rewards[step] + GAMMA * next_values * goes_on - self.buffer.values[step]
            advantage = delta + GAMMA * GAE_LAMBDA * goes_on * advantage
            advantages[step], next_values = advantage, self.buffer.values[step]
        return advantages


def main() -> None:
    """Trains in rounds."""
    task = read_task()
    rounds = Rounds(task.agent_steps)
    loop = Loop(task)
    while True:
        with rounds.part("rollout"):
            loop.collect()
        with rounds.part("learn"):
            loop.learn()
        rounds.next_training()


def _chosen(log_probs: th.Tensor, actions: th.Tensor) -> th.Tensor:
    """Log-probabilities ``(batch, heads)`` of actions ``(batch, heads)``."""
    return log_probs.gather(2, actions.unsqueeze(2)).squeeze(2)


def _network(sizes: list[int], last_gain: float) -> nn.Sequential:
    """Linear layers with tanh between them, initialised orthogonally as in PPO's reference implementation."""
    modules: list[nn.Module] = []
    for number, (width, next_width) in enumerate(pairwise(sizes), 2):
        linear = nn.Linear(width, next_width)
        nn.init.orthogonal_(linear.weight, last_gain if number == len(sizes) else 2**0.5)
        nn.init.zeros_(linear.bias)
        modules += [linear, nn.Tanh()]
    return nn.Sequential(*modules[:-1])


if __name__ == "__main__":
    main()
