"""Acting: head after head, with as little work per head as possible.

All that does not change while a policy acts is computed once: normalised encodings become one row per sub-action that
is added to a head's first layer, and rules become rows that are added to its logits. Networks of heads run only for
the rows of the batch where the head has a choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch as th
from torch import nn

from sb3_pvp.policies.head_groups import BatchedLinear, HeadGroup
from sb3_pvp.policies.heads import AutoregressiveHeads

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
        """All but the choices."""
        outputs = th.addmm(self.bias, latent, self.weight)
        return outputs if self.masks is None else outputs.addmm_(masks, self.masks)


@dataclass(frozen=True)
class _Head:
    """One head, ready to act.

    Attributes:
        start: its first flat entry.
        stop: the flat entry after its last one.
        penalties: ``(start, size)``, what earlier choices add to its logits.
        permits: counts, ``(start, size)``, the earlier choices that a ``require_any`` asks for, and the penalty
            ``(size,)`` for none.
        first: its first layer if it has hidden layers.
        choices: ``(start, size)``, what earlier choices add to its logits if it has none.
        steps: the layers after the first one, weights and biases of linear ones.
    """

    start: int
    stop: int
    penalties: th.Tensor | None
    permits: tuple[th.Tensor, th.Tensor] | None
    choices: th.Tensor | None
    first: FirstLayer | None
    steps: Sequence[tuple[th.Tensor, th.Tensor] | nn.Module]

    def penalize(self, base: th.Tensor, chosen: th.Tensor) -> th.Tensor:
        """Adds to the penalties of masks ``(batch, size)`` those of rules, given earlier choices ``(batch, start)``."""
        if self.penalties is not None:
            base = th.addmm(base, chosen, self.penalties)
        if self.permits is not None:
            matrix, penalty = self.permits
            base = base + penalty * (chosen @ matrix == 0)
        return base

    def network(self, latent: th.Tensor, chosen: th.Tensor, masks: th.Tensor) -> th.Tensor:
        """Logits ``(batch, size)`` of a head with hidden layers."""
        assert self.first is not None
        hidden = self.first.start(latent, masks)
        if self.first.choices is not None:
            hidden = hidden.addmm_(chosen, self.first.choices)
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
        return actions, self._joint_log_prob(actions, penalties, scores)

    @th.no_grad()
    def choose(self, latent: th.Tensor, masks: th.Tensor, noise: th.Tensor) -> th.Tensor:
        """Joint actions alone, with Gumbel noise ``(batch, A)`` that was drawn elsewhere; 0: the most likely entry."""
        return self._choose(latent, masks, self._split(noise))[0]

    def _choose(
        self, latent: th.Tensor, masks: th.Tensor, noise: Sequence[th.Tensor | None]
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        """Actions ``(batch, heads)``, and the penalties and the logits ``(batch, A)`` that led to them."""
        self._follow_weights()
        flat_masks = masks.float() if self._heads.future_masks else latent
        base = th.where(masks, 0.0, self._heads.rules.penalties)
        direct = self._direct_logits(latent, flat_masks)
        chosen = base.new_zeros(base.shape)
        actions, penalties, scores = [], [], []
        for index, (head, own_base) in enumerate(zip(self._tables, self._split(base), strict=True)):
            before = chosen[:, : head.start]
            penalty = head.penalize(own_base, before)
            if head.first is not None:
                logits = _add_where_choice(head, penalty, latent, before, flat_masks)
            else:
                logits = penalty + direct[index]
                logits = logits if head.choices is None else logits.addmm_(before, head.choices)
            own_noise = noise[index]
            action = (logits if own_noise is None else logits + own_noise).argmax(1, keepdim=True)
            chosen[:, head.start : head.stop].scatter_(1, action, 1.0)
            actions.append(action)
            penalties.append(penalty)
            scores.append(logits)
        return th.cat(actions, 1), th.cat(penalties, 1), th.cat(scores, 1)

    def direct_layer(self) -> FirstLayer:
        """The first and only layer of all heads without hidden layers, in the order of their entries."""
        self._follow_weights()
        return self._direct

    def _joint_log_prob(self, actions: th.Tensor, penalties: th.Tensor, scores: th.Tensor) -> th.Tensor:
        """Log-probabilities ``(batch,)``, to which only those heads add that had a choice."""
        rules = self._heads.rules
        heads, rows = rules.open_choices(rules.num_legal(penalties))
        log_probs = rules.pick(scores, heads, rows).log_softmax(-1)
        picked = log_probs.gather(1, actions[rows, heads][:, None]).squeeze(1)
        return scores.new_zeros(len(scores)).index_add_(0, rows, picked)

    def _direct_logits(self, latent: th.Tensor, masks: th.Tensor) -> dict[int, th.Tensor]:
        """For each head without hidden layers its logits, as far as they do not depend on choices."""
        heads = self._heads.direct.heads
        if not heads:
            return {}
        sizes = [self._heads.rules.head_sizes[head] for head in heads]
        return dict(zip(heads, th.split(self._direct.start(latent, masks), sizes, 1), strict=True))

    def _noise(self, empty: th.Tensor, deterministic: bool | Sequence[bool]) -> Sequence[th.Tensor | None]:
        """Gumbel noise of each head, whose arg-max with the logits is a sample; ``None`` where none is wanted."""
        count = len(self._heads.rules.head_sizes)
        flags = [deterministic] * count if isinstance(deterministic, bool) else [bool(flag) for flag in deterministic]
        if len(flags) != count:
            raise ValueError(f"deterministic must be a bool or one bool for each of {count} heads, got {len(flags)}")
        if all(flags):
            return [None] * count
        noise = self._split(empty.exponential_().log_().neg_())
        return [None if flag else part for flag, part in zip(flags, noise, strict=True)]

    def _split(self, flat: th.Tensor) -> tuple[th.Tensor, ...]:
        return th.split(flat, list(self._heads.rules.head_sizes), 1)

    def _follow_weights(self) -> None:
        """Makes the tables anew if a weight or a statistic has changed, or might have."""
        normalizer = self._heads.normalizer
        tensors = (*self._heads.parameters(), normalizer.mean, normalizer.variance, *self._heads.rules.buffers())
        key = tuple(chain.from_iterable((tensor._version, tensor.data_ptr()) for tensor in tensors))
        if key != self._key or self._heads.training:
            self._make_tables()
            self._key = key

    def _make_tables(self) -> None:
        direct = self._heads.direct
        visible = self._heads.visible[direct.row_heads]
        self._direct = self._first_layer(direct.weight.T, direct.bias, visible.T)
        self._tables = [self._make_head(head) for head in range(len(self._heads.rules.head_sizes))]

    def _first_layer(self, weight: th.Tensor, bias: th.Tensor, visible: th.Tensor) -> FirstLayer:
        """From ``weight``, ``(inputs, outputs)`` with all inputs, and ``visible``, ``(extra inputs, outputs or 1)``."""
        heads, flat = self._heads, self._heads.rules.num_flat
        of_latent, of_extra = weight[: heads.num_inputs].contiguous(), weight[heads.num_inputs :] * visible
        masks = of_extra[-flat:].contiguous() if heads.future_masks else None
        if not heads.autoregressive:
            return FirstLayer(of_latent, bias.clone(), None, masks)
        # An encoding is what it is when nothing is chosen, plus a difference in the chosen entry.
        nothing, everything = (heads.encode(weight.new_full((1, flat), value))[0] for value in (0.0, 1.0))
        choices = of_extra[:flat] * (everything - nothing)[:, None]
        return FirstLayer(of_latent, bias + nothing @ of_extra[:flat], choices.contiguous(), masks)

    def _make_head(self, head: int) -> _Head:
        rules = self._heads.rules
        start, stop = rules.starts[head], rules.starts[head] + rules.head_sizes[head]
        penalties = rules.forbids[:start, start:stop] * rules.penalties[start:stop]
        asks = rules.asks_any[start:stop]
        permits = (rules.permits[:start, start:stop].contiguous(), th.where(asks, rules.penalties[start:stop], 0.0))
        group = next((group for group in self._heads.groups if head in group.heads), None)
        first, steps = (None, []) if group is None else self._make_network(group, head, stop - start)
        return _Head(
            start=start,
            stop=stop,
            penalties=penalties.contiguous() if penalties.any() else None,
            permits=permits if asks.any() else None,
            choices=self._direct_choices(head) if group is None else None,
            first=first,
            steps=steps,
        )

    def _direct_choices(self, head: int) -> th.Tensor | None:
        start, direct = self._heads.rules.starts[head], self._heads.direct
        if self._direct.choices is None or not start:
            return None
        return self._direct.choices[:start, direct.rows[direct.heads.index(head)]].contiguous()

    def _make_network(
        self, group: HeadGroup, head: int, size: int
    ) -> tuple[FirstLayer, list[tuple[th.Tensor, th.Tensor] | nn.Module]]:
        """The first layer of a head with hidden layers, and the steps after it."""
        index, start = group.heads.index(head), self._heads.rules.starts[head]
        visible = self._heads.visible[head][:, None]
        modules = [module for module in group.network if not isinstance(module, nn.Dropout)]  # acting leaves none out
        linear = group.linear_layers()
        first = self._first_layer(linear[0].weight[index], linear[0].bias[index, 0], visible)
        own = None if first.choices is None or not start else first.choices[:start].contiguous()
        first = FirstLayer(first.weight, first.bias, own, first.masks)
        steps: list[tuple[th.Tensor, th.Tensor] | nn.Module] = []
        for module in modules[1:]:
            if isinstance(module, BatchedLinear):
                width = size if module is linear[-1] else module.weight.shape[2]
                steps.append((module.weight[index, :, :width].contiguous(), module.bias[index, 0, :width]))
            else:
                steps.append(module)
        return first, steps


def _add_where_choice(
    head: _Head, penalties: th.Tensor, latent: th.Tensor, chosen: th.Tensor, masks: th.Tensor
) -> th.Tensor:
    """Adds the network's logits where more than one entry is free of penalties."""
    rows = ((penalties == 0).sum(1) > 1).nonzero().flatten()
    if not len(rows):
        return penalties
    if len(rows) > DENSE_SHARE * len(penalties):
        return penalties + head.network(latent, chosen, masks)
    return penalties.index_add(0, rows, head.network(latent[rows], chosen[rows], masks[rows]))
