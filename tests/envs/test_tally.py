"""The compiled sums of a tick against NumPy, and what belongs to a seat against an index."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.envs.tally import add_tick
from sb3_pvp.game import Outcome
from sb3_pvp.game.arrays import OutcomeRewards
from sb3_pvp.players.seats import Seats
from tests.game.team_game import CoinsForTwo


@given(st.integers(2, 40), st.integers(1, 45), st.sampled_from([1, 5, sys.maxsize]), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_a_tick_adds_up_as_in_numpy(fights: int, terms: int, max_ticks: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    components = rng.standard_normal((terms, fights)).astype(np.float32)
    outcome = rng.integers(0, len(Outcome), fights).astype(np.uint8)
    returns, totals = rng.standard_normal(fights), rng.standard_normal((terms, fights)).astype(np.float32)
    length, reward, flags = rng.integers(0, 8, fights), np.ones(fights, np.float32), np.ones((2, fights), bool)

    summed = components.sum(axis=0)
    broken = outcome >= Outcome.TARGET_LOST
    decided = (outcome != Outcome.RUNNING) & ~broken
    over = broken | (~decided & (length + 1 >= max_ticks))
    expected = summed, returns + summed, totals + components, length + 1, decided, over

    written = reward, returns, totals, length, *flags
    add_tick(components, outcome, max_ticks, written)
    for own, theirs in zip(written, expected, strict=True):
        assert np.array_equal(own, theirs)


def test_one_fight_alone_adds_up_as_in_a_batch() -> None:
    """NumPy sums a single column in another order than several, so a lone fight's reward could differ in a bit."""
    components = np.random.default_rng(0).standard_normal((39, 200)).astype(np.float32)
    rewards = []
    for part in (components, *(components[:, [fight]] for fight in range(200))):
        reward, flags = np.zeros(part.shape[1], np.float32), np.zeros((2, part.shape[1]), bool)
        written = reward, np.zeros(len(reward)), np.zeros_like(part), np.zeros(len(reward), np.int64), *flags
        add_tick(np.ascontiguousarray(part), np.zeros(len(reward), np.uint8), sys.maxsize, written)
        rewards.append(reward)
    assert np.array_equal(rewards[0], np.concatenate(rewards[1:]))


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("pairs", [(), (0,), (0, 1, 2)])
def test_what_belongs_to_seats_is_new_and_the_same_as_by_an_index(seat: int, pairs: tuple[int, ...]) -> None:
    array, seats, columns = np.arange(6 * 2 * 5).reshape(6, 2, 5), Seats(6, seat), np.array([4, 0, 3])
    paired = np.zeros(6, bool)
    for pair in pairs:
        paired[2 * pair : 2 * pair + 2] = True
    seats.pair(paired)
    assert seats.seat.tolist() == [row & 1 if paired[row] else seat for row in range(6)]
    for rows in (slice(None), slice(1, 3), np.array([5, 2])):
        fight, own = seats.fight[rows], seats.seat[rows]
        for made, expected in (
            (seats.own(array, rows), array[fight, own]),
            (seats.others(array, rows, columns), array[fight, 1 - own][:, columns]),
        ):
            assert np.array_equal(made, expected) and not np.shares_memory(made, array)


def test_rewards_with_more_rows_than_terms_are_refused() -> None:
    """The compiled sums would write them behind the end of an array."""

    class Doubled(OutcomeRewards):
        def compute(self, *given: Any) -> Any:
            return np.repeat(super().compute(*given), 2, axis=0)

    class Wrong(CoinsForTwo):
        rewards = Doubled()

    env = PvpVecEnv(2, game=Wrong())
    env.reset()
    with pytest.raises(ValueError, match=r"one row for each of its terms .*\(3, 2\), got \(6, 2\)"):
        env.step(np.zeros((2, 2), np.int64))
