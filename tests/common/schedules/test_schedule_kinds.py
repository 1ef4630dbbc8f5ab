"""Schedules that follow formulas and jump, and what their JSON form says (training.md §9)."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sb3_pvp.common.schedules import (
    BooleanArray,
    Constant,
    Expression,
    Function,
    Jump,
    Linear,
    Log,
    Schedule,
    parse_schedule,
)

NUMBERS = st.floats(-1e6, 1e6) | st.integers(-1000, 1000)
POSITIVE = st.floats(1e-6, 1e6)
TIMES = st.integers(0, 10_000)
STEPS = st.integers(1, 5000)
PLAIN = st.none() | st.booleans() | NUMBERS | st.text(max_size=5) | st.lists(NUMBERS, max_size=3)

LINEAR = st.builds(Linear, NUMBERS, NUMBERS, STEPS, st.booleans(), st.none() | st.integers(0, 4))
LOG = st.builds(Log, POSITIVE, POSITIVE, STEPS, st.sampled_from([2, 10, 2.5]))
ARRAY = st.integers(1, 8).flatmap(
    lambda size: st.builds(
        BooleanArray, st.just(size), *[st.lists(st.integers(0, size - 1), max_size=4)] * 2, st.booleans()
    )
)
SIMPLE = st.builds(Constant, PLAIN) | LINEAR | LOG | ARRAY
EXPRESSION = st.builds(
    Expression, st.just("(x + 1) * t - y"), st.fixed_dictionaries({"x": LINEAR}), st.fixed_dictionaries({"y": NUMBERS})
)
ANY = st.recursive(
    SIMPLE | EXPRESSION,
    lambda inner: st.dictionaries(st.integers(1, 500), inner, max_size=3).flatmap(
        lambda later: inner.map(lambda first: Jump({0: first, **later}))
    ),
    max_leaves=4,
)


def linear(first: float, last: float, steps: float, **keys: Any) -> dict[str, Any]:
    return {"type": "linear", "initial-value": first, "final-value": last, "change-over-time-steps": steps, **keys}


def same(left: Any, right: Any) -> bool:
    return bool(np.all(left == right)) and type(left) is type(right)


@given(ANY, TIMES)
def test_pickle_makes_an_equal_schedule(schedule: Schedule, t: int) -> None:
    for copy in (pickle.loads(pickle.dumps(schedule)), parse_schedule(schedule)):
        assert copy == schedule
        assert same(copy(t), schedule(t))


@given(NUMBERS, NUMBERS, STEPS)
def test_linear_starts_and_ends_exactly_where_it_says(first: float, last: float, steps: int) -> None:
    schedule = parse_schedule(linear(first, last, steps))
    assert schedule(0) == first
    assert schedule(steps) == schedule(3 * steps) == last
    assert schedule(steps / 2) == pytest.approx((first + last) / 2, abs=1e-6)


@given(POSITIVE, POSITIVE, STEPS, st.floats(0.1, 100))
def test_log_is_linear_in_the_logarithm_whatever_its_base(first: float, last: float, steps: int, base: float) -> None:
    schedule = parse_schedule({**linear(first, last, steps, base=base), "type": "log"})
    assert schedule(0) == pytest.approx(first)
    assert schedule(steps) == schedule(steps + 7) == last
    assert schedule(steps / 2) == pytest.approx(math.sqrt(first * last))


@given(LINEAR | LOG, st.lists(TIMES, min_size=2, max_size=20))
def test_linear_and_log_only_ever_go_one_way(schedule: Linear | Log, times: list[int]) -> None:
    values = np.array([schedule(t) for t in sorted(times)], float)
    direction = np.sign(schedule.final_value - schedule.initial_value)
    slack = 1e-9 * max(abs(schedule.initial_value), abs(schedule.final_value))
    assert (direction * np.diff(values) >= -slack).all()


def test_rounding_is_pythons() -> None:
    shares = [parse_schedule(linear(0.8, 0.2, 200, **{"round-value": True, "round-digits": 1}))(t) for t in (0, 20, 60)]
    assert shares == [0.8, 0.7, 0.6]
    whole = parse_schedule(linear(1, 6, 10, **{"round-value": True}))
    assert [whole(t) for t in (0, 3, 5, 10)] == [1, 2, 4, 6]  # 3.5 rounds to the even neighbour
    assert all(type(whole(t)) is int for t in range(11))
    assert parse_schedule(linear(0, 1, 3, **{"round-digits": 1}))(1) == pytest.approx(1 / 3)


def test_jumps_hand_over_at_their_thresholds_and_keep_the_absolute_time() -> None:
    schedule = parse_schedule({"type": "jump", "jumps": {"0": 5, "100": linear(0, 1, 200), "300": None}})
    assert [schedule(t) for t in (0, 99, 100, 299, 300, 9999)] == [5, 5, 0.5, 1, None, None]


def test_jumps_are_looked_through_in_the_listed_order() -> None:
    schedule = parse_schedule({"type": "jump", "jumps": {0: "a", 100: "b", 50: "c"}})
    assert [schedule(t) for t in (0, 60, 100)] == ["a", "a", "c"]
    assert schedule != parse_schedule({"type": "jump", "jumps": {0: "a", 50: "c", 100: "b"}})


def test_variables_do_not_reach_the_schedules_of_a_jump() -> None:
    late = {"type": "expression", "expression": "x", "defaults": {"x": 1}}
    assert parse_schedule({"type": "jump", "jumps": {"0": late}})(0, x=2) == 1


def test_there_is_nothing_below_the_first_jump() -> None:
    with pytest.raises(ValueError, match="starts at 5 has no value at t = 4"):
        Jump({5: 1})(4)


@given(st.integers(0, 9), st.sets(st.integers(0, 8)), st.sets(st.integers(0, 8)), st.booleans(), TIMES)
def test_boolean_arrays(size: int, true: set[int], false: set[int], default: bool, t: int) -> None:
    keys = {"true-indices": [i for i in true if i < size], "false-indices": [i for i in false if i < size]}
    array = parse_schedule({"type": "npboolarray", "size": size, "default-value": default, **keys})(t)
    assert array.dtype == bool
    assert array.tolist() == [i not in false and (i in true or default) for i in range(size)]


def test_an_array_or_list_that_was_handed_out_can_be_changed() -> None:
    for schedule in (parse_schedule({"type": "npboolarray", "size": 2}), parse_schedule([True, True])):
        schedule(0)[0] = False
        assert list(schedule(1)) == [True, True]


@given(PLAIN)
def test_everything_that_is_no_object_is_a_constant(value: Any) -> None:
    assert parse_schedule(value) == Constant(value)
    assert parse_schedule(value)(123, anything=1) == value
    assert parse_schedule({"type": "constant", "value": {"a-b": [value]}})(0) == {"a_b": [value]}


def test_functions_are_schedules() -> None:
    schedule = parse_schedule(math.sqrt)
    assert schedule == Function(math.sqrt)
    assert schedule(49, ignored=1) == 7


def test_dashes_are_underscores_in_every_key() -> None:
    inner = {"type": "linear", "initial_value": 1, "final-value": 2, "change-over_time-steps": 4}
    outer = {"type": "expression", "expression": "a_b + c_d", "substitutions": {"a-b": inner}, "defaults": {"c-d": 1}}
    assert parse_schedule({"type": "jump", "jumps": {"0": outer}})(2) == 2.5


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"initial-value": 1}, "needs the key 'type'"),
        ({"type": "liner"}, "schedule type 'liner' .did you mean 'linear'"),
        ({"type": ["linear"]}, "schedule type"),
        ({"type": "constant"}, "needs the key 'value'"),
        (linear(1, 2, 3, **{"inital-value": 1}), "'inital_value' .did you mean 'initial_value'"),
        ({"type": "linear", "initial-value": 1, "final-value": 2}, "change_over_time_steps"),
        (linear(1, 2, 0), "change_over_time_steps of a linear schedule must be a positive number"),
        (linear("1", 2, 3), "initial_value of a linear schedule must be a finite number, got '1'"),  # type: ignore[arg-type]
        (linear(1, math.nan, 3), "final_value"),
        (linear(1, True, 3), "final_value"),
        (linear(1, 2, 3, **{"round-value": 1}), "round_value"),
        (linear(1, 2, 3, **{"round-digits": 0.5}), "round_digits"),
        ({**linear(0, 2, 3), "type": "log"}, "initial_value of a log schedule must be a positive number"),
        ({**linear(1, -2, 3), "type": "log"}, "final_value of a log schedule must be a positive number"),
        ({**linear(1, 2, 3, base=0), "type": "log"}, "base"),
        ({"type": "jump", "jumps": {}}, "at least one entry"),
        ({"type": "jump", "jumps": [1]}, "jumps of a jump schedule must be an object"),
        ({"type": "jump", "jumps": {"soon": 1}}, "every threshold of a jump schedule must be an integer, got 'soon'"),
        ({"type": "jump", "jumps": {True: 1}}, "every threshold"),
        ({"type": "jump", "jumps": {"1": 1}}, "starts at 1 has no value at t = 0"),
        ({"type": "jump", "jumps": {"0": 1, "9": {"type": "moon"}}}, "'moon'"),
        ({"type": "jump", "jumps": {"0": 1, "9": {"type": "expression", "expression": "x"}}}, "unknown name 'x'"),
        ({"type": "npboolarray", "size": -1}, "size"),
        (
            {"type": "npboolarray", "size": 3, "true-indices": [3]},
            "true_indices of an npboolarray .* below its size",
        ),
        ({"type": "npboolarray", "size": 3, "false-indices": "all"}, "false_indices"),
        ({"type": "npboolarray", "default-value": "yes"}, "default_value"),
        pytest.param(object(), "JSON value or a function", id="object"),
        (np.zeros(3), "JSON value or a function"),
    ],
    ids=str,
)
def test_what_is_refused(value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        parse_schedule(value)
    assert "\n" not in str(error.value)
