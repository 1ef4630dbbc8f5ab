"""A plain implementation of the heads of training.md §3.5 to §3.7, one after the other, with rules looked up by name.

One thing is left out: §3.7 reads probabilities below 1.2e-7 as 1.2e-7, which would hide how improbable such an entry
is, and stop its gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch as th
from torch.nn import functional

from sb3_pvp.game.contract import Contract
from sb3_pvp.policies import AutoregressivePolicy

ACTIVATIONS = {"relu": th.relu, "tanh": th.tanh, "gelu": functional.gelu}
#: Takes the number of a head and its probabilities ``(batch, size)``, gives its choices ``(batch,)``.
Choose = Callable[[int, th.Tensor], th.Tensor]


@dataclass(frozen=True)
class Outcome:
    """The results of all heads, ``(batch, heads)`` each, and the probabilities ``(batch, size)`` of each head."""

    actions: th.Tensor
    log_probs: th.Tensor
    entropies: th.Tensor
    probabilities: list[th.Tensor]


def plain_heads(
    policy: AutoregressivePolicy,
    contract: Contract,
    activations: list[list[str]],
    latent: th.Tensor,
    masks: th.Tensor,
    choose: Choose,
) -> Outcome:
    """Runs all heads; ``activations`` names those of each head's hidden layers. Differentiable."""
    sizes, heads = contract.head_sizes, policy.heads
    chosen: list[th.Tensor] = []
    one_hots = [latent.new_zeros(len(latent), 0)]
    log_probs, entropies, probabilities = [], [], []
    for head, size in enumerate(sizes):
        start = sum(sizes[:head])
        parts = [latent]
        if heads.autoregressive:
            parts.append(_normalized(th.cat(one_hots, 1), policy))
        if heads.future_masks:
            parts.append(masks[:, start + size :].float())
        values = th.cat(parts, 1)
        *hidden, (weight, bias) = heads.layers(head)
        for (w, b), name in zip(hidden, activations[head], strict=True):
            values = ACTIVATIONS[name](values @ w.T + b)
        logits = values @ weight.T + bias
        allowed = masks[:, start : start + size] & rules_allow(contract, head, chosen, len(latent))
        allowed[:, 0] |= ~allowed.any(1)
        log_p = logits.masked_fill(~allowed, -th.inf).log_softmax(1).clamp(min=-1e8)
        p = log_p.exp()
        choice = choose(head, p)
        chosen.append(choice)
        one_hots.append(functional.one_hot(choice, size).float())
        log_probs.append(log_p.gather(1, choice[:, None])[:, 0])
        entropies.append(-(p * log_p).sum(1))
        probabilities.append(p)
    return Outcome(th.stack(chosen, 1), th.stack(log_probs, 1), th.stack(entropies, 1), probabilities)


def rules_allow(contract: Contract, head: int, chosen: list[th.Tensor], batch: int) -> th.Tensor:
    """Returns the entries of a head, bool ``(batch, size)``, that the rules allow after earlier choices."""

    def is_chosen(name: str) -> th.Tensor:
        other, position = contract.action_index(name)
        return chosen[other] == position

    allowed = th.ones(batch, contract.head_sizes[head], dtype=th.bool)
    for position, action in enumerate(contract.heads[head].actions):
        for name in action.require_all:
            allowed[:, position] &= is_chosen(name)
        if action.require_any:
            allowed[:, position] &= th.stack([is_chosen(name) for name in action.require_any]).any(0)
        for name in action.require_none:
            allowed[:, position] &= ~is_chosen(name)
    return allowed


def _normalized(one_hot: th.Tensor, policy: AutoregressivePolicy) -> th.Tensor:
    heads, width = policy.heads, one_hot.shape[1]
    if not heads.normalize_actions:
        return one_hot
    mean, variance = heads.normalizer.mean[:width], heads.normalizer.variance[:width]
    return ((one_hot - mean) / (variance + 1e-8).sqrt()).clamp(-5.0, 5.0)
