"""A fight is the same whatever else is played, and however the work is split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sb3_pvp.games.osrs.sim import SimWorld

FIGHTS, TICKS, SEED = 64, 60, 11
#: Makes a world: number of fights, seed, and more arguments of `SimWorld`.
Start = Callable[..., SimWorld]
#: Reset parameters by contract: as much chance as there can be.
PARAMS = {"NhEnv": {"randomizeGear": True, "randomizeBuild": True, "randomizeFightType": True}, "DharokEnv": {}}


def record(world: SimWorld, fights: Any = slice(None)) -> tuple[bytes, ...]:
    """Everything that a world shows and keeps of these fights."""
    arrays = (world.state, world.fights, world.obs, world.masks, world.meta, world.outcome)
    return tuple(array[fights].tobytes() for array in arrays)


@pytest.fixture(scope="module", params=PARAMS)
def started(request: pytest.FixtureRequest) -> Start:
    """Makes worlds of each game that have just been reset."""

    def start(num_fights: int = FIGHTS, seed: int = SEED, **options: Any) -> SimWorld:
        world = SimWorld(num_fights, seed, PARAMS[request.param], request.param, **options)
        world.reset()
        return world

    return start


@pytest.fixture(scope="module")
def script(started: Start) -> NDArray[np.int64]:
    """(TICKS, FIGHTS, 2, heads): random legal actions of a whole batch."""
    world = started()
    orders = []
    for _ in range(TICKS):
        orders.append(world.random_actions())
        world.step(orders[-1])
    return np.array(orders)


@pytest.fixture(scope="module")
def batch(started: Start, script: NDArray[np.int64]) -> SimWorld:
    """The world after the script."""
    world = started()
    for orders in script:
        world.step(orders)
    return world


def test_the_same_seed_gives_the_same_fights(started: Start, script: NDArray[np.int64], batch: SimWorld) -> None:
    again = started()
    for orders in script:
        assert (again.random_actions() == orders).all()
        again.step(orders)
    assert record(again) == record(batch)


def test_another_seed_gives_other_fights(started: Start, batch: SimWorld, script: NDArray[np.int64]) -> None:
    other = started(seed=SEED + 1000)
    for orders in script:
        other.step(orders)
    assert record(other) != record(batch)


@pytest.mark.parametrize("fight", [0, 1, 31, 63])
def test_a_fight_alone_is_the_fight_in_the_batch(
    started: Start, script: NDArray[np.int64], batch: SimWorld, fight: int
) -> None:
    alone = started(1, SEED + fight)
    for orders in script:
        assert (alone.random_actions() == orders[fight]).all()
        alone.step(orders[fight : fight + 1])
    assert record(alone, 0) == record(batch, fight)


def test_threads_change_nothing(started: Start, script: NDArray[np.int64], batch: SimWorld) -> None:
    threaded = started(num_threads=2)
    for orders in script:
        threaded.step(orders)
    threaded.close()
    assert record(threaded) == record(batch)


def test_stepping_in_parts_is_stepping_all(started: Start, script: NDArray[np.int64], batch: SimWorld) -> None:
    parts = started()
    odd = np.arange(FIGHTS) % 2 == 1
    for orders in script:
        parts.step(orders[odd], fights=odd)
        parts.step(orders[~odd], fights=np.flatnonzero(~odd))
    assert record(parts) == record(batch)


def test_a_step_of_some_leaves_the_others_alone(started: Start) -> None:
    world = started()
    before, others = record(world, slice(3, None)), world.state[:3].tobytes()
    world.step(world.random_actions()[[2, 0]], fights=[2, 0])
    assert record(world, slice(3, None)) == before
    assert world.state[1].tobytes() == others[len(others) // 3 : 2 * len(others) // 3]
    assert world.state["ticks"][[0, 1, 2], 0].tolist() == [1, 0, 1]


def test_a_reset_of_some_leaves_the_others_alone(started: Start, script: NDArray[np.int64]) -> None:
    world = started()
    for orders in script[:20]:
        world.step(orders)
    others = [fight for fight in range(FIGHTS) if fight not in (5, 9)]
    before = record(world, others)
    world.reset(fights=[5, 9])
    assert record(world, others) == before
    assert world.state["ticks"][[5, 9]].max() == 0


def test_a_reset_with_a_seed_starts_the_same_fight_anywhere(started: Start) -> None:
    world = started()
    params = PARAMS[world.contract.name]
    world.reset(fights=[7], options={"seed": 123, "reset_params": params})
    alone = started(1)
    alone.reset(options={"seed": 123, "reset_params": params})
    assert record(world, 7) == record(alone, 0)
    world.step(world.random_actions())
    world.reset(fights=[6, 40], options={"seed": 122, "reset_params": params})  # the second one gets seed 123
    assert record(world, 40) == record(alone, 0)


def test_a_new_seed_counts_from_the_next_reset_on(started: Start) -> None:
    world = started(4, seed=0)
    world.seed(SEED)
    world.reset()
    assert record(world) == record(started(4))


def test_fights_of_a_batch_differ(started: Start) -> None:
    world = started()
    assert np.unique(world.state["pid"]).size == 2 * FIGHTS
