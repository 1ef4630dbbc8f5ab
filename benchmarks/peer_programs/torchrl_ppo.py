"""torchrl's PPO: its collector, its advantages and its loss, on NhVecEnv as one batched environment.

A batched environment is what torchrl uses for vectorised simulators; a ``SerialEnv`` of single fights would pay for
every fight anew. Illegal choices are masked out of the logits; the heads know nothing of each other. The parts are put
together as in torchrl's own PPO example, without its logging; mini-batches are drawn directly and not through a replay
buffer, which would only add to the cost.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch as th
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import Binary, Composite, MultiCategorical, Unbounded
from torchrl.envs import EnvBase
from torchrl.modules import MLP, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from benchmarks.peer_programs.rounds import Rounds, Task, read_task

GAMMA, GAE_LAMBDA, CLIP_RANGE, VF_COEF, ENT_COEF, MAX_GRAD_NORM, LEARNING_RATE = 0.99, 0.95, 0.2, 0.5, 0.0, 0.5, 3e-4
MASKED = -1e8
KEYS = ("observation", "privileged")


class Fights(EnvBase):  # type: ignore[misc]
    """NhVecEnv as one environment with a batch of fights."""

    def __init__(self, task: Task) -> None:
        super().__init__(device="cpu", batch_size=[task.n_envs])
        self.env = task.make_vec_env()
        self.now: TensorDictBase | None = None
        spaces, nvec = self.env.observation_space.spaces, self.env.action_space.nvec
        batch = (task.n_envs,)
        sizes = {key: int(np.prod(spaces[key].shape)) for key in KEYS}
        specs: dict[str, Any] = {key: Unbounded((*batch, size)) for key, size in sizes.items()}
        self.observation_spec = Composite(**specs, mask=Binary(shape=(*batch, nvec.sum()), dtype=th.bool), shape=batch)
        self.action_spec = MultiCategorical(nvec, shape=(*batch, len(nvec)))
        self.reward_spec = Unbounded((*batch, 1))

    def _reset(self, tensordict: TensorDictBase | None = None, **_: Any) -> TensorDictBase:
        if self.now is None:
            self.now = self._observed(self.env.reset())
        return self.now  # fights that have ended are running again by now

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        observation, rewards, dones, infos = self.env.step(tensordict["action"].numpy())
        self.now = now = self._observed(observation)
        result, truncated = now.copy(), np.zeros_like(dones)
        if dones.any():
            result.update({key: now[key].clone() for key in KEYS})
        for row in np.flatnonzero(dones):
            truncated[row] = infos[row]["TimeLimit.truncated"]
            for key in KEYS:
                result[key][row] = th.from_numpy(infos[row]["terminal_observation"][key]).flatten()
        ends = {"reward": rewards, "done": dones, "truncated": truncated, "terminated": dones & ~truncated}
        return result.update({name: th.from_numpy(value)[:, None] for name, value in ends.items()})

    def _set_seed(self, seed: int | None) -> None:
        self.env.seed(seed)

    def _observed(self, observation: dict[str, Any]) -> TensorDictBase:
        parts = {key: th.from_numpy(observation[key]).flatten(1) for key in KEYS}
        return TensorDict({**parts, "mask": th.from_numpy(self.env.action_masks())}, self.batch_size)


class MaskedHeads(th.distributions.Distribution):
    """Independent masked choices; torchrl's ``MaskedCategorical`` would have to be called once per head."""

    def __init__(self, logits: th.Tensor, mask: th.Tensor, columns: th.Tensor, is_choice: th.Tensor) -> None:
        super().__init__(logits.shape[:-1], th.Size((len(columns),)), validate_args=False)
        table = mask[..., columns] & is_choice
        first = table[..., :1] | ~table.any(-1, keepdim=True)  # a head with nothing allowed takes its first choice
        table = th.cat([first, table[..., 1:]], -1)
        self.log_probs = logits[..., columns].masked_fill(~table, MASKED).log_softmax(-1)

    def sample(self, sample_shape: Any = ()) -> th.Tensor:
        """Draws one choice per head."""
        # The largest of probabilities over exponential noise is a sample, at a fraction of `multinomial`'s price.
        noise = th.empty_like(self.log_probs).exponential_().clamp_min_(1e-20)
        return (self.log_probs.exp() / noise).argmax(-1)

    def log_prob(self, value: th.Tensor) -> th.Tensor:
        """Returns the log-probabilities of choices."""
        return self.log_probs.gather(-1, value[..., None]).squeeze(-1).sum(-1)

    def entropy(self) -> th.Tensor:
        """Returns the sum of the heads' entropies."""
        return -(self.log_probs.exp() * self.log_probs).sum((-1, -2))


def main() -> None:
    """Trains in rounds."""
    task = read_task()
    rounds = Rounds(task.agent_steps, "torchrl", "tensordict")
    th.manual_seed(task.seed)
    env = Fights(task)
    actor, critic = _make_networks(env, list(task.net_arch))
    advantage = GAE(gamma=GAMMA, lmbda=GAE_LAMBDA, value_network=critic)
    loss_module = ClipPPOLoss(
        actor,
        critic,
        clip_epsilon=CLIP_RANGE,
        entropy_coeff=ENT_COEF,
        critic_coeff=VF_COEF,
        loss_critic_type="l2",
        normalize_advantage=True,
    )
    optimizer = th.optim.Adam(loss_module.parameters(), lr=LEARNING_RATE, eps=1e-5)
    collector = Collector(
        env, actor, frames_per_batch=task.agent_steps, total_frames=-1, auto_register_policy_transforms=False
    )
    rollouts = iter(collector)
    while True:
        with rounds.part("rollout"):
            samples = next(rollouts)
        with rounds.part("learn"):
            with th.no_grad():
                advantage(samples)
            flat = samples.exclude("next").reshape(-1)  # nothing reads it any more
            for rows in th.split(th.randperm(task.agent_steps), task.batch_size):
                losses = loss_module(flat[rows])
                optimizer.zero_grad()
                (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
                nn.utils.clip_grad_norm_(loss_module.parameters(), MAX_GRAD_NORM)
                optimizer.step()
        rounds.next_training()


def _make_networks(env: Fights, net_arch: list[int]) -> tuple[ProbabilisticActor, ValueOperator]:
    """Returns the actor, which sees the public part of an observation, and the critic, which sees all of it."""
    spec, sizes = env.observation_spec, env.env.action_space.nvec
    public, private = (spec[key].shape[-1] for key in KEYS)
    starts, places = np.cumsum(sizes) - sizes, np.arange(sizes.max())
    is_choice = places < sizes[:, None]
    columns = np.where(is_choice, starts[:, None] + places, 0)
    layers: dict[str, Any] = {"num_cells": net_arch, "activation_class": nn.Tanh}
    logits = TensorDictModule(MLP(public, int(sizes.sum()), **layers), ["observation"], ["logits"])
    actor = ProbabilisticActor(
        logits,
        in_keys=["logits", "mask"],
        spec=env.action_spec,
        distribution_class=MaskedHeads,
        distribution_kwargs={"columns": th.from_numpy(columns), "is_choice": th.from_numpy(is_choice)},
        return_log_prob=True,
        default_interaction_type="random",
    )
    return actor, ValueOperator(MLP(public + private, 1, **layers), in_keys=list(KEYS))


if __name__ == "__main__":
    main()
