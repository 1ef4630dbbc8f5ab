"""One moment of a fight with many futures: worlds whose chance begins anew."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sb3_pvp.game import Reseedable, make_world
from sb3_pvp.game.arrays import ArrayWorld
from sb3_pvp.game.contract import Contract, Head, Observation, SubAction
from sb3_pvp.games.osrs.sim import SimWorld
from sb3_pvp.games.pettingzoo import PettingZooGame, PettingZooTeam
from tests.games.pettingzoo_games import Auction

KINDS = ["arrays", "osrs", "pettingzoo", "team"]
SEEDS = st.integers(0, 2**70)
HEAD = Head("choice", "What to do.", (SubAction("wait", "Wait."), SubAction("go", "Go.")))


class Dice(ArrayWorld):
    """Shows a roll of the dice in every tick."""

    def __init__(self, num_fights: int = 4, seed: int = 0) -> None:
        super().__init__(Contract("dice", (HEAD,), (Observation("roll", "The last roll."),)), num_fights, seed)

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        self.obs[fight] = 0.0

    def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
        self.obs[fight] = self.random[fight].random()


class LongAuction(Auction):
    """Has twenty prizes and no end of money."""

    def step(self, actions: dict[str, Any]) -> Any:
        self.purses = dict.fromkeys(self.agents, 3)
        observations, rewards, ends, _, infos = super().step(actions)
        return observations, rewards, ends, dict.fromkeys(self.agents, self.rounds == 20), infos


def world_of(kind: str) -> Any:
    if kind == "osrs":
        return SimWorld(4)
    if kind == "arrays":
        return Dice()
    game = PettingZooTeam(LongAuction) if kind == "team" else PettingZooGame(LongAuction, shuffle_agents=False)
    return make_world(game, "sim", 4)


def started(kind: str, before: int = 3, seed: int = 5) -> tuple[Any, NDArray[np.int64]]:
    """A world with four fights that are equal, and actions for another twelve ticks."""
    world, rng = world_of(kind), np.random.default_rng(0)
    world.reset(options=[{"seed": seed, "bots": (None, "baseline")}] * 4)
    actions = world.contract.random_action(np.ones((before + 12, 1, 2, world.contract.num_flat_actions), bool), rng)
    actions = np.repeat(actions, 4, axis=1)
    for each in actions[:before]:
        world.step(each)
    return world, actions[before:]


def futures(world: Any, actions: NDArray[np.int64]) -> NDArray[np.float32]:
    """The observations of all later ticks, ``(4, ticks, 2, D)``."""
    seen = []
    for each in actions:
        world.step(each)
        seen.append(world.obs.copy())
    return np.stack(seen, axis=1)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(one=SEEDS, other=SEEDS, before=st.integers(0, 6))
def test_equal_seeds_give_equal_futures_and_others_do_not(kind: str, one: int, other: int, before: int) -> None:
    world, actions = started(kind, before)
    assert isinstance(world, Reseedable)
    shown = world.obs.copy()
    world.reseed([0, 2, 3], [one, other, one])
    np.testing.assert_array_equal(world.obs, shown)  # what has been rolled stays
    seen = futures(world, actions)
    np.testing.assert_array_equal(seen[0], seen[3])
    is_same = one == other or (kind == "osrs" and (one - other) % 2**64 == 0)
    assert np.array_equal(seen[0], seen[2]) == is_same
    # The fight that was left alone goes on as in a world that nobody reseeds.
    untouched, actions = started(kind, before)
    np.testing.assert_array_equal(futures(untouched, actions)[1], seen[1])
    assert not np.array_equal(seen[0], seen[1])


@pytest.mark.parametrize("kind", KINDS)
def test_no_future_repeats_what_a_reset_with_its_seed_gives(kind: str) -> None:
    world, actions = started(kind, 0)
    plain = futures(world, actions)[0]
    world, actions = started(kind, 0)
    world.reseed(None, [5] * 4)
    assert not np.array_equal(futures(world, actions)[0], plain)


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_of_such_a_future_goes_on_bit_for_bit(kind: str) -> None:
    world, actions = started(kind)
    world.reseed([1, 2], [7, 8])
    futures(world, actions[:4])
    state = pickle.loads(pickle.dumps(world.get_state()))
    expected = futures(world, actions[4:])
    other, _ = started(kind, 0, seed=9)
    other.set_state(state)
    np.testing.assert_array_equal(futures(other, actions[4:]), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("fights", "seeds", "message"),
    [
        ([4], [1], "fights must be numbers from 0 to 3"),
        ([0, 1], [1], "one seed for each fight: got 1 for 2"),
        ([0, 1], [1, -1], "a seed must be a non-negative integer, got -1"),
        ([0], [None], "a seed must be a non-negative integer, got None"),
    ],
)
def test_wrong_seeds_are_refused_and_change_nothing(kind: str, fights: Any, seeds: Any, message: str) -> None:
    world, actions = started(kind)
    with pytest.raises(ValueError, match=message):
        world.reseed(fights, seeds)
    untouched, _ = started(kind)
    np.testing.assert_array_equal(futures(world, actions), futures(untouched, actions))
