"""Random numbers for fights, one SplitMix64 word for each: no fight depends on the batch it is played in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_TO_UNIT = 1.0 / (1 << 53)


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


def words_from_seeds(seeds: Sequence[int], stream: int) -> NDArray[np.uint64]:
    """One word per seed, uint64 ``(N,)``; different streams of the same seed are unrelated."""
    words = np.array([seed % (1 << 64) for seed in seeds], np.uint64)
    return _mix(_mix(words + np.uint64(stream * int(_GAMMA) % (1 << 64))))


def uniform(words: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.uint64]]:
    """A number from [0, 1) for each word, float64 ``(N,)``, and the words that come next."""
    following = np.asarray(words, np.uint64) + _GAMMA
    return (_mix(following) >> np.uint64(11)).astype(np.float64) * _TO_UNIT, following


def uniforms(words: ArrayLike, count: int) -> tuple[NDArray[np.float32], NDArray[np.uint64]]:
    """``count`` numbers from [0, 1) for each word, float32 ``(N, count)``, and the words ``(N,)`` that come next."""
    following = np.asarray(words, np.uint64)[:, np.newaxis] + np.arange(1, count + 1, dtype=np.uint64) * _GAMMA
    return (_mix(following) >> np.uint64(40)).astype(np.float32) * np.float32(2**-24), following[:, -1]


class RandomWords:
    """Draws one number per fight at a time, with the methods of NumPy's generators that schedules use."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self.words = words  #: Those that come next, ``(N,)``.

    def random(self, size: object = None) -> NDArray[np.float64]:
        """Numbers from [0, 1), float64 ``(N,)``, whatever the ``size``."""
        numbers, self.words = uniform(self.words)
        return numbers

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: object = None) -> NDArray[np.float64]:
        """Gaussian numbers, float64 ``(N,)``, whatever the ``size`` (Box and Muller's method)."""
        radius = np.sqrt(-2.0 * np.log1p(-self.random()))
        numbers: NDArray[np.float64] = loc + scale * radius * np.cos(2.0 * np.pi * self.random())
        return numbers
