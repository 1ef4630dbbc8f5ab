"""What the networks of DreamerV3 predict: two-hot numbers, classes, bounded normals (dreamer.md §4.1, §5.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch as th

from sb3_pvp.algorithms.dreamer.signals import one_hot

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
#: The share of the uniform distribution in that of a latent: its logarithm stays bounded.
UNIMIX = 0.01


def symlog(x: th.Tensor) -> th.Tensor:
    """Returns ``sign(x) log(1 + |x|)``."""
    return x.sign() * x.abs().log1p()


def symexp(x: th.Tensor) -> th.Tensor:
    """Returns the inverse of `symlog`."""
    return x.sign() * x.abs().expm1()


# -- numbers as weights of bins


@lru_cache
def symexp_bins(count: int, device: th.device | None = None) -> th.Tensor:
    """Returns ``count`` bins ``(count,)``, dense around 0 and out to ±4.85e8; an even number has two bins at 0."""
    half = symexp(th.linspace(-20, 0, (count + 1) // 2, dtype=th.float64)).float()
    return th.cat([half, -half.flip(0)[count % 2 :]]).to(device)


def two_hot(target: th.Tensor, bins: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
    """Returns the lower of the two bins around each target ``(…)``, and the weight of the upper one, at most 1."""
    below = (th.bucketize(target, bins, right=True) - 1).clamp(0, len(bins) - 2)
    low, high = bins[below], bins[below + 1]
    return below, ((target - low) / (high - low)).clamp(0, 1)


def two_hot_loss(logits: th.Tensor, *targets: th.Tensor) -> th.Tensor:
    """Returns the cross-entropy ``(…)`` of logits ``(…, bins)`` to targets ``(…)``, numbers of any size, summed."""
    bins = symexp_bins(logits.shape[-1], logits.device)
    below, weight = two_hot(th.stack(targets, -1).detach(), bins)
    log_probs = logits.float().log_softmax(-1).gather(-1, th.cat([below, below + 1], -1))
    return -(log_probs * th.cat([1 - weight, weight], -1)).sum(-1)


def two_hot_mean(logits: th.Tensor) -> th.Tensor:
    """Returns the expected number ``(…)`` of logits ``(…, bins)``."""
    bins = symexp_bins(logits.shape[-1], logits.device)
    probs, half = logits.float().softmax(-1), len(bins) // 2
    # Each bin with its opposite: equal weights then give exactly 0, not rounding errors of 4.85e8.
    return (probs[..., -half:] - probs[..., :half].flip(-1)) @ bins[-half:]


# -- latents


def mixed_probs(logits: th.Tensor) -> th.Tensor:
    """Returns the probabilities of a latent ``(…, classes)``: softmax with one percent of the uniform distribution."""
    return (1 - UNIMIX) * logits.float().softmax(-1) + UNIMIX / logits.shape[-1]


def straight_through(one_hot: th.Tensor, probs: th.Tensor) -> th.Tensor:
    """Returns ``one_hot`` with the gradient of the probabilities that it was drawn from."""
    return one_hot + probs - probs.detach()


def latent_entropy(probs: th.Tensor) -> th.Tensor:
    """Returns the entropy ``(…)`` of latents ``(…, stoch, classes)``, in nats."""
    return -(probs * probs.log()).sum((-2, -1))


def latent_kl(probs: th.Tensor, others: th.Tensor) -> th.Tensor:
    """Returns KL(probs || others) ``(…)`` of latents ``(…, stoch, classes)``, in nats, summed over them."""
    return (probs * (probs.log() - others.log())).sum((-2, -1))


# -- actions


class Choices(NamedTuple):
    """Independent choices out of classes, by logits ``(…, size, classes)``."""

    logits: th.Tensor

    def log_prob(self, actions: th.Tensor) -> th.Tensor:
        """Returns the log-probability ``(…)`` of class numbers ``(…, size)``, summed over the choices."""
        chosen = self.logits.log_softmax(-1).gather(-1, actions.long().unsqueeze(-1))
        return chosen.squeeze(-1).sum(-1)

    def entropy(self) -> th.Tensor:
        """Returns the entropy ``(…)`` in nats, summed over the choices."""
        log_probs = self.logits.log_softmax(-1)
        return -(log_probs.exp() * log_probs).sum((-2, -1))

    def sample(self, likeliest: bool) -> th.Tensor:
        """Returns class numbers ``(…, size)``, drawn or the ``likeliest`` ones."""
        return self.logits.argmax(-1) if likeliest else draw(self.logits.softmax(-1))


class BoundedNormal(NamedTuple):
    """Independent normal numbers whose means are in [-1, 1] and standard deviations in [0.1, 1], ``(…, size)``."""

    mean: th.Tensor
    std: th.Tensor

    @classmethod
    def of(cls, raw_mean: th.Tensor, raw_std: th.Tensor) -> BoundedNormal:
        """Returns the distribution of a network's two outputs."""
        return cls(raw_mean.float().tanh(), 0.1 + 0.9 * (raw_std.float() + 2.0).sigmoid())

    def log_prob(self, actions: th.Tensor) -> th.Tensor:
        """Returns the log-density ``(…)`` of numbers ``(…, size)``; they may be outside of [-1, 1]."""
        return (-((actions - self.mean) / self.std).square() / 2 - self.std.log() - LOG_SQRT_2PI).sum(-1)

    def entropy(self) -> th.Tensor:
        """Returns the entropy ``(…)`` in nats."""
        return (0.5 + LOG_SQRT_2PI + self.std.log()).sum(-1)

    def sample(self, likeliest: bool) -> th.Tensor:
        """Returns numbers ``(…, size)``, neither squashed nor clipped, or the ``likeliest`` ones, the means."""
        return self.mean if likeliest else self.mean + self.std * th.randn_like(self.mean)


ActionDistribution = Choices | BoundedNormal


def masked(distributions: Mapping[str, ActionDistribution], masks: th.Tensor) -> dict[str, ActionDistribution]:
    """Returns choices of legal classes only, by flat masks ``(n, A)``; where none is legal, of the first.

    Raises `ValueError` for masks of another width, and for actions that are numbers.
    """
    logits = {key: each.logits for key, each in sorted(distributions.items()) if isinstance(each, Choices)}
    widths = [each.shape[1:].numel() for each in logits.values()]
    if len(logits) < len(distributions) or masks.shape[1] != sum(widths):
        raise ValueError(f"masks of {masks.shape[1]} entries do not fit actions of {sum(widths)} choices")
    allowed: dict[str, ActionDistribution] = {}
    for part, (key, each) in zip(th.split(masks, widths, 1), logits.items(), strict=True):
        legal = part.reshape(each.shape).clone()
        legal[..., 0] |= ~legal.any(-1)
        allowed[key] = Choices(each.masked_fill(~legal, -1e9))
    return allowed


def draw(probs: th.Tensor) -> th.Tensor:
    """Returns class numbers ``(…)`` drawn by probabilities ``(…, classes)``."""
    # Several times as fast as `th.multinomial`; no class of probability 0 is ever drawn.
    sums = probs.cumsum(-1)
    uniform = th.rand(probs.shape[:-1], device=probs.device).unsqueeze(-1)
    return (sums[..., :-1] <= uniform * sums[..., -1:]).sum(-1)


@dataclass
class Draws:
    """Makes all choices, at random or the ``likeliest`` ones; a test replaces it by choices that were recorded."""

    likeliest: bool = False

    def latent(self, probs: th.Tensor) -> th.Tensor:
        """Returns one-hot latents by their probabilities ``(…, stoch, classes)``."""
        return one_hot(probs.argmax(-1) if self.likeliest else draw(probs), probs.shape[-1])

    def actions(self, distributions: Mapping[str, ActionDistribution]) -> dict[str, th.Tensor]:
        """Returns an action ``(…, size)`` for every key."""
        return {key: distribution.sample(self.likeliest) for key, distribution in distributions.items()}

    def uniforms(self, rows: int, heads: int) -> th.Tensor:
        """Returns numbers from [0, 1) ``(rows, heads)`` that heads are drawn by; -1 asks for the likeliest."""
        return th.full((rows, heads), -1.0) if self.likeliest else th.rand(rows, heads)
