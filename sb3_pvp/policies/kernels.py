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
    table: NDArray[np.float32],
    first: NDArray[np.int64],
    penalties: NDArray[np.float32],
    permits: NDArray[np.float32],
    unmet: NDArray[np.float32],
    starts: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Samples joint actions ``(batch, heads)`` head by head; returns them and their log-probabilities ``(batch,)``.

    ``logits (batch, A)`` are those before any choice. ``uniforms (batch, heads)`` are random numbers in [0, 1): a head
    takes the first entry whose cumulative probability exceeds its number; a negative one selects the most likely entry.
    ``table (policies * A, A)`` has the tables of all policies, where that of each row of the batch begins at
    ``first (batch,)``. The other arguments are as in `sb3_pvp.policies.actors.HeadTables`.
    """
    # One long function with indices: calls and slices for each head would take longer than most heads do.
    batch, flat = logits.shape
    actions, log_probs = np.empty((batch, len(starts)), np.int64), np.zeros(batch, np.float32)
    own, shares, granted = np.empty(flat, np.float32), np.empty(flat, np.float32), np.zeros(flat, np.bool_)
    asks = bool((unmet != 0).any())  # most games have no rule of this kind
    for row in range(batch):
        for entry in range(flat):
            own[entry] = logits[row, entry] + (np.float32(0.0) if masks[row, entry] else penalties[entry])
        granted[:] = False
        for head in range(len(starts)):
            start = starts[head]
            stop = starts[head + 1] if head + 1 < len(starts) else flat
            if asks:
                for entry in range(start, stop):
                    if unmet[entry] != 0 and not granted[entry]:
                        own[entry] += unmet[entry]
            best = start
            highest = own[start]
            for entry in range(start + 1, stop):
                if own[entry] > highest:
                    best = entry
                    highest = own[entry]
            total = np.float32(0.0)
            for entry in range(start, stop):
                below = own[entry] - highest
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
                log_probs[row] += own[chosen] - highest - np.log(total)
            actions[row, head] = chosen - start
            # Rules and encodings only act on later heads; the earlier ones have chosen.
            effects = first[row] + chosen
            for entry in range(stop, flat):
                own[entry] += table[effects, entry]
            if asks:
                for entry in range(stop, flat):
                    granted[entry] |= permits[chosen, entry] > 0
    return actions, log_probs


@njit(cache=True, error_model="numpy")
def sample_entries(
    logits: NDArray[np.float32], uniforms: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Samples entries ``(batch,)`` of one head with logits ``(batch, size)``; returns them and their log-probabilities.

    ``uniforms`` ``(batch,)`` are as in `sample_heads`.
    """
    batch, size = logits.shape
    nothing, square = np.zeros(size, np.float32), np.zeros((size, size), np.float32)
    masks, first, starts = np.ones((batch, size), np.bool_), np.zeros(batch, np.int64), np.zeros(1, np.int64)
    numbers = np.ascontiguousarray(uniforms).reshape(batch, 1)
    actions, log_probs = sample_heads(
        np.ascontiguousarray(logits), masks, numbers, square, first, nothing, square, nothing, starts
    )
    return actions[:, 0], log_probs


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

    ``features`` are ``(batch, frames, width)``, ``mean`` and ``scale (width,)``. Frame ``f`` begins at the column
    ``first + f * stride``.
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
