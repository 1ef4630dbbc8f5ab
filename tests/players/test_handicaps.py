"""Opponents that see late, or move at random."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sb3_pvp.players.handicaps import MOST_DELAY, Handicapped
from tests.arena.duel import CONTRACT


class _Echo:
    """Chooses what the first number of its observation says, and notes it."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def initial_state(self, seeds: Any) -> Any:
        return np.zeros((len(seeds), 0))

    def predict(self, observation: Any, state: Any, start: Any, deterministic: bool, action_masks: Any) -> Any:
        self.seen.append(float(observation[0, 0]))
        return np.array([[int(observation[0, 0]) % 2, 0]]), state


def _play(player: Handicapped, ticks: int, mask: Any) -> list[int]:
    state, chosen = player.initial_state([5]), []
    for tick in range(ticks):
        seen = np.full((1, 4), tick, np.float32)
        actions, state = player.predict(seen, state, np.array([tick == 0]), False, mask[np.newaxis])
        chosen.append(int(actions[0, 0]))
    return chosen


@given(st.integers(0, MOST_DELAY), st.integers(1, 30))
def test_it_sees_each_observation_late_and_first_the_start(delay: int, ticks: int) -> None:
    echo = _Echo()
    _play(Handicapped(echo, CONTRACT, delay), ticks, np.ones(5, bool))
    assert echo.seen == [max(tick - delay, 0) for tick in range(ticks)]


def test_a_new_fight_begins_anew() -> None:
    echo = _Echo()
    player = Handicapped(echo, CONTRACT, 3)
    _play(player, 9, np.ones(5, bool))
    echo.seen.clear()
    _play(player, 2, np.ones(5, bool))
    assert echo.seen == [0, 0]


def test_random_moves_are_as_many_as_wished_and_allowed() -> None:
    mask = np.array([False, False, True, True, False])  # an echo never chooses "high"
    shares = [
        np.mean(np.array(_play(Handicapped(_Echo(), CONTRACT, 0, each), 2000, mask)) == 2) for each in (0, 0.3, 1)
    ]
    assert shares[0] == 0 and shares[2] == 1 and shares[1] == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize("wrong", [{"delay": -1}, {"delay": MOST_DELAY + 1}, {"randomness": 1.5}])
def test_wrong_numbers_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be from 0 to"):
        Handicapped(_Echo(), CONTRACT, **wrong)
