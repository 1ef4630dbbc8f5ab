"""Compiled parts of the learning phase on the CPU: what `AutoregressiveHeads` compute beside matrix products.

Most heads have no choice in most rows, so loops that skip them beat PyTorch's operators, which work on all of them or
need several passes to find the others. `sb3_pvp.policies.heads` has the same in dense PyTorch, for other devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch as th
from numba import njit
from numpy.typing import NDArray
from torch.autograd.function import once_differentiable

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


class Conditionals(th.autograd.Function):
    """Log-probabilities and entropies ``(batch, heads)`` of given actions, and their gradients for the logits.

    The arguments are flat logits ``(batch, A)``, legal entries, bool ``(batch, A)``, of which each head has one,
    actions, int ``(batch, heads)``, the offsets of `DependencyRules` and the least log-probability. The reference is
    `AutoregressiveHeads.reference`.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: th.Tensor, legal: th.Tensor, actions: th.Tensor, offsets: th.Tensor, least: float
    ) -> tuple[th.Tensor, th.Tensor]:
        allowed, chosen, starts = legal.numpy(), actions.contiguous().numpy(), offsets.numpy()
        values = logits.detach().contiguous().numpy()
        log_probs, entropies, *entries = _conditionals(values, allowed, chosen, starts, np.float32(least))
        ctx.parts = allowed, chosen, starts, entropies, *entries
        return th.from_numpy(log_probs), th.from_numpy(entropies)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_log_probs: th.Tensor, of_entropies: th.Tensor) -> tuple[th.Tensor | None, ...]:
        parts = *ctx.parts, of_log_probs.contiguous().numpy(), of_entropies.contiguous().numpy()
        return th.from_numpy(_gradient(*parts)), None, None, None, None


class HeadInputs(th.autograd.Function):
    """The inputs of heads ``(rows of the head, inputs + extra inputs)``, one tensor for each head, on given rows.

    Dense: `HeadGroup.forward`. The arguments are the trunk's output ``(batch, inputs)``, extra inputs ``(batch, extra
    inputs)``, which of these each head sees, float ``(heads, extra inputs)``, and the rows of each head, int ``(rows of
    the head,)``. Gradients flow to the trunk's output.
    """

    # PyTorch's own gradient of indexing rows adds them one by one, each with an operator.
    @staticmethod
    def forward(
        ctx: Any, latent: th.Tensor, extra: th.Tensor, visible: th.Tensor, *rows: th.Tensor
    ) -> tuple[th.Tensor, ...]:
        ctx.shape, ctx.rows = latent.shape, [own.numpy() for own in rows]
        values = latent.detach().contiguous().numpy(), extra.contiguous().numpy()
        seen = visible.contiguous().numpy()
        return tuple(th.from_numpy(_inputs(*values, seen[head], own)) for head, own in enumerate(ctx.rows))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: th.Tensor) -> tuple[th.Tensor | None, ...]:
        total = th.zeros(ctx.shape)
        for rows, gradient in zip(ctx.rows, gradients, strict=True):
            _add_rows(total.numpy(), rows, gradient.contiguous().numpy())
        return total, None, None, *(None for _ in ctx.rows)


class FlatLogits(th.autograd.Function):
    """Flat logits ``(batch, A)`` from those of some heads, each on some rows; 0 elsewhere. Dense: `HeadGroup.forward`.

    The arguments are the size of the batch, where heads begin, int ``(heads + 1,)``, the heads, the rows of each, int
    ``(rows of the head,)``, and the logits of each ``(rows of the head, widest head)``.
    """

    @staticmethod
    def forward(
        ctx: Any, batch: int, offsets: th.Tensor, heads: Sequence[int], rows: Sequence[th.Tensor], *logits: th.Tensor
    ) -> th.Tensor:
        ends = offsets.tolist()
        ctx.places = [(ends[head], ends[head + 1], own.numpy()) for head, own in zip(heads, rows, strict=True)]
        flat = np.zeros((batch, ends[-1]), np.float32)
        for (start, stop, own), part in zip(ctx.places, logits, strict=True):
            flat[own, start:stop] = part.detach().numpy()[:, : stop - start]
        ctx.width = logits[0].shape[1]
        return th.from_numpy(flat)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: th.Tensor) -> tuple[th.Tensor | None, ...]:
        flat, parts = gradient.numpy(), []
        for start, stop, rows in ctx.places:
            part = np.zeros((len(rows), ctx.width), np.float32)
            part[:, : stop - start] = flat[rows, start:stop]
            parts.append(th.from_numpy(part))
        return None, None, None, None, *parts


@njit(cache=True, error_model="numpy")
def legal_entries(
    masks: Bools, actions: Ints, offsets: Ints, forbids: Floats, permits: Floats, asks_any: Bools
) -> Bools:
    """Does the same as `DependencyRules.legal`, whose tables are the other arguments."""
    batch, flat = masks.shape
    legal = np.empty((batch, flat), np.bool_)
    matters, asking = np.zeros(flat, np.bool_), False
    for entry in range(flat):
        asking |= asks_any[entry]
        for other in range(flat):
            matters[entry] |= forbids[entry, other] != 0 or permits[entry, other] != 0
    granted = np.empty(flat, np.bool_)
    for row in range(batch):
        for entry in range(flat):
            legal[row, entry] = masks[row, entry]
            granted[entry] = not asks_any[entry]
        for head in range(len(offsets) - 1):
            chosen = offsets[head] + actions[row, head]
            if matters[chosen]:
                for entry in range(flat):
                    legal[row, entry] &= forbids[chosen, entry] == 0
                    granted[entry] |= permits[chosen, entry] != 0
        if asking:
            for entry in range(flat):
                legal[row, entry] &= granted[entry]
        for head in range(len(offsets) - 1):
            entry = offsets[head]
            while entry < offsets[head + 1] and not legal[row, entry]:
                entry += 1
            legal[row, offsets[head]] |= entry == offsets[head + 1]
    return legal


@njit(cache=True, error_model="numpy")
def choices(legal: Bools, offsets: Ints) -> tuple[Ints, Ints, Ints]:
    """Returns the rows in which any head has a choice; which of these rows each head has one in, those of the first
    head first; and their number per head. Dense: ``has_choice`` in `AutoregressiveHeads`."""
    batch, num_heads = len(legal), len(offsets) - 1
    rows, count = np.empty(batch, np.int64), 0
    has_choice, counts = np.empty((num_heads, batch), np.bool_), np.zeros(num_heads, np.int64)
    for row in range(batch):
        any_choice = False
        for head in range(num_heads):
            number = 0
            for entry in range(offsets[head], offsets[head + 1]):
                number += legal[row, entry]
            has_choice[head, count] = number > 1
            counts[head] += number > 1
            any_choice |= number > 1
        rows[count] = row
        count += any_choice
    places, filled = np.empty(counts.sum(), np.int64), 0
    for head in range(num_heads):
        for place in range(count):
            if has_choice[head, place]:
                places[filled] = place
                filled += 1
    return rows[:count], places, counts


@njit(cache=True, error_model="numpy")
def _conditionals(
    logits: Floats, legal: Bools, actions: Ints, offsets: Ints, least: np.float32
) -> tuple[Floats, Floats, Floats, Floats]:
    """Returns log-probabilities and entropies ``(batch, heads)``; of all entries ``(batch, A)`` the log-probabilities
    and probabilities, both 0 for entries that are not legal and in heads without a choice."""
    batch, flat = logits.shape
    num_heads = len(offsets) - 1
    log_probs, entropies = np.empty((batch, num_heads), np.float32), np.zeros((batch, num_heads), np.float32)
    logs, probs = np.zeros((batch, flat), np.float32), np.zeros((batch, flat), np.float32)
    for row in range(batch):
        for head in range(num_heads):
            start, stop = offsets[head], offsets[head + 1]
            number, highest = 0, np.float32(-np.inf)
            for entry in range(start, stop):
                if legal[row, entry]:
                    number += 1
                    highest = max(highest, logits[row, entry])
            chosen = start + actions[row, head]
            log_prob = np.float32(0.0) if legal[row, chosen] else least
            if number > 1:
                total = np.float32(0.0)
                for entry in range(start, stop):
                    if legal[row, entry]:
                        probs[row, entry] = np.exp(logits[row, entry] - highest)
                        total += probs[row, entry]
                shift, entropy = np.log(total), np.float32(0.0)
                for entry in range(start, stop):
                    if legal[row, entry]:
                        probs[row, entry] /= total
                        logs[row, entry] = max(logits[row, entry] - highest - shift, least)
                        entropy -= probs[row, entry] * logs[row, entry]
                entropies[row, head] = entropy
                if legal[row, chosen]:
                    log_prob = logs[row, chosen]
            log_probs[row, head] = log_prob
    return log_probs, entropies, logs, probs


@njit(cache=True, error_model="numpy")
def _gradient(
    legal: Bools,
    actions: Ints,
    offsets: Ints,
    entropies: Floats,
    logs: Floats,
    probs: Floats,
    of_log_probs: Floats,
    of_entropies: Floats,
) -> Floats:
    """Returns the gradient for the logits ``(batch, A)``, given those of log-probabilities and entropies."""
    batch, flat = probs.shape
    num_heads = len(offsets) - 1
    gradient = np.zeros((batch, flat), np.float32)
    for row in range(batch):
        for head in range(num_heads):
            start, stop = offsets[head], offsets[head + 1]
            chosen, has_choice = start + actions[row, head], False
            of_log_prob = of_log_probs[row, head] if legal[row, chosen] else np.float32(0.0)
            of_entropy, entropy = of_entropies[row, head], entropies[row, head]
            for entry in range(start, stop):
                if probs[row, entry] != 0:
                    has_choice = True
                    slope = of_log_prob + of_entropy * (logs[row, entry] + entropy)
                    gradient[row, entry] = -probs[row, entry] * slope
            if has_choice:
                gradient[row, chosen] += of_log_prob
    return gradient


@njit(cache=True, error_model="numpy")
def _inputs(latent: Floats, extra: Floats, visible: Floats, rows: Ints) -> Floats:
    """Returns the inputs of one head ``(rows, inputs + extra inputs)``; see `HeadInputs`."""
    width = latent.shape[1]
    inputs = np.empty((len(rows), width + extra.shape[1]), np.float32)
    for index, row in enumerate(rows):
        inputs[index, :width] = latent[row]
        for column in range(extra.shape[1]):
            inputs[index, width + column] = extra[row, column] * visible[column]
    return inputs


@njit(cache=True, error_model="numpy")
def _add_rows(total: Floats, rows: Ints, values: Floats) -> None:
    """Adds the first columns of ``values (rows, at least columns)`` to the given rows of ``total (batch, columns)``."""
    for index, row in enumerate(rows):
        for column in range(total.shape[1]):
            total[row, column] += values[index, column]
