"""The random numbers of the Java server (`java.util.Random`), to repeat its gear rolls exactly (nh-actions.md §B.3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.osrs.sim.compile import rule

#: The one word of state of a generator, int64 ``(1,)``.
Generator = NDArray[np.int64]

_MULTIPLIER = 0x5DEECE66D
_INCREMENT = 0xB
_MASK = (1 << 48) - 1
_MAX_INT = (1 << 31) - 1


@rule
def seeded(seed: int) -> Generator:
    """Returns a generator in the state of ``new Random(seed)``."""
    generator = np.empty(1, np.int64)
    generator[0] = (seed ^ _MULTIPLIER) & _MASK
    return generator


@rule
def _next_31_bits(generator: Generator) -> int:
    # The 64-bit product may overflow: its low 48 bits are right, and only those are kept.
    generator[0] = (generator[0] * _MULTIPLIER + _INCREMENT) & _MASK
    return int(generator[0] >> 17)


@rule
def draw(generator: Generator, bound: int) -> int:
    """Draws ``nextInt(bound)``, an integer from U{0..bound-1} for ``bound`` in 1..2**31-1 (protocol.md §3.1)."""
    bits = _next_31_bits(generator)
    if bound & (bound - 1) == 0:
        return (bound * bits) >> 31
    while bits - bits % bound > _MAX_INT - (bound - 1):  # rejects the incomplete last interval, as Java does
        bits = _next_31_bits(generator)
    return bits % bound
