"""Recorded fights come out again, tick by tick; `golden` says how to record them anew."""

from __future__ import annotations

import json

import golden
import pytest


@pytest.mark.parametrize("name", golden.FIGHTS)
def test_the_fight_comes_out_as_recorded(name: str) -> None:
    recorded = json.loads((golden.FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    orders = [row[:2] for row in recorded["ticks"]]
    replayed = golden.replay(name, orders)
    for tick, (expected, got) in enumerate(zip(recorded["ticks"], replayed["ticks"], strict=True), start=1):
        assert got == expected, f"tick {tick} differs"
    assert replayed == recorded


def test_every_file_is_of_a_golden_fight() -> None:
    assert {path.stem for path in golden.FOLDER.glob("*.json")} == set(golden.FIGHTS)
