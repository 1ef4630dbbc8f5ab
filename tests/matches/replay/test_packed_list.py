"""A packed list is read as a list is."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sb3_pvp.matches.replay.packed_list import PLAIN, PackedList


@given(st.lists(st.integers(), max_size=200), st.slices(200), st.integers(1, 200))
def test_it_is_read_as_a_list_is(items: list[int], part: slice, count: int) -> None:
    packed = PackedList[int]()
    for each in items:
        packed.append(each)
    assert len(packed) == len(items) and [*packed] == items and packed[part] == items[part]
    assert [packed[-1 - n] for n in range(len(items))] == items[::-1]
    packed.keep(count)
    assert [*packed] == items[-count:]


def test_there_is_no_item_beyond_its_end() -> None:
    packed = PackedList[int]()
    packed.append(3)
    for number in (1, -2):
        with pytest.raises(IndexError):
            packed[number]


def test_it_takes_a_fraction_of_the_memory() -> None:
    packed, item = PackedList[object](), {"seen": np.zeros(1000), "names": ["one"] * 100}
    for _ in range(PLAIN + 2):
        packed.append(item)
    assert len(packed._older) == 2 and sum(map(sys.getsizeof, packed._older)) < 0.1 * 2 * 8000
    assert (packed[0]["seen"] == item["seen"]).all()  # type: ignore[index]
