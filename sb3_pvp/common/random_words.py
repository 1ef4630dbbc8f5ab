"""Random numbers with one SplitMix64 state per fight, so that no fight depends on the batch it is played in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# The constants and shifts of SplitMix64 (Steele, Lea and Flood, 2014).
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_TO_UNIT = 1.0 / (1 << 53)  # a float64 has 53 bits of precision


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


def words_from_seeds(seeds: Sequence[int], stream: int) -> NDArray[np.uint64]:
    """Returns one state per seed, uint64 ``(N,)``; different streams of the same seed are unrelated."""
    words = np.array([seed % (1 << 64) for seed in seeds], np.uint64)
    # Mixed, because seed + k * _GAMMA alone would be the sequence of stream 0, k steps later.
    return _mix(_mix(words + np.uint64(stream * int(_GAMMA) % (1 << 64))))


def uniform(words: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.uint64]]:
    """Returns a number from [0, 1) for each state, float64 ``(N,)``, and the next states."""
    following = np.asarray(words, np.uint64) + _GAMMA
    return (_mix(following) >> np.uint64(11)).astype(np.float64) * _TO_UNIT, following


def uniforms(words: ArrayLike, count: int) -> tuple[NDArray[np.float32], NDArray[np.uint64]]:
    """Returns ``count`` numbers from [0, 1) for each state, float32 ``(N, count)``, and the next states ``(N,)``."""
    following = np.asarray(words, np.uint64)[:, np.newaxis] + np.arange(1, count + 1, dtype=np.uint64) * _GAMMA
    # 24 bits, the precision of a float32: with more, rounding could give 1.0.
    return (_mix(following) >> np.uint64(40)).astype(np.float32) * np.float32(2**-24), following[:, -1]


class RandomWords:
    """Draws one number per fight, with the methods of NumPy's generators that schedules use."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self.words = words  #: The current states, ``(N,)``.

    def random(self, size: object = None) -> NDArray[np.float64]:
        """Returns numbers from [0, 1), float64 ``(N,)``; ``size`` is ignored."""
        numbers, self.words = uniform(self.words)
        return numbers

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: object = None) -> NDArray[np.float64]:
        """Returns normally distributed numbers, float64 ``(N,)``; ``size`` is ignored."""
        # Box-Muller. log1p(-u) instead of log(u), because u may be 0 but not 1.
        radius = np.sqrt(-2.0 * np.log1p(-self.random()))
        numbers: NDArray[np.float64] = loc + scale * radius * np.cos(2.0 * np.pi * self.random())
        return numbers
