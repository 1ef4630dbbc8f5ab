"""Observations: frames, the hidden part, masks."""

from __future__ import annotations

import numpy as np
import pytest

from sb3_pvp.envs import NhEnv
from sb3_pvp.players.seats import SeatObservations, Seats, observation_space
from tests.envs.fake_world import FakeWorld

FIGHTS = np.arange(2)


def played(frame_ages: tuple[int, ...], ticks: int, seat: int = 0) -> tuple[FakeWorld, SeatObservations]:
    """Two fights after ``ticks`` ticks without any action."""
    world = FakeWorld(2)
    world.reset()
    seats = Seats(world.num_fights, seat)
    seen = SeatObservations(world, seats, frame_ages)
    seen.begin(FIGHTS, [0, 1])
    for _ in range(ticks):
        world.step(np.zeros((2, 2, world.contract.num_heads), np.int64))
        seen.advance(FIGHTS)
    return world, seen


def ticks_shown(world: FakeWorld, seen: SeatObservations) -> list[list[float]]:
    column = world.contract.observation_index("special_energy_percent")
    return seen.stacked()["observation"][:, :, column].tolist()


def test_one_frame_is_the_world_s_newest() -> None:
    world, seen = played((0,), 4)
    assert np.array_equal(seen.stacked()["observation"][:, 0], world.obs[:, 0])


@pytest.mark.parametrize(
    ("ages", "expected"), [((0, 1, 2), [5.0, 4.0, 3.0]), ((0, 3), [5.0, 2.0]), ((1, 4), [4.0, 1.0])]
)
def test_frames_are_stacked_newest_first(ages: tuple[int, ...], expected: list[float]) -> None:
    assert ticks_shown(*played(ages, 5)) == [expected, expected]


def test_frames_before_the_start_are_zero_and_a_reset_forgets() -> None:
    world, seen = played((0, 1, 2), 5)
    world.reset([1])
    seen.begin(np.array([1]), [None])
    world.step(np.zeros((2, 2, world.contract.num_heads), np.int64))
    seen.advance(FIGHTS)
    assert ticks_shown(world, seen) == [[6.0, 5.0, 4.0], [1.0, 0.0, 0.0]]
    assert not seen.stacked()["observation"][1, 2].any()


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("ages", [(0,), (0, 1)])
def test_privileged_is_what_only_the_other_seat_knows(seat: int, ages: tuple[int, ...]) -> None:
    world, seen = played(ages, 3, seat)
    privileged = seen.stacked()["privileged"]
    assert np.array_equal(privileged[:, 0], world.obs[:, 1 - seat][:, world.contract.partial_indices])
    hidden = world.contract.partial_indices.tolist().index(world.contract.observation_index("food_count"))
    assert privileged[0, :, hidden].tolist() == [300.0 + 1 - seat, 200.0 + 1 - seat][: len(ages)]


@pytest.mark.parametrize("ages", [(0,), (0, 1)])
def test_observations_are_new_arrays_inside_their_space(ages: tuple[int, ...]) -> None:
    world, seen = played(ages, 2)
    space = observation_space(world.contract, len(ages))
    stacked = seen.stacked(np.array([1]))
    assert space.contains({key: value[0] for key, value in stacked.items()})
    copies = {key: value.copy() for key, value in stacked.items()}
    world.obs += 1
    world.masks[:] = False
    assert all(np.array_equal(stacked[key], copies[key]) for key in stacked)


def test_frame_ages_are_sorted_in_the_environment() -> None:
    env = NhEnv(world=FakeWorld, frame_ages=[2, 0])
    assert env.observation_space["observation"].shape == (2, 176)
    assert env.observation_space["privileged"].shape == (2, 93)


@pytest.mark.parametrize(("number", "ages"), [(1, (0,)), (3, (0, 1, 2)), (np.int64(2), (0, 1))])
def test_a_number_of_frames_stands_for_the_newest_ones(number: int, ages: tuple[int, ...]) -> None:
    env = NhEnv(world=FakeWorld, frame_ages=number)
    assert env.settings.frame_ages == ages
    assert env.observation_space["observation"].shape == (len(ages), 176)


@pytest.mark.parametrize("ages", [(), (0, 0), (-1,), (256,), (0.5,), (True,), "01", 0, -2, 10**12, True, 1.0, None])
def test_bad_frame_ages_are_refused(ages: object) -> None:
    with pytest.raises(ValueError, match="frame_ages must be distinct non-negative integers"):
        NhEnv(world=FakeWorld, frame_ages=ages)
