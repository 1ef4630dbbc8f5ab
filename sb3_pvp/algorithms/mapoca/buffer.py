"""Rollouts of teams on one timeline, and the samples in them: all that happens to a team stays together.

A dead agent's last action is paid by what its mates reach later: λ-returns run on over the team, whoever is left of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch as th
from numpy.typing import NDArray

from sb3_pvp.algorithms.mapoca.team_networks import AgentActor, TeamCritic
from sb3_pvp.policies.agent_slots import AgentActions

Floats = NDArray[np.float32]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True)
class TeamSamples:
    """Steps of teams; the first axis of every tensor is that of steps, ``agents`` the second where there is one."""

    observations: th.Tensor  #: ``(steps, agents, observation size)``
    actions: th.Tensor  #: ``(steps, agents, action size)``
    action_masks: th.Tensor  #: bool ``(steps, agents, entries)``, after rules between heads.
    present: th.Tensor  #: bool ``(steps, agents)``: who the critic sees.
    learning: th.Tensor  #: bool ``(steps, agents)``: whose actions count in the losses.
    old_log_probs: th.Tensor  #: ``(steps, agents, action size)``
    old_values: th.Tensor  #: ``(steps,)``
    old_baselines: th.Tensor  #: ``(steps, agents)``
    returns: th.Tensor  #: ``(steps,)``
    advantages: th.Tensor  #: ``(steps, agents)``

    def __len__(self) -> int:
        return len(self.returns)

    def __getitem__(self, indices: th.Tensor) -> TeamSamples:
        """Returns the steps with these indices, int64 ``(batch,)``."""
        return TeamSamples(**{name: tensor[indices] for name, tensor in vars(self).items()})

    def standardized(self) -> TeamSamples:
        """Returns samples with advantages of mean 0 and deviation 1 over all agents that learn."""
        counted = self.advantages[self.learning]
        deviation = counted.std(correction=0) + 1e-10
        return replace(self, advantages=(self.advantages - counted.mean()) / deviation)


class GroupRolloutBuffer:
    """``buffer_size`` steps of ``n_envs`` teams; a smaller SB3 ``RolloutBuffer`` with an axis for agents.

    Attributes that are arrays begin with the axes ``(buffer_size, n_envs)``; ``observations``, ``actions``,
    ``action_masks``, ``log_probs``, ``active``, ``baselines`` and ``advantages`` have one of agents then.
    """

    def __init__(
        self,
        buffer_size: int,
        n_envs: int,
        num_agents: int,
        observation_size: int,
        actions: AgentActions,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        device: th.device | str = "cpu",
    ) -> None:
        self.buffer_size, self.n_envs, self.device = buffer_size, n_envs, device
        self.gamma, self.gae_lambda = gamma, gae_lambda
        steps, agents = (buffer_size, n_envs), (buffer_size, n_envs, num_agents)
        self.observations = np.zeros((*agents, observation_size), np.float32)
        self.actions = np.zeros((*agents, actions.size), np.float32)
        self.action_masks = np.ones((*agents, sum(actions.branches)), np.bool_)
        self.active = np.zeros(agents, np.bool_)
        self.log_probs = np.zeros((*agents, actions.size), np.float32)
        self.rewards, self.values, self.returns = np.zeros((3, *steps), np.float32)
        self.baselines, self.advantages = np.zeros((2, *agents), np.float32)
        self.episode_starts = np.zeros(steps, np.bool_)
        self.reset()

    def reset(self) -> None:
        """Empties the buffer; the arrays keep what was in them until `add` replaces it."""
        self.pos, self.full = 0, False

    def add(
        self,
        observations: Floats,
        active: Booleans,
        actions: Floats,
        rewards: Floats,
        episode_starts: Booleans,
        action_masks: Booleans | None = None,
    ) -> None:
        """Adds a step of all teams: what they saw and did, and what that was paid. `evaluate` adds the rest.

        Args:
            observations: of all agents ``(n_envs, agents, size)``; where one is absent, anything.
            active: which agents acted, ``(n_envs, agents)``.
            actions: float ``(n_envs, agents, action size)``.
            rewards: of the whole team ``(n_envs,)``; after the last step of an episode that was cut off it includes
                the discounted value of what came next, as in SB3.
            episode_starts: whether the step is the first of an episode ``(n_envs,)``.
            action_masks: after rules between heads ``(n_envs, agents, entries)``; by default all is legal.
        """
        step = self.pos
        # Whoever is absent leaves zeros, so that nothing that is computed from them is NaN.
        self.observations[step] = np.where(active[..., None], observations, 0)
        self.actions[step] = np.where(active[..., None], actions, 0)
        self.action_masks[step] = True if action_masks is None else action_masks
        self.active[step], self.rewards[step], self.episode_starts[step] = active, rewards, episode_starts
        self.pos += 1
        self.full = self.pos == self.buffer_size

    @th.no_grad()
    def evaluate(self, critic: TeamCritic, rows_at_once: int, actor: AgentActor | None = None) -> None:
        """Fills in values and baselines of all steps, by so many at once, and the actor's log-probabilities."""
        values, baselines = self.values.reshape(-1), self.baselines.reshape(self.values.size, -1)  # views
        for begin in range(0, len(values), rows_at_once):
            rows = slice(begin, begin + rows_at_once)
            seen, actions, active, masks = (
                th.as_tensor(each.reshape(len(values), *each.shape[2:])[rows], device=self.device)
                for each in (self.observations, self.actions, self.active, self.action_masks)
            )
            value, baseline = critic.evaluate(seen, actions, active)
            values[rows], baselines[rows] = value.cpu().numpy(), baseline.cpu().numpy()
            if actor is not None:
                log_probs, _ = actor.evaluate(actor.body(seen), actions, masks)
                self.log_probs.reshape(len(values), *log_probs.shape[1:])[rows] = log_probs.cpu().numpy()

    def compute_returns_and_advantage(self, last_values: Floats, dones: Booleans) -> None:
        """Computes λ-returns of the teams and advantages of the agents; given is what the last step led to."""
        goes_on = ~np.concatenate([self.episode_starts[1:], dones[None]])
        next_values = np.concatenate([self.values[1:], last_values[None]])
        # V of a team in which nobody is left is never learned: what follows stands in its place.
        is_known = np.concatenate([self.active[1:].any(-1), np.ones((1, self.n_envs), np.bool_)])
        later = last_values
        for step in reversed(range(self.buffer_size)):
            value = np.where(is_known[step], next_values[step], later)
            ahead = ((1 - self.gae_lambda) * value + self.gae_lambda * later) * goes_on[step]
            self.returns[step] = later = self.rewards[step] + self.gamma * ahead
        # The baseline knows all but the agent's own action: what is left is what this action was worth.
        self.advantages[:] = self.returns[..., None] - self.baselines

    def samples(self) -> TeamSamples:
        """Returns all steps of a full buffer in which anybody acted, as tensors on the device."""
        used = self.active.any(-1)

        def tensor(array: NDArray[np.float32] | Booleans) -> th.Tensor:
            return th.as_tensor(array[used], device=self.device)

        active = tensor(self.active)
        return TeamSamples(
            observations=tensor(self.observations),
            actions=tensor(self.actions),
            action_masks=tensor(self.action_masks),
            present=active,
            learning=active,
            old_log_probs=tensor(self.log_probs),
            old_values=tensor(self.values),
            old_baselines=tensor(self.baselines),
            returns=tensor(self.returns),
            advantages=tensor(self.advantages),
        )
