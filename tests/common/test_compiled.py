"""`compiled` counts no references, which is why short rules are fast, and refuses what would need that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from sb3_pvp.common.compiled import compiled, compiled_with_arrays

Floats = NDArray[np.float64]


@compiled
def add(total: Floats, row: Floats) -> None:
    for place in range(len(row)):
        total[place] += row[place]


@compiled
def add_all(total: Floats, rows: Floats) -> None:
    for row in range(len(rows)):
        add(total, rows[row])


@compiled_with_arrays
def sum_of(rows: Floats) -> Floats:
    total = np.zeros(rows.shape[1])
    add_all(total, rows)
    return total


def machine_code(function: Any, *arguments: Floats) -> str:
    """Returns the machine code for a call, compiled anew: that of functions on the disk cannot be read."""
    options = {name: option for name, option in function.targetoptions.items() if name != "nopython"}
    anew: Any = njit(**options)(function.py_func)
    anew(*arguments)
    return "".join(anew.inspect_asm().values())


def test_no_reference_is_counted() -> None:
    rows, total = np.arange(6.0).reshape(3, 2), np.zeros(2)
    assert "NRT_incref" in machine_code(sum_of, rows)
    assert "NRT_" not in machine_code(add_all, total, rows)
    assert (total == sum_of(rows)).all()
    assert (total == rows.sum(axis=0)).all()


def test_what_makes_arrays_is_refused() -> None:
    @compiled
    def zeros(count: int) -> Floats:
        return np.zeros(count)

    @compiled
    def tail(row: Floats) -> Floats:
        return row[1:]

    for function, argument in ((zeros, 3), (tail, np.ones(3))):
        with pytest.raises(NumbaError):
            function(argument)
