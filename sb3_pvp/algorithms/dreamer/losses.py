"""The losses of DreamerV3 on one batch of sequences, in the order of events (dreamer.md §4.1, §5.2).

The model follows the sequences and learns to predict them; from every state that it came to, the actor plays a few
steps in the model alone; the returns of these steps teach actor and critic, and the critic learns from the real
rewards as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch as th
from torch import nn
from torch.nn import functional as F

from sb3_pvp.algorithms.dreamer.distributions import Draws, latent_entropy, mixed_probs, two_hot_loss, two_hot_mean
from sb3_pvp.algorithms.dreamer.signals import Signal, encode_actions
from sb3_pvp.algorithms.dreamer.world_model import DreamerNetworks, Latent, Observed, Tensors


@dataclass(frozen=True)
class LossSettings:
    """What the losses depend on. ``scales`` weigh them; each key of an observation has scale 1.

    ``imagined_steps`` are played from the last ``imag_last`` states of every sequence; 0: from all.
    """

    gamma: float = 1 - 1 / 333
    gae_lambda: float = 0.95
    ent_coef: float = 3e-4
    imagined_steps: int = 15
    imag_last: int = 0
    free_nats: float = 1.0
    scales: dict[str, float] = field(default_factory=lambda: {"rep": 0.1, "repval": 0.3})


class Sequences(NamedTuple):
    """A batch of replayed sequences; all tensors are ``(batch, time, …)``.

    ``actions`` are those before each observation, as network inputs; ``rewards`` were received on arriving at it.
    ``start`` is the state before the first step, ``(batch, …)``.
    """

    observations: Tensors
    actions: th.Tensor
    rewards: th.Tensor
    is_first: th.Tensor
    is_last: th.Tensor
    is_terminal: th.Tensor
    start: Latent


class Judged(NamedTuple):
    """What the heads say of imagined steps ``(starts, steps + 1)``; ``returns`` ``(starts, steps)``."""

    rewards: th.Tensor
    goes_on: th.Tensor
    values: th.Tensor
    slow_values: th.Tensor
    weights: th.Tensor
    returns: th.Tensor


class ReturnScale(nn.Module):
    """Running percentiles of returns: advantages are divided by how far apart they are, but not by less than 1."""

    def __init__(self, rate: float = 0.01) -> None:
        super().__init__()
        self.rate = rate
        self.low, self.high = nn.Buffer(th.zeros(())), nn.Buffer(th.zeros(()))
        self.shares = nn.Buffer(th.tensor([0.05, 0.95]), persistent=False)

    @th.no_grad()
    def update(self, returns: th.Tensor) -> th.Tensor:
        """Takes in the returns of a batch; returns the scale, which they are part of already."""
        percentiles = th.quantile(returns.flatten(), self.shares)
        self.low.lerp_(percentiles[0], self.rate)
        self.high.lerp_(percentiles[1], self.rate)
        return (self.high - self.low).clamp(min=1)


class Losses(NamedTuple):
    """All losses of a batch, and what they were computed from.

    Losses of the model and of real rewards are ``(batch, time)``, those of imagined steps ``(starts, steps)``, as are
    advantages and entropies; imagined states and actions are ``(starts, steps + 1, …)``.
    """

    parts: Tensors
    observed: Observed
    imagined: Latent
    actions: Tensors
    judged: Judged
    advantages: th.Tensor
    entropies: Tensors
    replay_returns: th.Tensor

    def total(self, scales: dict[str, float]) -> th.Tensor:
        """Returns the sum of the means, weighted."""
        return th.stack([scales.get(name, 1.0) * loss.mean() for name, loss in self.parts.items()]).sum()

    @th.no_grad()
    def figures(self, scale: ReturnScale, actions: Mapping[str, Signal]) -> Tensors:
        """Returns what is logged, scalars by the names of the original (dreamer.md §5.3, M11)."""
        figures = {f"loss/{name}": loss.mean() for name, loss in self.parts.items()}
        for key, entropy in self.entropies.items():
            figures[f"ent/{key}"] = entropy.mean()
            if actions[key].classes:  # as a share of what choosing at random would have
                figures[f"rand/{key}"] = entropy.mean() / (actions[key].size * math.log(actions[key].classes))
        judged, posterior, prior = self.judged, mixed_probs(self.observed.posterior), mixed_probs(self.observed.prior)
        normed = (judged.returns - scale.low) / (scale.high - scale.low).clamp(min=1)
        means = {"rew": judged.rewards, "con": judged.goes_on, "val": judged.values, "slowval": judged.slow_values}
        means |= {"weight": judged.weights, "tar": judged.returns, "ret": normed, "adv": self.advantages}
        means |= {"adv_mag": self.advantages.abs(), "ret_rate": (normed.abs() >= 1).to(normed.dtype)}
        means |= {"dyn_ent": latent_entropy(prior), "rep_ent": latent_entropy(posterior)}
        figures |= {name: values.mean() for name, values in means.items()}
        adv_std = self.advantages.std(correction=0)
        return figures | {"adv_std": adv_std, "ret_min": normed.min(), "ret_max": normed.max()}


def dreamer_losses(
    networks: DreamerNetworks, batch: Sequences, scale: ReturnScale, settings: LossSettings, draws: Draws
) -> Losses:
    """Returns all losses of a batch, with gradients; takes its imagined returns into ``scale``."""
    # The model follows the sequences, and learns to predict observation, reward and continuation.
    tokens = networks.encoder(batch.observations)
    observed = networks.recurrent.observe(batch.start, tokens, batch.actions, batch.is_first, draws)
    seen = observed.states.features()
    parts = networks.decoder.losses(networks.decoder(observed.states), batch.observations)
    parts["rew"] = two_hot_loss(networks.reward(seen), batch.rewards)
    # The discount is part of it: in the model, an episode of 333 steps ends by chance.
    live = (~batch.is_terminal).to(batch.rewards.dtype) * settings.gamma
    logits = networks.goes_on(seen).squeeze(-1).float()
    parts["con"] = F.binary_cross_entropy_with_logits(logits, live, reduction="none")
    parts |= observed.divergences(settings.free_nats)

    # The actor plays on from where it came to; nothing of that teaches the model.
    last = -settings.imag_last  # from 0 on, and from before the first step, it is the whole sequence
    starts = Latent(*(part[:, last:].detach().flatten(0, 1) for part in observed.states))
    legal = networks.legal(batch.observations)
    masks = None if legal is None else legal[:, last:].flatten(0, 1)
    imagined, actions = imagine(networks, starts, settings.imagined_steps, draws, masks)
    features = imagined.features()
    logits = networks.critic(features)
    with th.no_grad():
        rewards = two_hot_mean(networks.reward(features))
        goes_on = networks.goes_on(features).squeeze(-1).float().sigmoid()
        values, slow_values = two_hot_mean(logits), two_hot_mean(networks.slow_critic(features))
        returns = lambda_returns(rewards, goes_on, values, settings.gae_lambda)
    # The weight is how likely it is that the episode is still on.
    judged = Judged(rewards, goes_on, values, slow_values, goes_on.cumprod(1), returns)

    # Actor and critic learn from the imagined returns.
    advantages = (judged.returns - judged.values[:, :-1]) / scale.update(judged.returns)
    weights = judged.weights[:, :-1]
    log_probs, entropies = networks.judge(features[:, :-1], {key: each[:, :-1] for key, each in actions.items()})
    parts["policy"] = -weights * (log_probs * advantages + settings.ent_coef * sum(entropies.values()))
    # The critic's second target is the slow critic: it goes towards the returns, but not far from where it was.
    parts["value"] = weights * two_hot_loss(logits[:, :-1], judged.returns, judged.slow_values[:, :-1])

    # The critic learns from the real rewards too; these features are not detached, so the model learns to see value.
    seen = seen[:, last:]
    after = judged.returns[:, 0].reshape(seen.shape[:2])
    is_last, rewards, live = (each[:, last:] for each in (batch.is_last, batch.rewards, live))
    returns = lambda_returns(rewards, live, after, settings.gae_lambda, is_last)
    with th.no_grad():
        slow_values = two_hot_mean(networks.slow_critic(seen))
    parts["repval"] = ~is_last[:, :-1] * two_hot_loss(networks.critic(seen[:, :-1]), returns, slow_values[:, :-1])
    return Losses(parts, observed, imagined, actions, judged, advantages, entropies, returns)


@th.no_grad()
def imagine(
    networks: DreamerNetworks, starts: Latent, steps: int, draws: Draws, masks: th.Tensor | None = None
) -> tuple[Latent, Tensors]:
    """Plays ``steps`` in the model, from states ``(starts, …)``; the last action leads nowhere.

    ``masks``, flat ones, bool ``(starts, A)``, are true where it starts.
    """
    states, actions = [starts], [networks.choose(starts.features(), draws, masks)]
    for _ in range(steps):
        deter = networks.recurrent.core(states[-1], encode_actions(networks.actions, actions[-1]))
        states.append(Latent(deter, draws.latent(mixed_probs(networks.recurrent.prior(deter)))))
        actions.append(networks.choose(states[-1].features(), draws))
    deters, stochs = (th.stack(parts, 1) for parts in zip(*states, strict=True))
    chosen = {key: th.stack([each[key] for each in actions], 1) for key in actions[0]}
    return Latent(deters, stochs), chosen


def lambda_returns(
    rewards: th.Tensor, live: th.Tensor, values: th.Tensor, gae_lambda: float, is_last: th.Tensor | None = None
) -> th.Tensor:
    """Returns λ-returns ``(batch, steps)`` of all steps but the last of ``(batch, steps + 1)``.

    Everything of step ``t + 1`` belongs to the return of step ``t``: the reward, the discount ``live`` (0 after the
    end), and the value there, which alone counts where the sequence of rewards breaks off (``is_last``).
    """
    mixed = th.full_like(rewards, gae_lambda)
    if is_last is not None:
        mixed = mixed * (~is_last).to(rewards.dtype)
    # Without what comes later.
    base = rewards + live * (1 - mixed) * values
    returns = [values[:, -1]]
    for t in range(rewards.shape[1] - 1, 0, -1):
        returns.append(base[:, t] + live[:, t] * mixed[:, t] * returns[-1])
    return th.stack(returns[:0:-1], 1)
