"""The random numbers of a fight: SplitMix64, one word of state per fight.

Each fight has its own state, so its trajectory does not depend on the batch it is played in.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sb3_pvp.games.osrs.sim.compile import rule

GAMMA = np.uint64(0x9E3779B97F4A7C15)  # step of the counter that `mix` scrambles: 2**64 / golden ratio, odd
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S11, _S33 = (np.uint64(k) for k in (27, 30, 31, 11, 33))
_TO_UNIT = 1.0 / (1 << 53)  # float64 has 53 bits of mantissa, so the upper 53 of 64 are used


@rule
def mix(z: np.uint64) -> np.uint64:
    """Scrambles 64 bits (Steele, Lea & Flood 2014, the finaliser of SplitMix)."""
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@rule
def _next(fight: Any) -> np.uint64:
    fight.rng = fight.rng + GAMMA
    return mix(fight.rng)


@rule
def uniform(fight: Any) -> float:
    """Draws a number from U[0, 1)."""
    return np.int64(_next(fight) >> _S11) * _TO_UNIT


@rule
def below(fight: Any, n: int) -> int:
    """Draws from U{0..n-1}; ``n`` should be far below 2**31, where the bias of the multiplication is below 1e-6."""
    return np.int64(((_next(fight) >> _S33) * np.uint64(n)) >> _S31)  # type: ignore[return-value]


@rule
def between(fight: Any, low: int, high: int) -> int:
    """Draws from U{low..high}; the bounds are swapped if ``high < low`` (mechanics.md §6.1)."""
    if high < low:
        low, high = high, low
    return low + below(fight, high - low + 1)
