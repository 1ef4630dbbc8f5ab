"""Acting: head after head, with as little work per head as possible.

All that does not change while a policy acts is computed once: what the choice of an entry means for the heads after it
(their penalties, their logits, ...) is one row of a table. Networks of heads run only for the rows of the batch where
the head has a choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch as th
from sb3_contrib.common.maskable.distributions import MaskableDistribution, MaybeMasks
from torch import nn

from sb3_pvp.policies.heads import AutoregressiveHeads, BatchedLinear, HeadGroup

# From this share of rows on, picking rows costs more than it saves.
DENSE_SHARE = 0.75


@dataclass(frozen=True)
class FirstLayer:
    """The first layer of one head, or of all heads without hidden layers: ``latent @ weight + bias + ...``.

    Matrices are ``(inputs, outputs)``; ``choices`` takes the one-hot encodings of all heads, ``masks`` the masks.
    """

    weight: th.Tensor
    bias: th.Tensor
    choices: th.Tensor | None
    masks: th.Tensor | None

    def start(self, latent: th.Tensor, masks: th.Tensor) -> th.Tensor:
        """All but the choices, from ``latent`` and float masks, which are only looked at if they are wanted."""
        outputs = th.addmm(self.bias, latent, self.weight)
        return outputs if self.masks is None else outputs.addmm_(masks, self.masks)


@dataclass(frozen=True)
class _Network:
    """A head with hidden layers: its first layer, and those after it, weights and biases of linear ones."""

    first: FirstLayer
    steps: Sequence[tuple[th.Tensor, th.Tensor] | nn.Module]

    def __call__(self, latent: th.Tensor, chosen: th.Tensor, masks: th.Tensor) -> th.Tensor:
        """Logits ``(batch, size)``."""
        hidden = self.first.start(latent, masks)
        if self.first.choices is not None:
            hidden = hidden.addmm_(chosen, self.first.choices[: chosen.shape[1]])
        for step in self.steps:
            hidden = step(hidden) if isinstance(step, nn.Module) else th.addmm(step[1], hidden, step[0])
        return hidden


class HeadSampler:
    """Samples joint actions from `AutoregressiveHeads`, with tables that follow their weights."""

    def __init__(self, heads: AutoregressiveHeads) -> None:
        self._heads = heads
        self._key: tuple[int, ...] = ()

    def forget(self, *_: object) -> None:
        """Makes the tables anew at the next use; fused optimisers change weights without a trace."""
        self._key = ()

    @th.no_grad()
    def act(
        self, latent: th.Tensor, masks: th.Tensor, deterministic: bool | Sequence[bool] = False
    ) -> tuple[th.Tensor, th.Tensor]:
        """Chooses joint actions.

        Args:
            latent: the trunk's output ``(batch, num_inputs)``.
            masks: bool ``(batch, A)``.
            deterministic: take the most likely entry of all heads, or (a sequence) of some.

        Returns:
            Actions, int ``(batch, heads)``, and their joint log-probabilities ``(batch,)``.
        """
        noise = self._noise(latent.new_empty(masks.shape), deterministic)
        actions, penalties, scores = self._choose(latent, masks, noise)
        rules = self._heads.rules
        # Only those heads add to the log-probability that had a choice.
        heads, rows = rules.open_choices(rules.num_legal(penalties))
        log_probs = rules.pick(scores, heads, rows).log_softmax(-1)
        picked = log_probs.gather(1, actions[rows, heads][:, None]).squeeze(1)
        return actions, scores.new_zeros(len(scores)).index_add_(0, rows, picked)

    @th.no_grad()
    def choose(self, latent: th.Tensor, masks: th.Tensor, noise: th.Tensor) -> th.Tensor:
        """Joint actions alone, with Gumbel noise ``(batch, A)`` that was drawn elsewhere; 0: the most likely entry."""
        return self._choose(latent, masks, noise)[0]

    def direct_layer(self) -> FirstLayer:
        """The first and only layer of all heads without hidden layers, over the flat entries of all heads."""
        self._follow_weights()
        return self._direct

    def _choose(
        self, latent: th.Tensor, masks: th.Tensor, noise: th.Tensor | None
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        """Actions ``(batch, heads)``, and the penalties and the penalised logits ``(batch, A)`` that led to them."""
        self._follow_weights()
        rules, float_masks = self._heads.rules, masks.float() if self._heads.future_masks else latent
        sizes, penalties = list(rules.head_sizes), th.where(masks, 0.0, rules.penalties)
        parts = {"penalties": penalties}
        if self._heads.direct.heads:
            parts["scores"] = self._direct.start(latent, float_masks)
        if self._asks:
            parts["granted"] = th.zeros_like(penalties)
        # Each part by heads; a choice changes all parts of all later heads at once.
        state = th.cat(list(parts.values()), 1)
        heads = {
            name: th.split(part, sizes, 1) for name, part in zip(parts, th.split(state, rules.num_flat, 1), strict=True)
        }
        noises = [None] * len(sizes) if noise is None else th.split(noise, sizes, 1)
        chosen, actions, scores = th.zeros_like(penalties), [], []
        for head, (start, effect, network) in enumerate(zip(rules.starts, self._effects, self._networks, strict=True)):
            penalty, own_noise = heads["penalties"][head], noises[head]
            if "granted" in heads:
                penalty += self._wishes[head] * (heads["granted"][head] == 0)
            if network is None:
                logits = heads["scores"][head].add_(penalty)
            else:
                logits = _add_where_choice(network, penalty, latent, chosen[:, :start], float_masks)
            action = (logits if own_noise is None else logits + own_noise).argmax(1, keepdim=True)
            actions.append(action)
            scores.append(logits)
            if effect is not None:
                state += effect.index_select(0, action[:, 0])
            if self._any_network:
                chosen[:, start : start + sizes[head]].scatter_(1, action, 1.0)
        return th.cat(actions, 1), state[:, : rules.num_flat], th.cat(scores, 1)

    def _noise(self, empty: th.Tensor, deterministic: bool | Sequence[bool]) -> th.Tensor | None:
        """Gumbel noise, whose arg-max with the logits is a sample; 0 where none is wanted, ``None`` if nowhere."""
        sizes = self._heads.rules.head_sizes
        flags = [deterministic] * len(sizes) if isinstance(deterministic, bool) else [*map(bool, deterministic)]
        if len(flags) != len(sizes):
            raise ValueError(
                f"deterministic must be a bool or one bool for each of {len(sizes)} heads, got {len(flags)}"
            )
        if all(flags):
            return None
        noise = empty.exponential_().log_().neg_()
        for flag, own in zip(flags, th.split(noise, list(sizes), 1), strict=True):
            if flag:
                own.zero_()
        return noise

    def _follow_weights(self) -> None:
        """Makes the tables anew if a weight or a statistic has changed, or might have."""
        normalizer = self._heads.normalizer
        tensors = (*self._heads.parameters(), normalizer.mean, normalizer.variance, *self._heads.rules.buffers())
        key = tuple(chain.from_iterable((tensor._version, tensor.data_ptr()) for tensor in tensors))
        if key != self._key or self._heads.training:
            self._make_tables()
            self._key = key

    def _make_tables(self) -> None:
        rules, direct = self._heads.rules, self._heads.direct
        entries = rules.membership[:, direct.heads].any(1)
        weight = direct.weight.new_zeros(rules.num_flat, direct.weight.shape[1])
        weight[entries], bias = direct.weight, direct.bias.new_zeros(rules.num_flat)
        bias[entries] = direct.bias
        self._direct = self._first_layer(weight.T, bias, (rules.membership @ self._heads.visible).T)
        groups = {head: group for group in self._heads.groups for head in group.heads}
        self._networks = [
            self._make_network(head, groups[head]) if head in groups else None for head in range(len(rules.head_sizes))
        ]
        self._any_network = any(self._networks)
        self._asks, effects = rules.has_any, [rules.forbids * rules.penalties]
        if direct.heads:
            effects.append(th.zeros_like(rules.forbids) if self._direct.choices is None else self._direct.choices)
        if self._asks:
            effects.append(rules.permits)
        sizes = list(rules.head_sizes)
        self._wishes = th.split(th.where(rules.asks_any, rules.penalties, 0.0), sizes)
        #: For each head the rows of its entries: what their choice adds to the penalties, logits, ... of all heads.
        self._effects = [rows if rows.any() else None for rows in th.split(th.cat(effects, 1), sizes)]

    def _first_layer(self, weight: th.Tensor, bias: th.Tensor, visible: th.Tensor) -> FirstLayer:
        """From ``weight``, ``(inputs, outputs)`` with all inputs, and ``visible``, ``(extra inputs, outputs or 1)``."""
        heads, flat = self._heads, self._heads.rules.num_flat
        of_latent, of_extra = weight[: heads.num_inputs].contiguous(), weight[heads.num_inputs :] * visible
        masks = of_extra[-flat:].contiguous() if heads.future_masks else None
        if not heads.autoregressive:
            return FirstLayer(of_latent, bias.clone(), None, masks)
        # An encoding is what it is when nothing is chosen, plus a difference in the chosen entry.
        nothing, everything = heads.encode(weight.new_tensor([[0.0], [1.0]]).expand(2, flat))
        choices = of_extra[:flat] * (everything - nothing)[:, None]
        return FirstLayer(of_latent, bias + nothing @ of_extra[:flat], choices.contiguous(), masks)

    def _make_network(self, head: int, group: HeadGroup) -> _Network:
        index, linear = group.heads.index(head), group.linear_layers()
        first = self._first_layer(linear[0].weight[index], linear[0].bias[index, 0], self._heads.visible[head][:, None])
        modules = [module for module in group.network if not isinstance(module, nn.Dropout)]  # acting leaves none out
        steps: list[tuple[th.Tensor, th.Tensor] | nn.Module] = []
        for module in modules[1:]:
            if isinstance(module, BatchedLinear):
                width = self._heads.rules.head_sizes[head] if module is linear[-1] else module.weight.shape[2]
                steps.append((module.weight[index, :, :width].contiguous(), module.bias[index, 0, :width]))
            else:
                steps.append(module)
        return _Network(first, steps)


def _add_where_choice(
    network: _Network, penalties: th.Tensor, latent: th.Tensor, chosen: th.Tensor, masks: th.Tensor
) -> th.Tensor:
    """Adds the network's logits where more than one entry is free of penalties."""
    rows = ((penalties == 0).sum(1) > 1).nonzero().flatten()
    if len(rows) > DENSE_SHARE * len(penalties):
        return penalties + network(latent, chosen, masks)
    return penalties.index_add(0, rows, network(latent[rows], chosen[rows], masks[rows])) if len(rows) else penalties


class AutoregressiveDistribution(MaskableDistribution):
    """The joint distribution of all heads behind the face that sb3-contrib's policies give theirs.

    It is made from the trunk's output ``(batch, num_inputs)``. Everything is allowed until `apply_masking`. Entropies
    are those given the actions of the last `log_prob`; ``deterministic`` may say for each head whether it samples.
    """

    _entropies: th.Tensor

    def __init__(self, heads: AutoregressiveHeads, sampler: HeadSampler) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._heads, self._sampler = heads, sampler

    def proba_distribution_net(self, *args: Any, **kwargs: Any) -> nn.Module:
        return self._heads

    def proba_distribution(self, latent: th.Tensor) -> AutoregressiveDistribution:
        self._latent = latent
        self.apply_masking(None)
        return self

    def apply_masking(self, masks: MaybeMasks) -> None:
        """Takes flat masks ``(batch, A)``; ``None`` allows everything."""
        shape = (len(self._latent), self._heads.rules.num_flat)
        allowed = th.ones(shape) if masks is None else th.as_tensor(masks)
        self._masks = allowed.to(self._latent.device).bool().reshape(shape)

    def log_prob(self, actions: th.Tensor) -> th.Tensor:
        actions = actions.long().reshape(len(self._latent), -1)
        log_probs, self._entropies = self._heads(self._latent, self._masks, actions)
        joint: th.Tensor = log_probs.sum(1)
        return joint

    def entropy(self) -> th.Tensor:
        joint: th.Tensor = self._entropies.sum(1)
        return joint

    def sample(self) -> th.Tensor:
        return self.get_actions(deterministic=False)

    def mode(self) -> th.Tensor:
        return self.get_actions(deterministic=True)

    def get_actions(self, deterministic: bool | Sequence[bool] = False) -> th.Tensor:
        return self._sampler.act(self._latent, self._masks, deterministic)[0]

    def actions_from_params(self, latent: th.Tensor, deterministic: bool = False) -> th.Tensor:
        return self.proba_distribution(latent).get_actions(deterministic)

    def log_prob_from_params(self, latent: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        actions = self.actions_from_params(latent)
        return actions, self.log_prob(actions)
