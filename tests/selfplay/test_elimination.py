from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sb3_pvp.selfplay.elimination import Elimination


@given(st.integers(0, 12), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_solution_and_inverse_are_those_of_the_whole_matrix(size: int, density: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    entries = np.triu(rng.random((size, size)) * (rng.random((size, size)) < density), 1)
    matrix = -(entries + entries.T)
    np.fill_diagonal(matrix, 0.1 - matrix.sum(1))
    right = rng.normal(size=size)
    elimination = Elimination(matrix)
    assert elimination.solve(right) == pytest.approx(np.linalg.solve(matrix, right), rel=1e-9, abs=1e-9)
    assert elimination.inverse() == pytest.approx(np.linalg.inv(matrix), rel=1e-9, abs=1e-9)


def test_those_who_never_met_are_solved_by_division(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten players who have met one other only: a system with a single unknown is left."""
    matrix = np.diag([2.0] * 10 + [20.0])
    matrix[:10, 10] = matrix[10, :10] = -1
    sizes, solve = [], np.linalg.solve
    monkeypatch.setattr(np.linalg, "solve", lambda a, b: sizes.append(len(a)) or solve(a, b))
    Elimination(matrix).solve(np.ones(11))
    assert sizes == [1]
