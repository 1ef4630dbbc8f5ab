"""One learning phase of MA-POCA: mini-batches of teams, the losses and the steps of the optimiser."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch as th

from sb3_pvp.algorithms.mapoca.buffer import TeamSamples
from sb3_pvp.algorithms.mapoca.team_networks import TeamNetworks

#: What linear schedules end at, by hyperparameter; an initial value below it rises.
FLOORS = {"learning_rate": 1e-10, "clip_range": 0.1, "ent_coef": 1e-5}
#: What `MapocaUpdate.loss` measures.
TERMS = ("policy_gradient_loss", "value_loss", "baseline_loss", "entropy_loss", "loss")


def clipped_policy_loss(
    log_probs: th.Tensor, old_log_probs: th.Tensor, advantages: th.Tensor, clip_range: float
) -> th.Tensor:
    """Returns PPO's loss with a ratio per dimension of the action ``(rows, dimensions)``, and not of the joint one."""
    ratios, advantages = th.exp(log_probs - old_log_probs), advantages[:, None]
    clipped = ratios.clamp(1 - clip_range, 1 + clip_range)
    return -th.min(ratios * advantages, clipped * advantages).mean()


def clipped_value_loss(values: th.Tensor, old_values: th.Tensor, returns: th.Tensor, clip_range: float) -> th.Tensor:
    """Returns the larger squared error of values and of those that move by ``clip_range`` at most."""
    clipped = old_values + (values - old_values).clamp(-clip_range, clip_range)
    return th.max((returns - values) ** 2, (returns - clipped) ** 2).mean()


@dataclass(frozen=True)
class MapocaUpdate:
    """One learning phase; fields are named like SB3's hyperparameters."""

    networks: TeamNetworks
    optimizer: th.optim.Optimizer
    clip_range: float
    ent_coef: float
    vf_coef: float = 0.5
    baseline_coef: float = 0.5  #: Of the baseline's loss beside the value's.
    #: Whether the value's loss is clipped as the baseline's is. In ml-agents it is not, since the returns stand where
    #: the old values should.
    clip_value_loss: bool = True

    def run(self, samples: TeamSamples, n_epochs: int, batch_size: int | None = None) -> dict[str, float]:
        """Learns from the samples in mini-batches of ``batch_size`` team-steps, and returns the means of `TERMS`.

        What is left after the last full mini-batch of an epoch is dropped; ``None``: all samples at once.
        """
        samples, size = samples.standardized(), min(batch_size or len(samples), len(samples))
        terms = []
        for _ in range(n_epochs):
            order = th.from_numpy(np.random.permutation(len(samples)))  # noqa: NPY002  # as SB3
            for indices in th.split(order[: len(order) // size * size], size):
                loss, measured = self.loss(samples[indices.to(samples.returns.device)])
                self.optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                self.optimizer.step()
                terms.append(measured)
        return dict(zip(TERMS, th.stack(terms).mean(0).tolist(), strict=True)) if terms else {}

    def loss(self, batch: TeamSamples) -> tuple[th.Tensor, th.Tensor]:
        """Returns the loss of one mini-batch, whose advantages are standardised, and its `TERMS`."""
        mask = batch.learning
        values, baselines = self.networks.critic.evaluate(batch.observations, batch.actions, batch.present)
        # From here on a row is an agent that learns; V and its target are the team's, and count once for each of them.
        own = (batch.observations, batch.actions, batch.action_masks, batch.old_log_probs, batch.advantages)
        observations, actions, masks, old_log_probs, advantages = (each[mask] for each in own)
        team = (values, batch.old_values, batch.returns)
        values, old_values, returns = (each[:, None].expand_as(mask)[mask] for each in team)
        actor = self.networks.actor
        log_probs, entropies = actor.evaluate(actor.body(observations), actions, masks)
        policy_loss = clipped_policy_loss(log_probs, old_log_probs, advantages, self.clip_range)
        value_loss = clipped_value_loss(
            values, old_values if self.clip_value_loss else returns, returns, self.clip_range
        )
        baseline_loss = clipped_value_loss(baselines[mask], batch.old_baselines[mask], returns, self.clip_range)
        entropy_loss = -entropies.mean()
        critic_loss = value_loss + self.baseline_coef * baseline_loss
        loss = policy_loss + self.vf_coef * critic_loss + self.ent_coef * entropy_loss
        terms = (policy_loss, value_loss, baseline_loss, entropy_loss, loss)
        return loss, th.stack([each.detach() for each in terms])
