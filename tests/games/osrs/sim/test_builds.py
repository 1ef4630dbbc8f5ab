"""The build tables, and which build a pair of names gets."""

from __future__ import annotations

import pytest

from sb3_pvp.games.osrs.sim import builds, items, state
from sb3_pvp.games.osrs.sim.parameters import choose_build

OPTIONS = ["PURE", "ZERKER", "MED"]


@pytest.mark.parametrize(
    ("agent", "target", "build"),
    [
        ("7", "5", "MED"),  # the smaller number
        ("100", "bot", "ZERKER"),
        ("fighter 8", "bot 4 b", "ZERKER"),  # no name is a number: words
        ("fighter 8", "3", "PURE"),  # a whole name goes before words
        ("ab", "c", "PURE"),  # hash of "abc": 96354
        ("lo", "hel", "ZERKER"),  # hash of "hello": 99162322
        ("", "polygenelubricants", "MED"),  # hash: -2**31
    ],
)
def test_the_names_choose_the_build(agent: str, target: str, build: str) -> None:
    assert choose_build(agent, target, OPTIONS) == build


def test_no_options_are_refused() -> None:
    with pytest.raises(ValueError, match="randomBuildOptions"):
        choose_build("1", "2", [])


def test_the_items_of_a_set_have_slots_of_their_own() -> None:
    for sets in builds.GEAR_SETS:
        for gear_set in sets:
            slots = items.SLOT[gear_set[gear_set != state.NO_ITEM]].tolist()
            assert len(set(slots)) == len(slots) >= 10
            assert state.WEAPON in slots


def test_fight_types() -> None:
    lms = [name for name, kind in zip(builds.BUILD_NAMES, builds.BUILD_FIGHT_TYPE, strict=True) if kind == state.LMS]
    assert lms == ["LMS_PURE", "LMS_ZERKER", "LMS_MED"]
