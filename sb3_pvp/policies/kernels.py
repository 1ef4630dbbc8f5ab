"""Compiled loops for small arrays, where PyTorch and NumPy would need many calls or many passes over memory."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

#: Entries whose logits are this far below the highest are impossible; otherwise rounding might let a forbidden one win.
_NEGLIGIBLE = np.float32(-80.0)


@njit(cache=True, error_model="numpy")
def _sample_entry(logits: NDArray[np.float32], uniform: float) -> tuple[int, float]:
    """Returns an entry and its log-probability: the first whose cumulative probability exceeds ``uniform``."""
    best = int(np.argmax(logits))
    total = np.float32(0.0)
    for logit in logits:
        if logit - logits[best] > _NEGLIGIBLE:
            total += np.exp(logit - logits[best])
    chosen = best
    if uniform >= 0 and total > 1:
        rest = np.float32(uniform) * total
        for entry, logit in enumerate(logits):
            if logit - logits[best] > _NEGLIGIBLE:
                chosen = entry
                rest -= np.exp(logit - logits[best])
                if rest < 0:
                    break
    return chosen, float(logits[chosen] - logits[best] - np.log(total))


@njit(cache=True, error_model="numpy")
def sample_entries(
    logits: NDArray[np.float32], uniforms: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Samples entries ``(batch,)`` of one head with logits ``(batch, size)``; returns them and their log-probabilities.

    ``uniforms`` ``(batch,)`` are random numbers in [0, 1); a negative one selects the most likely entry.
    """
    chosen, log_probs = np.empty(len(logits), np.int64), np.empty(len(logits), np.float32)
    for row in range(len(logits)):
        chosen[row], log_probs[row] = _sample_entry(logits[row], uniforms[row])
    return chosen, log_probs


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

    ``logits (batch, A)`` are those before any choice, and are overwritten; ``uniforms (batch, heads)`` are as in
    `sample_entries`. ``table (policies * A, A)`` has the tables of all policies, where that of each row of the batch
    begins at ``first (batch,)``. The other arguments are as in `sb3_pvp.policies.actors.HeadTables`.
    """
    batch, flat = logits.shape
    actions, log_probs = np.empty((batch, len(starts)), np.int64), np.zeros(batch, np.float32)
    granted = np.zeros(flat, np.bool_)
    for row in range(batch):
        own = logits[row]
        granted[:] = False
        for entry in range(flat):
            if not masks[row, entry]:
                own[entry] += penalties[entry]
        for head in range(len(starts)):
            start = starts[head]
            stop = starts[head + 1] if head + 1 < len(starts) else flat
            for entry in range(start, stop):
                if unmet[entry] != 0 and not granted[entry]:
                    own[entry] += unmet[entry]
            chosen, log_prob = _sample_entry(own[start:stop], uniforms[row, head])
            actions[row, head] = chosen
            log_probs[row] += log_prob
            # Rules and encodings only act on later heads; the earlier ones have chosen.
            for entry in range(stop, flat):
                own[entry] += table[first[row] + start + chosen, entry]
                granted[entry] |= permits[start + chosen, entry] > 0
    return actions, log_probs


@njit(cache=True, error_model="numpy")
def normalize(
    features: NDArray[np.float32],
    mean: NDArray[np.float32],
    scale: NDArray[np.float32],
    clip: float,
    normalized: NDArray[np.float32],
) -> None:
    """Writes ``(features - mean) * scale``, clipped to ``±clip``, into ``normalized (rows, features)``."""
    high, low = np.float32(clip), np.float32(-clip)
    for row in range(len(features)):
        for column in range(len(mean)):
            value = (features[row, column] - mean[column]) * scale[column]
            normalized[row, column] = high if value > high else low if value < low else value  # NaN passes through


@njit(cache=True, error_model="numpy")
def observe(features: NDArray[np.float32], pending: NDArray[np.float64]) -> None:
    """Adds rows to ``pending (3, features)``: number of rows, sum, and sum of squares."""
    pending[0] += len(features)
    for row in range(len(features)):
        for column in range(features.shape[1]):
            value = np.float64(features[row, column])
            pending[1, column] += value
            pending[2, column] += value * value
