"""Compiled loops over small things, for which PyTorch and NumPy need many calls, or pass over their memory often."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, error_model="numpy")
def choose_rows(
    scores: NDArray[np.float32],
    masks: NDArray[np.bool_],
    noise: NDArray[np.float32],
    table: NDArray[np.float32],
    first: NDArray[np.int64],
    penalties: NDArray[np.float32],
    permits: NDArray[np.float32],
    wishes: NDArray[np.float32],
    starts: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The best entry of each head, one head after the other, int64 ``(batch, heads)``.

    ``scores`` ``(batch, A)`` are logits before anything is chosen, and get what masks, rules and choices add to them;
    ``noise`` ``(batch, A)``, or without rows for none, is added while choosing only. The part of ``table`` for a row of
    the batch begins at its ``first``; everything else is as in `sb3_pvp.policies.actors.HeadTables`.
    """
    batch, flat = scores.shape
    actions = np.empty((batch, len(starts)), np.int64)
    granted = np.zeros(flat, np.bool_)
    is_noisy = len(noise) > 0
    for row in range(batch):
        own = scores[row]
        granted[:] = False
        for entry in range(flat):
            if not masks[row, entry]:
                own[entry] += penalties[entry]
        for head in range(len(starts)):
            start = starts[head]
            stop = starts[head + 1] if head + 1 < len(starts) else flat
            best, best_score = start, np.float32(-np.inf)
            for entry in range(start, stop):
                if wishes[entry] != 0 and not granted[entry]:
                    own[entry] += wishes[entry]
                score = own[entry] + noise[row, entry] if is_noisy else own[entry]
                if score > best_score:
                    best, best_score = entry, score
            actions[row, head] = best - start
            for entry in range(stop, flat):
                own[entry] += table[first[row] + best, entry]
                granted[entry] |= permits[best, entry] > 0
    return actions


@njit(cache=True, error_model="numpy")
def joint_log_probs(
    scores: NDArray[np.float32], actions: NDArray[np.int64], starts: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Log-probabilities ``(batch,)`` of joint actions ``(batch, heads)``, given the scores of all entries."""
    batch, flat = scores.shape
    log_probs = np.zeros(batch, np.float32)
    for row in range(batch):
        for head in range(len(starts)):
            own = scores[row, starts[head] : starts[head + 1] if head + 1 < len(starts) else flat]
            highest, total = own.max(), np.float32(0)
            for score in own:
                if score - highest > -80:  # all others have no chance at all
                    total += np.exp(score - highest)
            log_probs[row] += own[actions[row, head]] - highest - np.log(total)
    return log_probs


@njit(cache=True, error_model="numpy")
def normalize(
    features: NDArray[np.float32],
    mean: NDArray[np.float32],
    scale: NDArray[np.float32],
    clip: float,
    normalized: NDArray[np.float32],
) -> None:
    """Writes ``(features - mean) * scale``, within ``±clip``, ``(rows, features)``."""
    high, low = np.float32(clip), np.float32(-clip)
    for row in range(len(features)):
        for column in range(len(mean)):
            value = (features[row, column] - mean[column]) * scale[column]
            normalized[row, column] = high if value > high else low if value < low else value  # NaN stays


@njit(cache=True, error_model="numpy")
def observe(features: NDArray[np.float32], pending: NDArray[np.float64]) -> None:
    """Adds to the number of rows, their sum and the sum of their squares ``(3, features)``."""
    pending[0] += len(features)
    for row in range(len(features)):
        for column in range(features.shape[1]):
            value = np.float64(features[row, column])
            pending[1, column] += value
            pending[2, column] += value * value
