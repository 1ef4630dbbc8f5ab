"""Acting: head after head, with as little work per head as possible.

All that does not change while a policy acts is computed once: normalised encodings become one row per sub-action that
is added to a head's first layer, and rules become rows that are added to its logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch as th
from torch import nn

from sb3_pvp.policies.heads import AutoregressiveHeads, HeadGroup


@dataclass(frozen=True)
class _Head:
    """One head, ready to act; matrices are ``(inputs, outputs)``, ``None`` where there is nothing to add.

    ``choices`` and ``penalties`` take the one-hot encodings of all earlier heads: what those add to the first layer,
    and to the logits. ``permits`` counts the choices that a ``require_any`` asks for, with the penalty for none.
    """

    start: int
    stop: int
    choices: th.Tensor | None
    steps: list[tuple[th.Tensor, th.Tensor] | nn.Module]
    logits: th.Tensor | None
    penalties: th.Tensor | None
    permits: tuple[th.Tensor, th.Tensor] | None


class HeadSampler:
    """Samples joint actions from `AutoregressiveHeads`, with tables that follow their weights."""

    def __init__(self, heads: AutoregressiveHeads) -> None:
        self._heads = heads
        self._key: tuple[int, ...] = ()

    def __deepcopy__(self, memo: dict[int, object]) -> HeadSampler:
        heads = memo.get(id(self._heads))
        return HeadSampler(heads if isinstance(heads, AutoregressiveHeads) else self._heads)

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
            Actions, int ``(batch, heads)``, and the log-probabilities of all entries given the chosen ones before
            them, ``(batch, heads, widest head)``.
        """
        self._follow_weights()
        first, base = self._start(latent, masks)
        noise = self._noise(base, deterministic)
        chosen = base.new_zeros(base.shape)
        actions, scores = [], []
        for head, own_first, own_base, own_noise in zip(self._tables, first, self._split(base), noise, strict=True):
            logits = _logits(head, own_first, own_base, chosen[:, : head.start])
            action = (logits if own_noise is None else logits + own_noise).argmax(1, keepdim=True)
            chosen[:, head.start : head.stop].scatter_(1, action, 1.0)
            actions.append(action)
            scores.append(logits)
        return th.cat(actions, 1), self._heads.pad(th.cat(scores, 1)).log_softmax(-1)

    def _start(self, latent: th.Tensor, masks: th.Tensor) -> tuple[tuple[th.Tensor, ...], th.Tensor]:
        """First layers of all heads as far as no action matters, and where the logits ``(batch, A)`` begin."""
        first = th.addmm(self._first_bias, latent, self._heads.trunk_weight.T)
        if self._mask_matrix is not None:
            first.addmm_(masks.float(), self._mask_matrix)
        base = th.where(masks, 0.0, self._heads.rules.penalties) + self._logits_bias
        return th.split(first, list(self._heads.first_sizes), 1), base

    def _noise(self, base: th.Tensor, deterministic: bool | Sequence[bool]) -> Sequence[th.Tensor | None]:
        """Gumbel noise of each head, whose arg-max with the logits is a sample; ``None`` where none is wanted."""
        count = len(self._tables)
        flags = [deterministic] * count if isinstance(deterministic, bool) else [bool(flag) for flag in deterministic]
        if len(flags) != count:
            raise ValueError(f"deterministic must be a bool or one bool for each of {count} heads, got {len(flags)}")
        if all(flags):
            return [None] * count
        noise = self._split(th.empty_like(base).exponential_().log_().neg_())
        return [None if flag else part for flag, part in zip(flags, noise, strict=True)]

    def _split(self, flat: th.Tensor) -> tuple[th.Tensor, ...]:
        return th.split(flat, list(self._heads.rules.head_sizes), 1)

    def _follow_weights(self) -> None:
        """Makes the tables anew if a weight or a statistic has changed."""
        tensors = chain(self._heads.parameters(), self._heads.buffers())
        key = tuple(chain.from_iterable((tensor._version, tensor.data_ptr()) for tensor in tensors))
        if key != self._key:
            self._make_tables()
            self._key = key

    def _make_tables(self) -> None:
        heads, rules = self._heads, self._heads.rules
        of_actions, of_masks = heads.first_matrices()
        self._mask_matrix = None if of_masks is None else of_masks.T.contiguous()
        self._first_bias, choices = heads.first_bias.clone(), None
        if of_actions is not None:
            # An encoding is what it is when nothing is chosen, plus a difference in the chosen entry.
            nothing = heads.encode(rules.forbids.new_zeros(1, rules.num_flat))[0]
            everything = heads.encode(rules.forbids.new_ones(1, rules.num_flat))[0]
            self._first_bias += of_actions @ nothing
            choices = (of_actions * (everything - nothing)).T
        self._logits_bias = th.zeros_like(rules.penalties)
        self._tables = [self._make_head(head, choices) for head in range(len(rules.head_sizes))]

    def _make_head(self, head: int, choices: th.Tensor | None) -> _Head:
        heads, rules = self._heads, self._heads.rules
        start, stop = rules.starts[head], rules.starts[head] + rules.head_sizes[head]
        first = sum(heads.first_sizes[:head])
        columns = slice(first, first + heads.first_sizes[head])
        own_choices = None if choices is None or not start else choices[:start, columns].contiguous()
        penalties = rules.forbids[:start, start:stop] * rules.penalties[start:stop]
        permits = rules.permits[:start, start:stop].contiguous()
        asks = rules.asks_any[start:stop]
        group = next((group for group in heads.groups if head in group.heads), None)
        steps, logits = ([], None) if group is None else self._make_steps(group, head, start, stop)
        if group is None and own_choices is not None and penalties.any():
            own_choices, penalties = own_choices + penalties, th.zeros_like(penalties)
        return _Head(
            start=start,
            stop=stop,
            choices=own_choices,
            steps=steps,
            logits=logits,
            penalties=penalties.contiguous() if penalties.any() else None,
            permits=(permits, th.where(asks, rules.penalties[start:stop], 0.0)) if asks.any() else None,
        )

    def _make_steps(
        self, group: HeadGroup, head: int, start: int, stop: int
    ) -> tuple[list[tuple[th.Tensor, th.Tensor] | nn.Module], th.Tensor]:
        """The layers of one head between its first and its logits, and the matrix of the logits."""
        index, linear = group.heads.index(head), group.linear_layers()
        steps: list[tuple[th.Tensor, th.Tensor] | nn.Module] = []
        for module in group.network:
            if module is linear[-1]:
                break
            if module in linear:
                steps.append((module.weight[index].detach(), module.bias[index, 0].detach()))
            elif not isinstance(module, nn.Dropout):  # acting leaves nothing out
                steps.append(module)
        self._logits_bias[start:stop] = linear[-1].bias[index, 0, : stop - start]
        return steps, linear[-1].weight[index, :, : stop - start].contiguous()


def _logits(head: _Head, first: th.Tensor, base: th.Tensor, chosen: th.Tensor) -> th.Tensor:
    """Logits ``(batch, size)`` of one head, penalties included, after the choices of the heads before it."""
    hidden = first if head.choices is None else th.addmm(first, chosen, head.choices)
    if head.penalties is not None:
        base = th.addmm(base, chosen, head.penalties)
    if head.permits is not None:
        matrix, penalty = head.permits
        base = base + penalty * (chosen @ matrix == 0)
    if head.logits is None:
        return hidden + base
    for step in head.steps:
        hidden = step(hidden) if isinstance(step, nn.Module) else th.addmm(step[1], hidden, step[0])
    return th.addmm(base, hidden, head.logits)
