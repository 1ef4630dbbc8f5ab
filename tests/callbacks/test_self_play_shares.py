"""How rows are shared out among the kinds of opponents."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sb3_pvp.callbacks.self_play import KINDS, Shares


@given(st.integers(1, 200), st.lists(st.sampled_from([0.0, 0.1, 0.125, 0.25, 0.3, 1 / 3]), min_size=4, max_size=4))
def test_rows_are_divided_by_rounded_shares(num_envs: int, numbers: list[float]) -> None:
    shares = dict(zip(KINDS, numbers, strict=False))
    plan = Shares(shares) if sum(numbers) <= 1 else None
    expected = [round(num_envs * number) for number in numbers]
    if plan is None:
        with pytest.raises(ValueError, match="must not sum to more than 1"):
            Shares(shares)
    elif expected[0] % 2 or sum(expected) > num_envs:
        with pytest.raises(ValueError, match="an even number of rows|which is too many"):
            plan.divide(num_envs, 0)
    else:
        rows = plan.divide(num_envs, 0)
        assert [rows.count(kind) for kind in KINDS] == [*expected, num_envs - sum(expected)]
        assert rows == sorted(rows, key=KINDS.index)


def test_shares_are_schedules() -> None:
    plan = Shares(
        {
            "self": 0,
            "past": {"type": "linear", "initial_value": 0, "final_value": 1, "change_over_time_steps": 10},
            "target": 0,
            "latest": 0,
        }
    )
    assert plan.divide(10, 0).count("past") == 0
    assert plan.divide(10, 5).count("past") == 5
    assert plan.divide(10, 10).count("past") == 10


@given(st.integers(1, 70), st.lists(st.floats(0, 0.25), min_size=8, max_size=8), st.integers(0, 40))
def test_shares_that_change_never_end_a_training(num_envs: int, shares: list[float], t: int) -> None:
    def changing(first: float, last: float) -> dict[str, Any]:
        return {"type": "linear", "initial_value": first, "final_value": last, "change_over_time_steps": 40}

    plan = Shares(
        {
            kind: changing(*ends)
            for kind, ends in zip(KINDS[:-1], zip(shares[::2], shares[1::2], strict=True), strict=True)
        }
    )
    rows = plan.divide(num_envs, t)
    assert len(rows) == num_envs and rows.count("self") % 2 == 0 and rows == sorted(rows, key=KINDS.index)
    for kind, share in plan.at(t).items():
        assert abs(rows.count(kind) - num_envs * share) <= (1.5 if kind == "self" else 2.5)
