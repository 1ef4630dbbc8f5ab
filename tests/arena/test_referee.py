"""Whose time a decision is."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from sb3_pvp.arena.referee import ArenaReferee
from tests.arena.duel import CONTRACT, DuelWorld


def test_nobody_gets_strikes_for_the_time_of_another_player_in_the_same_call() -> None:
    referee = ArenaReferee([(0, 2), (1, 2)], [0, 1], 0.02, 3, 9.0, (), False, lambda number: None)
    referee.watch(DuelWorld(CONTRACT, 2, 0))
    rows = np.arange(2)
    referee.begin(rows, rows)
    calls = []

    def predict(opponents: list[str], frames: Any, states: Any, *_: Any) -> Any:
        calls.append(opponents)
        time.sleep(0.1 if "slow" in opponents else 0)
        return np.zeros((len(states), 2), np.int64), states

    members: Any = [("slow", rows[:1]), ("quick", rows[1:])]
    seen = [None, None], np.zeros((2, 0)), np.zeros(2, bool), np.zeros(2, bool), np.ones((2, 5), bool)
    for _ in range(4):
        referee.ask(0, predict, members, *seen)
    assert referee.ends(rows).tolist() == [True, False]
    assert calls == [["slow", "quick"], *3 * [["slow"], ["quick"]]]
