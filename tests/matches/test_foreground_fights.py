"""Fights for which a command waits: their processes do not give way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.matches.evaluation import evaluate_by_rows
from sb3_pvp.matches.rating import play_matches, rate
from sb3_pvp.players.league import League, Player

A, B = Player("scripted"), Player("noop")
pytestmark = pytest.mark.usefixtures("one_worker")


def tell_niceness(*arguments: Any, **keywords: Any) -> Any:
    raise ValueError(f"niceness {os.nice(0)}")


def test_evaluations() -> None:
    with pytest.raises(ValueError, match=f"^niceness {os.nice(0)}$"):
        evaluate_by_rows(tell_niceness, tell_niceness, 8, 4, 0, processes=2)


def test_matches_and_ratings(tmp_path: Path) -> None:
    settings = FightSettings(world=tell_niceness)
    league = League(tmp_path, anchors={B: 1500})
    with pytest.raises(ValueError, match=f"^niceness {os.nice(0)}$"):
        play_matches(league, {(A, B): 4}, 0, settings, jobs=2)
    with pytest.raises(ValueError, match=f"^niceness {os.nice(0)}$"):
        list(rate(league, [A, B], 50.0, settings, jobs=2))
