"""Compiled loops for small arrays, where PyTorch and NumPy would need many calls or many passes over memory."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

#: Entries whose logits are this far below the highest are impossible; otherwise rounding might let a forbidden one win.
_NEGLIGIBLE = np.float32(-80.0)


@njit(cache=True, error_model="numpy")
def sample_heads(
    logits: NDArray[np.float32],
    masks: NDArray[np.bool_],
    uniforms: NDArray[np.float32],
    starts: NDArray[np.int64],
    table: NDArray[np.float32],
    first: NDArray[np.int64],
    permits: NDArray[np.float32],
    asks_any: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
    """Samples joint actions ``(batch, heads)`` head by head; returns them, their log-probabilities ``(batch,)`` and the
    scores of all entries ``(batch, A)``: logits given the choices of earlier heads, and ``-inf`` where not legal.

    ``logits (batch, A)`` are those before any choice. ``uniforms (batch, heads)`` are random numbers in [0, 1): a head
    takes the first entry whose cumulative probability exceeds its number; a negative one selects the most likely entry.
    ``table (policies * A, A)`` has the tables of all policies, where that of each row of the batch begins at
    ``first (batch,)``. The other arguments are as in `sb3_pvp.policies.sampling.HeadTables`.
    """
    scores, granted, actions, log_probs = begin_heads(logits, masks, len(starts))
    rules = table, first, permits, asks_any
    for head in range(len(starts)):
        stop = starts[head + 1] if head + 1 < len(starts) else logits.shape[1]
        sample_head(scores, granted, head, starts[head], stop, uniforms, *rules, actions, log_probs)
    return actions, log_probs, scores


@njit(cache=True, error_model="numpy")
def begin_heads(
    logits: NDArray[np.float32], masks: NDArray[np.bool_], num_heads: int
) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.int64], NDArray[np.float32]]:
    """Returns what `sample_head` changes: scores ``(batch, A)``, granted entries, actions and log-probabilities."""
    batch, flat = logits.shape
    scores, granted = np.empty((batch, flat), np.float32), np.zeros((batch, flat), np.bool_)
    for row in range(batch):
        for entry in range(flat):
            scores[row, entry] = logits[row, entry] if masks[row, entry] else -np.float32(np.inf)
    return scores, granted, np.empty((batch, num_heads), np.int64), np.zeros(batch, np.float32)


@njit(cache=True, error_model="numpy")
def sample_head(
    scores: NDArray[np.float32],
    granted: NDArray[np.bool_],
    head: int,
    start: int,
    stop: int,
    uniforms: NDArray[np.float32],
    table: NDArray[np.float32],
    first: NDArray[np.int64],
    permits: NDArray[np.float32],
    asks_any: NDArray[np.bool_],
    actions: NDArray[np.int64],
    log_probs: NDArray[np.float32],
) -> None:
    """Samples one head, whose entries are ``start`` to ``stop``, in all rows; arguments as in `sample_heads`.

    It writes ``actions[:, head]``, adds to ``log_probs``, and to the scores of later heads. Dense, as part of a graph:
    `sb3_pvp.policies.export.onnx_graph`.
    """
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
def entropies_and_probabilities(
    scores: NDArray[np.float32], starts: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
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
def rows_with_choice(
    scores: NDArray[np.float32], granted: NDArray[np.bool_], start: int, stop: int, asks_any: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Returns the rows in which a head with hidden layers has several legal entries, whose scores are 0 so far."""
    rows, count = np.empty(len(scores), np.int64), 0
    for row in range(len(scores)):
        legal = 0
        for entry in range(start, stop):
            legal += scores[row, entry] == 0 and (not asks_any[entry] or granted[row, entry])
        rows[count] = row
        count += legal > 1
    return rows[:count]


@njit(cache=True, error_model="numpy")
def sum_rows(
    bias: NDArray[np.float32], table: NDArray[np.float32], entries: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Returns for each of ``rows`` the bias ``(outputs,)`` plus the rows of ``table (A, outputs)`` for its entries.

    ``entries (batch, earlier heads)`` are the choices of all rows; without autoregression the table is empty.
    """
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
def add_logits(scores: NDArray[np.float32], rows: NDArray[np.int64], start: int, logits: NDArray[np.float32]) -> None:
    """Adds logits ``(rows, size)`` of one head to the scores of these rows, from the entry ``start`` on."""
    for number, row in enumerate(rows):
        for entry in range(logits.shape[1]):
            scores[row, start + entry] += logits[number, entry]


@njit(cache=True, error_model="numpy")
def normalize(
    features: NDArray[np.float32],
    mean: NDArray[np.float32],
    scale: NDArray[np.float32],
    clip: float,
    normalized: NDArray[np.float32],
    first: int,
    stride: int,
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
def observe(features: NDArray[np.float32], first: int, pending: NDArray[np.float64]) -> None:
    """Adds features ``(rows, width)``, whose first is number ``first``, to ``pending``, as in `RunningNormalizer`."""
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
def observe_choices(actions: NDArray[np.int64], starts: NDArray[np.int64], pending: NDArray[np.float64]) -> None:
    """Adds the one-hot encodings of actions ``(batch, heads)`` to ``pending``, as in `RunningNormalizer`."""
    pending[0] += len(actions)
    for row in range(len(actions)):
        for head in range(actions.shape[1]):
            entry = starts[head] + actions[row, head]
            pending[1, entry] += 1.0
            pending[2, entry] += 1.0
