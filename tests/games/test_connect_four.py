"""Connect four in Numba: its rules, and positions whose answers are known."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from pettingzoo.classic import connect_four_v3

from benchmarks.search.positions import FILE, read_positions
from benchmarks.search.solver import solved
from sb3_pvp.game import Outcome, find_game, make_world
from sb3_pvp.game.checks import check_world
from sb3_pvp.games.connect_four import ConnectFourWorld


def test_it_is_a_world() -> None:
    check_world(ConnectFourWorld(8, 0), ticks=60)


@pytest.mark.parametrize("game", ["ConnectFour-v0", "sb3_pvp.games.gate:Gate"])
def test_parameters_that_it_does_not_have_are_refused(game: str) -> None:
    with pytest.raises(ValueError, match="unknown reset parameter 'white'"):
        make_world(find_game(game), "sim", 1, 0, {"white": "first"})
    world = make_world(find_game(game), "sim", 1)
    with pytest.raises(ValueError, match="unknown reset parameter 'white'"):
        world.reset(options={"reset_params": {"white": "first"}})


def test_its_rules_are_those_of_pettingzoo() -> None:
    world, random, env = ConnectFourWorld(1), np.random.default_rng(0), connect_four_v3.raw_env()
    ends = set()
    for game in range(30):
        world.reset(options={"seed": game})
        env.reset()
        first = int(world.movers[0])
        while not world.outcome[0, 0]:
            mover = int(world.movers[0])
            seen = env.observe(env.agent_selection)
            assert np.array_equal(world.masks[0, mover, 1:], seen["action_mask"])
            planes = world.obs[0, mover].reshape(3, 6, 7)[:2]
            assert np.array_equal(planes, np.moveaxis(seen["observation"], 2, 0)) and world.masks[0, 1 - mover, 0]
            column = int(random.choice(np.flatnonzero(seen["action_mask"])))
            env.step(column)
            world.step(np.full((1, 2, 1), column + 1))
        rewards = [env.rewards[agent] for agent in env.possible_agents][:: 1 if first == 0 else -1]
        words = {1: Outcome.WON, -1: Outcome.LOST, 0: Outcome.TIED}
        assert world.outcome[0].tolist() == [words[reward] for reward in rewards]
        ends.add(int(world.outcome[0, 0]))
    assert {Outcome.WON, Outcome.LOST} <= ends


@cache
def brute(board: tuple[tuple[int, ...], ...], mover: int) -> int:
    """Returns 1, 0 or -1 for the mover, by trying everything."""
    world = ConnectFourWorld(1)
    best = -1
    for column in range(7):
        if board[0][column] < 0:
            world.outcome[:], world.boards[0], world.movers[0] = 0, board, mover
            world.show(np.array([0]))
            world.step(np.full((1, 2, 1), column + 1))
            outcome = int(world.outcome[0, mover])
            after = tuple(map(tuple, world.boards[0].tolist()))
            value = {Outcome.RUNNING: None, Outcome.WON: 1, Outcome.TIED: 0}[Outcome(outcome)]
            best = max(best, -brute(after, 1 - mover) if value is None else value)
    return best


@pytest.mark.slow
def test_the_solver_finds_what_trying_everything_finds() -> None:
    world, random = ConnectFourWorld(400, 5), np.random.default_rng(5)
    world.reset()
    for _ in range(35):
        world.step((random.random(world.masks.shape) * world.masks).argmax(2)[:, :, np.newaxis])
    on = np.flatnonzero(world.outcome[:, 0] == 0)
    assert on.size > 3
    found = solved(world.boards[on], world.movers[on]).max(1)
    boards = [tuple(map(tuple, board)) for board in world.boards[on].tolist()]
    assert found.tolist() == [
        brute(board, mover) for board, mover in zip(boards, world.movers[on].tolist(), strict=True)
    ]


def test_the_solved_positions_are_those_of_the_solver() -> None:
    positions, late = read_positions(), slice(240, 300)  # those with few empty cells
    assert np.array_equal(solved(positions.boards[late], positions.movers[late]), positions.worth[late])
    best = positions.worth == positions.worth.max(1, keepdims=True)
    legal = positions.worth > -2
    assert (2 * (best & legal).sum(1) <= legal.sum(1)).all()  # a random move is seldom a best one
    assert len(FILE.read_text().splitlines()) == len(set(FILE.read_text().splitlines())) == 300


@pytest.mark.slow
def test_all_solved_positions_are_those_of_the_solver() -> None:
    positions = read_positions()
    assert np.array_equal(solved(positions.boards, positions.movers), positions.worth)
