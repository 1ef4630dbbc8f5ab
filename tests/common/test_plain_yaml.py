"""YAML that asks for more than it has."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from sb3_pvp.common.plain_yaml import parse_yaml, read_yaml

ALIASES = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
MERGES = "a0: &a0 {k: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40))
LONG = f"a: &a {'x' * 10_000}\nb: [{', '.join(['*a'] * 1_000)}]\n"


@pytest.mark.parametrize("text", [ALIASES, MERGES, LONG, "&a [*a]", "&a {k: *a}", "[" * 100 + "]" * 100])
def test_what_a_few_aliases_blow_up_is_refused_at_once(text: str) -> None:
    start = time.process_time()
    with pytest.raises(ValueError, match="endless, or too large or too deep"):
        parse_yaml(text)
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "text", ["a: [b", "!!int x", "!!bool x", "!!timestamp x", "? {a: 1}\n: 2", "!!python/name:os.system", "[" * 9999]
)
def test_whatever_is_wrong_is_one_line(text: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_yaml(text)
    assert str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [("3e-4", 3e-4), ("-1E6", -1e6), ("3.0e-4", 3e-4), ("0x1e3", 0x1E3), ("1e", "1e"), ("'1e3'", "1e3")],
)
def test_numbers_are_those_that_people_write(text: str, value: object) -> None:
    assert parse_yaml(text) == value and parse_yaml(f"[{text}, x]") == [value, "x"]


def test_only_files_of_some_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yml")  # whoever opens it would wait for ever
    (tmp_path / "large.yml").write_text("x" * 1_000_000)
    for path, message in (
        (tmp_path / "pipe.yml", "a pipe"),
        (tmp_path / "large.yml", "characters"),
        (tmp_path, "fold"),
    ):
        with pytest.raises(ValueError, match=message):
            read_yaml(path)
    with pytest.raises(FileNotFoundError):
        read_yaml(tmp_path / "missing.yml")


def test_what_configurations_have_is_read() -> None:
    text = "base: &base {gamma: 0.99, net: [64, 64]}\nown: {<<: *base, gamma: !!float 1}\nagain: *base\n"
    base = {"gamma": 0.99, "net": [64, 64]}
    assert parse_yaml(text) == {"base": base, "own": {**base, "gamma": 1.0}, "again": base}
    assert parse_yaml("") is None
