"""Compiled loops for small arrays, where PyTorch and NumPy would need many calls or many passes over memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch as th
from numba import njit
from numpy.typing import NDArray
from torch.autograd.function import once_differentiable

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
#: Entries whose logits are this far below the highest are impossible; otherwise rounding might let a forbidden one win.
_NEGLIGIBLE = np.float32(-80.0)


@njit(cache=True, error_model="numpy")
def sample_heads(
    logits: Floats,
    masks: Bools,
    uniforms: Floats,
    starts: Ints,
    table: Floats,
    first: Ints,
    permits: Floats,
    asks_any: Bools,
) -> tuple[Ints, Floats, Floats]:
    """Samples joint actions ``(batch, heads)`` head by head; returns them, their log-probabilities ``(batch,)`` and the
    scores of all entries ``(batch, A)``: logits given the choices of earlier heads, and ``-inf`` where not legal.

    ``logits (batch, A)`` are those before any choice. ``uniforms (batch, heads)`` are random numbers in [0, 1): a head
    takes the first entry whose cumulative probability exceeds its number; a negative one selects the most likely entry.
    ``table (policies * A, A)`` has the tables of all policies, where that of each row of the batch begins at
    ``first (batch,)``. The other arguments are as in `sb3_pvp.policies.sampling.HeadTables`.
    """
    # Dense, for given actions: `AutoregressiveHeads.reference`. What a later head may do depends on what an earlier one
    # has drawn, so heads are a loop that no matrix product can replace.
    scores, granted, actions, log_probs = begin_heads(logits, masks, len(starts))
    rules = table, first, permits, asks_any
    for head in range(len(starts)):
        stop = starts[head + 1] if head + 1 < len(starts) else logits.shape[1]
        sample_head(scores, granted, head, starts[head], stop, uniforms, *rules, actions, log_probs)
    return actions, log_probs, scores


@njit(cache=True, error_model="numpy")
def begin_heads(logits: Floats, masks: Bools, num_heads: int) -> tuple[Floats, Bools, Ints, Floats]:
    """Returns what `sample_head` changes: scores ``(batch, A)``, granted entries, actions and log-probabilities."""
    batch, flat = logits.shape
    scores, granted = np.empty((batch, flat), np.float32), np.zeros((batch, flat), np.bool_)
    for row in range(batch):
        for entry in range(flat):
            scores[row, entry] = logits[row, entry] if masks[row, entry] else -np.float32(np.inf)
    return scores, granted, np.empty((batch, num_heads), np.int64), np.zeros(batch, np.float32)


@njit(cache=True, error_model="numpy")
def sample_head(
    scores: Floats,
    granted: Bools,
    head: int,
    start: int,
    stop: int,
    uniforms: Floats,
    table: Floats,
    first: Ints,
    permits: Floats,
    asks_any: Bools,
    actions: Ints,
    log_probs: Floats,
) -> None:
    """Samples one head, whose entries are ``start`` to ``stop``, in all rows; arguments as in `sample_heads`.

    It writes ``actions[:, head]``, adds to ``log_probs``, and to the scores of later heads. Dense, as part of a graph:
    `sb3_pvp.policies.export.onnx_graph`.
    """
    # The order within a row is the rule of contract.md §2: first what is still asked for, then the fallback, then the
    # choice, and only then its effects on later heads.
    # Indices instead of slices: counting references to a slice of each row would take longer than most heads do.
    flat, shares = scores.shape[1], np.empty(stop, np.float32)
    is_asked = asks_any.any()  # most games have no rule of this kind
    for row in range(len(scores)):
        if is_asked:
            for entry in range(start, stop):
                if asks_any[entry] and not granted[row, entry]:
                    scores[row, entry] = -np.inf
        best = start
        highest = scores[row, start]
        for entry in range(start + 1, stop):
            if scores[row, entry] > highest:
                best = entry
                highest = scores[row, entry]
        if highest == -np.inf:
            scores[row, start] = highest = np.float32(0.0)  # nothing is legal: the first entry is certain
        total = np.float32(0.0)
        for entry in range(start, stop):
            below = scores[row, entry] - highest
            share = np.float32(0.0)
            if below > _NEGLIGIBLE:
                # exp() is what takes time, and in most heads only one entry is possible.
                share = np.exp(below) if entry != best else np.float32(1.0)
            shares[entry] = share
            total += share
        chosen = best
        if total > 1:
            rest = uniforms[row, head] * total
            if rest >= 0:
                for entry in range(start, stop):
                    if shares[entry] > 0:
                        chosen = entry
                        rest -= shares[entry]
                        if rest < 0:
                            break
            log_probs[row] += scores[row, chosen] - highest - np.log(total)
        actions[row, head] = chosen - start
        # Rules and encodings only act on later heads; the earlier ones have chosen.
        effects = first[row] + chosen
        for entry in range(stop, flat):
            scores[row, entry] += table[effects, entry]
        if is_asked:
            for entry in range(stop, flat):
                granted[row, entry] |= permits[chosen, entry] > 0


@njit(cache=True, error_model="numpy")
def entropies_and_probabilities(scores: Floats, starts: Ints) -> tuple[Floats, Floats]:
    """Returns the entropies of heads ``(batch, heads)`` and the probabilities of entries ``(batch, A)``.

    Dense: `AutoregressiveHeads.reference` and `AutoregressiveHeads.probabilities`.
    ``scores (batch, A)`` are those that `sample_heads` returns, ``starts`` are the heads' first entries.
    """
    batch, flat = scores.shape
    entropies, probabilities = np.zeros((batch, len(starts)), np.float32), np.zeros((batch, flat), np.float32)
    for row in range(batch):
        for head in range(len(starts)):
            start = starts[head]
            stop = starts[head + 1] if head + 1 < len(starts) else flat
            highest = scores[row, start]
            for entry in range(start + 1, stop):
                highest = max(highest, scores[row, entry])
            total, weighted = np.float32(0.0), np.float32(0.0)
            for entry in range(start, stop):
                below = scores[row, entry] - highest
                if below > _NEGLIGIBLE:
                    share = np.exp(below)
                    probabilities[row, entry] = share
                    total += share
                    weighted += share * below
            for entry in range(start, stop):
                probabilities[row, entry] /= total
            entropies[row, head] = np.log(total) - weighted / total
    return entropies, probabilities


@njit(cache=True, error_model="numpy")
def rows_with_choice(scores: Floats, granted: Bools, start: int, stop: int, asks_any: Bools) -> Ints:
    """Returns the rows in which a head with hidden layers has several legal entries, whose scores are 0 so far."""
    # Dense: ``has_choice`` in `AutoregressiveHeads`. A score of 0 means legal: these heads have no logits yet.
    rows, count = np.empty(len(scores), np.int64), 0
    for row in range(len(scores)):
        legal = 0
        for entry in range(start, stop):
            legal += scores[row, entry] == 0 and (not asks_any[entry] or granted[row, entry])
        rows[count] = row
        count += legal > 1
    return rows[:count]


@njit(cache=True, error_model="numpy")
def sum_rows(bias: Floats, table: Floats, entries: Ints, rows: Ints) -> Floats:
    """Returns for each of ``rows`` the bias ``(outputs,)`` plus the rows of ``table (A, outputs)`` for its entries.

    ``entries (batch, earlier heads)`` are the choices of all rows; without autoregression the table is empty.
    """
    # Dense: `AutoregressiveHeads.encode` and the first layer. A one-hot vector times a matrix is a row of it.
    sums = np.empty((len(rows), len(bias)), np.float32)
    for number, row in enumerate(rows):
        for column in range(len(bias)):
            sums[number, column] = bias[column]
        for head in range(entries.shape[1] if len(table) else 0):
            entry = entries[row, head]
            for column in range(len(bias)):
                sums[number, column] += table[entry, column]
    return sums


@njit(cache=True, error_model="numpy")
def add_logits(scores: Floats, rows: Ints, start: int, logits: Floats) -> None:
    """Adds logits ``(rows, size)`` of one head to the scores of these rows, from the entry ``start`` on."""
    for number, row in enumerate(rows):
        for entry in range(logits.shape[1]):
            scores[row, start + entry] += logits[number, entry]


@njit(cache=True, error_model="numpy")
def normalize(
    features: Floats, mean: Floats, scale: Floats, clip: float, normalized: Floats, first: int, stride: int
) -> None:
    """Writes ``(features - mean) * scale``, clipped to ``±clip``, into ``normalized (batch, columns)``.

    Dense: `RunningNormalizer.forward`. ``features`` are ``(batch, frames, width)``, ``mean`` and ``scale (width,)``.
    Frame ``f`` begins at the column ``first + f * stride``.
    """
    high, low = np.float32(clip), np.float32(-clip)
    batch, frames, width = features.shape
    for row in range(batch):
        for frame in range(frames):
            start = first + frame * stride
            raw, written = features[row, frame], normalized[row][start : start + width]
            for column in range(width):
                value = (raw[column] - mean[column]) * scale[column]
                value = high if value > high else value  # NaN passes through
                written[column] = low if value < low else value


@njit(cache=True, error_model="numpy")
def observe(features: Floats, first: int, pending: NDArray[np.float64]) -> None:
    """Adds features ``(rows, width)``, whose first is number ``first``, to ``pending``, as in `RunningNormalizer`."""
    # In float64, row after row: the sums of a rollout are then the same to the bit, however many calls it came in.
    rows, width = features.shape
    last = first + width
    # Not ``pending[0, first:last]``, which Numba would not know to be contiguous, and not vectorise.
    number, total, squares = pending[0][first:last], pending[1][first:last], pending[2][first:last]
    for column in range(width):
        number[column] += rows
    for row in range(rows):
        own = features[row]
        for column in range(width):
            value = np.float64(own[column])
            total[column] += value
            squares[column] += value * value


@njit(cache=True, error_model="numpy")
def observe_choices(actions: Ints, starts: Ints, pending: NDArray[np.float64]) -> None:
    """Adds the one-hot encodings of actions ``(batch, heads)`` to ``pending``, as in `RunningNormalizer`."""
    pending[0] += len(actions)
    for row in range(len(actions)):
        for head in range(actions.shape[1]):
            entry = starts[head] + actions[row, head]
            pending[1, entry] += 1.0
            pending[2, entry] += 1.0


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
        for other in range(forbids.shape[1]):
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
            # Dense, autograd finds it from `AutoregressiveHeads.reference`.
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
