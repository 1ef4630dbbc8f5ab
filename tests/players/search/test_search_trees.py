"""Searches: their laws, and games whose answers are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from examples.tic_tac_toe import TicTacToeWorld
from sb3_pvp.game import find_game
from sb3_pvp.game.checks import check_world
from sb3_pvp.games.connect_four import CONNECT_FOUR, ConnectFourWorld
from sb3_pvp.players.search.search import Search
from sb3_pvp.players.search.search_settings import SearchSettings
from sb3_pvp.players.search.trees import Trees
from tests.players.search.small_networks import FastTicTacToe, Playouts, ignorant, losses_of, novice

SELECTIONS = st.sampled_from(["puct", "gumbel"])


def look(search: Search, world: Any, seed: int | None = None) -> Any:
    """Searches all positions of a world in which somebody has a choice; returns also who moves and what may be done."""
    fights = np.flatnonzero((world.masks.sum(2) > 1).any(1))
    seats = world.masks[fights].sum(2).argmax(1)
    random = [None if seed is None else np.random.default_rng([seed, fight]) for fight in fights.tolist()]
    return search.look(world, fights, seats, random), world.masks[fights, seats]


def at_random(plies: int, seed: int, count: int = 4) -> ConnectFourWorld:
    """Returns a world in which so many random moves have been made, or games were over before."""
    world, random = ConnectFourWorld(count, seed), np.random.default_rng(seed)
    world.reset()
    for _ in range(plies):
        world.step((random.random(world.masks.shape) * world.masks).argmax(2)[:, :, np.newaxis])
    return world


@given(st.integers(0, 30), st.integers(0, 99), st.integers(1, 40), st.booleans())
@settings(max_examples=25, deadline=None)
def test_a_search_makes_its_simulations_and_visits_only_what_is_legal(
    plies: int, seed: int, simulations: int, noisy: bool
) -> None:
    world = at_random(plies, seed)
    search = Search(CONNECT_FOUR, ignorant, SearchSettings(simulations=simulations, noisy=noisy))
    if not (world.masks.sum(2) > 1).any():
        return
    found, masks = look(search, world, seed)
    visits = found.policy * simulations
    np.testing.assert_allclose(visits, visits.round(), atol=1e-3)
    np.testing.assert_allclose(visits.sum(1), simulations, rtol=1e-5)
    assert not visits[~masks].any() and masks[np.arange(len(masks)), found.best].all()
    assert (visits.max(1) <= visits[np.arange(len(masks)), found.best] + 1e-3).all()
    assert (np.abs(found.value) <= 1).all()


@given(st.integers(0, 30), st.integers(0, 99), st.integers(1, 40))
@settings(max_examples=15, deadline=None)
def test_gumbel_gives_each_legal_move_some_weight_and_chooses_one(plies: int, seed: int, simulations: int) -> None:
    world = at_random(plies, seed)
    if not (world.masks.sum(2) > 1).any():
        return
    search = Search(CONNECT_FOUR, ignorant, SearchSettings(simulations=simulations, selection="gumbel"))
    found, masks = look(search, world, seed)
    np.testing.assert_allclose(found.policy.sum(1), 1, rtol=1e-5)
    assert not found.policy[~masks].any() and masks[np.arange(len(masks)), found.best].all()


@given(st.integers(0, 20), st.integers(0, 99), SELECTIONS)
@settings(max_examples=10, deadline=None)
def test_what_is_found_depends_on_no_other_tree(plies: int, seed: int, selection: Any) -> None:
    world = at_random(plies, seed)
    if not (world.masks.sum(2) > 1).any():
        return
    search = Search(CONNECT_FOUR, ignorant, SearchSettings(simulations=30, selection=selection, noisy=True))
    together = look(search, world, seed)[0]
    search._most = 1  # one tree after another
    for first, second in zip(together, look(search, world, seed)[0], strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-5)


def test_trees_that_need_more_room_than_was_thought_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world, settings = at_random(6, 2), SearchSettings(simulations=60)
    expected = look(Search(CONNECT_FOUR, ignorant, settings), world)[0]
    empty = Trees.empty
    monkeypatch.setattr(Trees, "empty", lambda trees, nodes, edges: empty(trees, nodes, 10))
    found = look(Search(CONNECT_FOUR, ignorant, settings), world)[0]
    assert all(np.array_equal(*each) for each in zip(found, expected, strict=True))


def arrays(world: Any) -> dict[str, NDArray[Any]]:
    return {name: each.copy() for name, each in vars(world).items() if isinstance(each, np.ndarray) and each.size}


@pytest.mark.parametrize("game", ["ConnectFour-v0", "ChessPvP-v0", "examples.tic_tac_toe:TicTacToe"])
@given(plies=st.integers(0, 6), seed=st.integers(0, 99))
@settings(max_examples=5, deadline=None)
def test_a_copied_fight_goes_on_like_the_first_one_and_leaves_it_alone(game: str, plies: int, seed: int) -> None:
    world = find_game(game).make_world("sim", 3, seed, {})
    random = np.random.default_rng(seed)
    world.reset()
    for _ in range(plies):
        world.step((random.random(world.masks.shape) * world.masks).argmax(2)[:, :, np.newaxis])
    copies: Any = find_game(game).make_world("sim", 5, seed + 1, {})
    before = arrays(world)
    copies.copy_fights([4, 0], world, [1, 2])
    for _ in range(4):
        for name, each in arrays(world).items():
            assert name == "bots" or np.array_equal(getattr(copies, name)[[4, 0]], each[[1, 2]])
        moves = (random.random(world.masks.shape) * world.masks).argmax(2)[:, :, np.newaxis]
        copies.step(moves[[1, 2]], [4, 0])
        assert all(np.array_equal(each, before[name]) for name, each in arrays(world).items())
        world.step(moves)
        before = arrays(world)


def test_fights_are_copied_only_between_worlds_of_one_game() -> None:
    world = ConnectFourWorld(2)
    with pytest.raises(ValueError, match="fights of TicTacToeWorld cannot be copied into ConnectFourWorld"):
        world.copy_fights([0], TicTacToeWorld(1, 0), [0])
    with pytest.raises(ValueError, match="2 fights cannot be copied into 1"):
        world.copy_fights([0], ConnectFourWorld(2), [0, 1])


def test_a_search_leaves_the_world_alone() -> None:
    world = at_random(6, 1)
    before = world.get_state()
    look(Search(CONNECT_FOUR, ignorant, SearchSettings(simulations=50)), world)
    after = world.get_state()
    assert before["random"] == after["random"]
    assert all(np.array_equal(before["arrays"][name], each) for name, each in after["arrays"].items())


def test_tic_tac_toe_is_never_lost_with_200_simulations() -> None:
    search = Search(FastTicTacToe(), novice, SearchSettings(simulations=200))
    results = [losses_of(search, seat) for seat in (0, 1)]
    assert [lost for lost, _ in results] == [0, 0] and all(asked > 300 for _, asked in results)


@pytest.mark.slow
def test_connect_four_is_opened_in_the_centre() -> None:
    world = ConnectFourWorld(8, 3)
    world.reset()
    for selection in ("puct", "gumbel"):
        settings = SearchSettings(simulations=600, selection=selection)
        found, _ = look(Search(CONNECT_FOUR, Playouts(0), settings), world)
        assert found.policy.mean(0).argmax() == 4
        assert found.value.mean() > 0  # who begins wins


def test_worlds_of_connect_four_are_worlds() -> None:
    check_world(ConnectFourWorld(8, 0), ticks=60)
