from __future__ import annotations

import json
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.garbling import garbled, misshapen

JSON = st.recursive(
    st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=2), children, max_size=3),
    max_leaves=10,
)


def strings(value: Any) -> list[str]:
    """All strings that are values."""
    if isinstance(value, dict):
        return [text for child in value.values() for text in strings(child)]
    if isinstance(value, list):
        return [text for child in value for text in strings(child)]
    return [value] if isinstance(value, str) else []


@given(JSON, st.integers(0, 1000))
def test_a_misshapen_value_is_another_one_and_has_no_text_that_could_pass_for_a_name(value: Any, seed: int) -> None:
    before = json.dumps(value)
    wrong = misshapen(value, np.random.default_rng(seed))
    assert json.dumps(wrong) != before
    assert json.dumps(value) == before
    assert set(strings(wrong)) <= {*strings(value), "?"}


@pytest.mark.parametrize("line", [b'{"body":{"obs":[1,0.5],"meta":{"id":"17"}}}\n', b"\n", b"no json\r\n"])
def test_a_garbled_line_is_another_line(line: bytes) -> None:
    seen = {garbled(line, np.random.default_rng(seed)) for seed in range(300)}
    assert len(seen) > 30
    for other in seen:
        assert other.endswith(b"\n") and other.count(b"\n") == 1


def test_lines_are_garbled_in_every_way() -> None:
    line = b'{"action":"step","body":{"action":[0,1,2]},"meta":{"id":"17"}}\n'
    kinds = set()
    for seed in range(300):
        other = garbled(line, np.random.default_rng(seed))
        assert other != line
        try:
            kinds.add(type(orjson.loads(other)).__name__)
        except orjson.JSONDecodeError:
            kinds.add("NaN" if b"NaN" in other else "noise")
    assert kinds >= {"dict", "list", "NaN", "noise"}


def test_an_error_is_never_garbled_into_a_yes() -> None:
    line = b'{"error":true,"message":"java.lang.IllegalArgumentException: No player found"}\n'
    seen = {garbled(line, np.random.default_rng(seed)) for seed in range(500)}
    assert len(seen) > 30 and b"{}\n" not in seen
