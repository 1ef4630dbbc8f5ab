"""The Java generator, against what a Java machine prints and against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sb3_pvp.games.osrs.sim.compile import callable_rule, rule
from sb3_pvp.games.osrs.sim.java_random import draw, seeded
from sb3_pvp.games.osrs.sim.parameters import java_string_hash


@callable_rule
@rule
def _draws(seed: int, bound: int, count: int) -> NDArray[np.int64]:
    generator = seeded(seed)
    drawn = np.empty(count, np.int64)
    for i in range(count):
        drawn[i] = draw(generator, bound)
    return drawn


def _java(seed: int, bound: int, count: int) -> list[int]:
    """`Random.nextInt(bound)` as its documentation defines it, in unbounded integers."""
    state = (seed ^ 0x5DEECE66D) % 2**48
    drawn: list[int] = []
    while len(drawn) < count:
        state = (state * 0x5DEECE66D + 11) % 2**48
        bits = state // 2**17
        if bound & -bound == bound:
            drawn.append(bound * bits // 2**31)
        elif bits - bits % bound + bound - 1 < 2**31:
            drawn.append(bits % bound)
    return drawn


def test_known_sequences() -> None:
    assert _draws(42, 10, 10).tolist() == [0, 3, 8, 4, 0, 5, 5, 8, 9, 3]
    assert _draws(0, 100, 5).tolist() == [60, 48, 29, 47, 15]


@given(st.integers(-(2**31), 2**31 - 1), st.integers(1, 2**31 - 1))
def test_draws_are_those_of_the_definition(seed: int, bound: int) -> None:
    assert _draws(seed, bound, 20).tolist() == _java(seed, bound, 20)


@pytest.mark.parametrize(
    ("text", "value"), [("", 0), ("hello", 99162322), ("polygenelubricants", -(2**31)), ("\U0001f600", 1772899)]
)
def test_string_hash(text: str, value: int) -> None:
    assert java_string_hash(text) == value
