"""The language of expression schedules: what it computes, and what does not get in (training.md §9)."""

from __future__ import annotations

import math
import pickle
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from stable_baselines3.common.utils import set_random_seed

from sb3_pvp.common.schedules import Expression, parse_schedule

NUMBERS = st.integers(-50, 50) | st.floats(-50, 50)
COMPARISONS = ["==", "!=", "<", "<=", ">", ">="]
CALLABLE = {"min": min, "max": max, "round": round, "abs": abs, "sin": math.sin, "cos": math.cos}


def value(text: str, t: float = 0, **variables: Any) -> Any:
    return Expression(text)(t, **variables)


def formulas() -> st.SearchStrategy[str]:
    """Formulas of t, x and y that are defined everywhere."""
    leaves = st.sampled_from(["t", "x", "y", "True"]) | NUMBERS.map(lambda number: f"({number!r})")

    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda parts: f"({' '.join(parts)})"),
            st.tuples(inner, st.sampled_from(COMPARISONS), inner).map(lambda parts: f"({' '.join(parts)})"),
            st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} < {parts[1]} <= {parts[2]})"),
            st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} if {parts[1]} else {parts[2]})"),
            inner.map(lambda part: f"(-{part})"),
            inner.map(lambda part: f"(1 / (1 + {part} ** 2))"),
            inner.map(lambda part: f"abs({part})"),
            inner.map(lambda part: f"sin({part})"),
            st.tuples(inner, inner).map(lambda parts: f"min({', '.join(parts)}, 3)"),
            st.tuples(inner, inner).map(lambda parts: f"max({', '.join(parts)})"),
        )

    return st.recursive(leaves, grown, max_leaves=5)


@given(formulas(), st.integers(0, 100), NUMBERS, NUMBERS)
def test_formulas_mean_what_they_mean_in_python(text: str, t: int, x: float, y: float) -> None:
    # Python itself is the reference here; the formulas are our own.
    expected = eval(text, {"__builtins__": {}}, {**CALLABLE, "t": t, "x": x, "y": y})
    assert value(text, t, x=x, y=y) == expected


@given(
    formulas(),
    st.integers(0, 100),
    arrays.arrays(np.float64, 5, elements=st.floats(-50, 50)),
    arrays.arrays(np.int64, 5, elements=st.integers(-50, 50)),
)
def test_arrays_are_evaluated_element_by_element(text: str, t: int, x: np.ndarray, y: np.ndarray) -> None:
    together = np.broadcast_to(value(text, t, x=x, y=y), 5)
    one_by_one = [value(text, t, x=float(a), y=int(b)) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(np.asarray(together, float), np.asarray(one_by_one, float), rtol=1e-12, atol=1e-12)


def test_the_acceptance_numbers() -> None:
    """training.md §15: the schedule check."""
    schedule = parse_schedule(
        {
            "type": "expression",
            "expression": "t + var > 50 + y",
            "substitutions": {"var": {"type": "expression", "expression": "t"}},
            "defaults": {"y": 0},
        }
    )
    assert [schedule(25), schedule(26), schedule(26, y=5), schedule(100, y=5)] == [False, True, False, True]


def test_self_play_shares_sum_to_one() -> None:
    keys = {"initial-value": 0.8, "final-value": 0.2, "change-over-time-steps": 200, "round-value": True}
    own = {"type": "linear", "round-digits": 1, **keys}
    past = {"type": "expression", "expression": "1 - (self_play_percent)", "substitutions": {"self-play-percent": own}}
    for t in range(0, 300, 7):
        assert parse_schedule(own)(t) + parse_schedule(past)(t) == 1


def test_names_are_looked_up_in_order() -> None:
    schedule = Expression("1000 * t + 100 * x + 10 * y + z", {"x": 2}, {"t": 9, "x": 9, "y": 9, "z": 4})
    assert schedule(1, x=9, y=3) == 1234


def test_functions() -> None:
    assert value("log(8) / log(2)") == pytest.approx(3)
    assert [value("log10(1000)"), value("log2(8)"), value("cos(0)")] == [3, 3, 1]
    assert [value("round(2.5)"), value("round(0.123, 2)"), value("round(1234, -2)")] == [2, 0.12, 1200]
    assert value("phase == 'on_rollout_end'", phase="on_rollout_end") is True
    assert type(value("2 ** 10")) is int


def test_elements_where_a_formula_is_undefined_do_not_matter_if_they_are_not_chosen() -> None:
    x = np.array([0.0, 1.0, 4.0])
    assert value("1 / x if x > 0 else 0", x=x).tolist() == [0, 1, 0.25]
    assert value("log(x) if 0 < x else -1", x=x).tolist() == [-1, 0, math.log(4)]


def test_narrow_arrays_do_not_overflow_and_flags_count_as_one() -> None:
    damage, hit = np.array([0, 100, 255], np.uint8), np.array([True, False, True])
    assert value("damage * 300 - 1", damage=damage).tolist() == [-1, 29999, 76499]
    assert value("hit + hit", hit=hit).tolist() == [2, 0, 2]
    assert value("-hit", hit=hit).tolist() == [-1, 0, -1]


def test_chance_is_drawn_anew_and_repeats_with_the_seed_of_sb3() -> None:
    schedule = parse_schedule({"type": "expression", "expression": "(random() * 0.2) if random() < 0.50 else 0.0"})
    set_random_seed(3)
    first = [schedule(0) for _ in range(200)]
    set_random_seed(3)
    assert [schedule(0) for _ in range(200)] == first
    assert len(set(first)) > 50
    assert 60 < first.count(0.0) < 140
    assert 0 <= min(first) <= max(first) < 0.2


def test_each_element_draws_its_own_numbers() -> None:
    x = np.zeros(1000)
    uniform, gaussian = value("random()", x=x), value("normal(x + 5, 2)", x=x)
    assert uniform.shape == gaussian.shape == (1000,)
    assert len(np.unique(uniform)) == 1000
    assert gaussian.mean() == pytest.approx(5, abs=0.4)
    assert gaussian.std() == pytest.approx(2, abs=0.3)
    assert isinstance(value("normal(0, 1)"), float)


def test_a_substitution_is_drawn_once_per_call() -> None:
    noise = {"type": "expression", "expression": "random()"}
    assert Expression("x - x", {"x": noise})(0) == 0
    assert Expression("x - y", {"x": noise, "y": noise})(0) != 0


def test_sample_variables_take_part_in_the_check_only() -> None:
    config = {"type": "expression", "expression": "1 / scale"}
    with pytest.raises(ValueError, match="unknown name 'scale'.*'defaults'"):
        parse_schedule(config)
    schedule = parse_schedule(config, variables={"scale": 1.0})
    assert schedule(7, scale=4) == 0.25
    with pytest.raises(ValueError, match="unknown name 'scale'"):
        schedule(7)
    with pytest.raises(ValueError, match="division by zero"):
        parse_schedule(config, variables={"scale": 0})


def test_at_most_100_parts_are_evaluated() -> None:
    fits, too_long = "+".join("t" * 50), "+".join("t" * 51)  # 99 and 101 nodes
    assert value(fits, 2) == 100
    with pytest.raises(ValueError, match="more than 100"):
        value(too_long, 2)
    assert value(f"1 if t else {too_long}", 2) == 1, "what is not evaluated does not count"


def test_expressions_are_compared_and_pickled_with_all_their_parts() -> None:
    schedule = Expression("x + y", {"x": 1}, {"y": 2})
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert schedule != Expression("x + y", {"x": 1}, {"y": 3})
    assert schedule != Expression("x + y", {"x": 2}, {"y": 2})


REFUSED = """
t.real; ().__class__; t[0]; lambda: 1; lambda t: t; [x for x in t]; {x for x in t}; {x: 1 for x in t}; (x for x in t)
(t := 1); f"{t}"; None; ...; b"x"; 1j; (1, 2); [1]; {1}; {1: 2}; +t; ~t; not t; t and 1; t or 1; t % 2; t // 2; t @ t
t << 2; t & 1; t in t; t is t; t not in t; __import__("os"); open("x"); eval("1"); exec("1"); print(t); t(); sin(t)(t)
min; random; min(*t); round(t, ndigits=1); random(size=10); min(t); sin(); sin(t, t); random(1); normal(0); await t
yield t; t = 1; t if t; import os; pass; 1 2; (
"""


@pytest.mark.parametrize(
    "text", [*(part for line in REFUSED.strip().splitlines() for part in line.split("; ")), "", "t; t", "t\nt"]
)
def test_nothing_else_of_python_gets_in(text: str) -> None:
    with pytest.raises(ValueError, match="^expression ") as error:
        parse_schedule({"type": "expression", "expression": text})
    assert "\n" not in str(error.value)


def test_branches_that_are_not_taken_are_checked_too() -> None:
    with pytest.raises(ValueError, match="Attribute"):
        parse_schedule({"type": "expression", "expression": "1 if t == 0 else t.real"})


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9**9",
        "9**9**9**9**9",
        "(10**100)**(10**100)",
        "-9**999999999",
        "0**-1",
        "(-8)**0.5",
        "1e300**2",
        "round(5, -999999999)",
        "round(5, 999999999)",
        "'a' * 10**9",
        "'a' + 'b'",
        "-'a'",
        "abs('a')",
        "min('a', 'b')",
        "'a' < 1",
        "1 / t",
        "log(0)",
        "log(-1)",
        "sin(1e308 * 10)",
        "normal(0, -1)",
        "-" * 9999 + "1",
        "(" * 4000 + "1" + ")" * 4000,
        "1+" * 4999 + "1",
        "9" * 9999,
        " " * 99999 + "1",
        "1" + "**9" * 3000,
    ],
    ids=lambda text: text[:20],
)
def test_what_is_undefined_or_endless_ends_in_an_error_at_once(text: str) -> None:
    start = time.process_time()
    with pytest.raises(ValueError, match="^expression ") as error:
        parse_schedule({"type": "expression", "expression": text})
    assert time.process_time() - start < 5, "hangs"
    assert len(str(error.value)) < 500


@given(st.text(max_size=30))
def test_any_text_is_a_value_or_a_clear_error(text: str) -> None:
    try:
        parse_schedule({"type": "expression", "expression": text})
    except ValueError as error:
        assert str(error).startswith("expression ")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({}, "needs the key 'expression'"),
        ({"expression": 3}, "must be a string, got 3"),
        ({"expression": "1", "defaults": [1]}, "defaults of an expression schedule must be an object"),
        ({"expression": "1", "substitutions": "x"}, "substitutions of an expression schedule must be an object"),
        ({"expression": "1", "substitutions": {"x": {"type": "expression", "expression": "y"}}}, "unknown name 'y'"),
        ({"expression": "selfplay", "defaults": {"self-play": 1}}, "did you mean 'self_play'"),
    ],
)
def test_wrong_keys(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_schedule({"type": "expression", **keys})
