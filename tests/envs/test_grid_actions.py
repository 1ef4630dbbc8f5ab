"""Coarser grids: cells stand for legal tiles, and nothing else of a game changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.envs.grid_actions import GridActionWrapper
from sb3_pvp.game import Game
from sb3_pvp.game.checks import check_world
from sb3_pvp.game.contract import Agent, Head
from sb3_pvp.games.lanes import LANES, rules


@pytest.mark.parametrize("tile", [1, 2, 3, 4])
def test_a_coarse_game_keeps_the_rules_of_worlds(tile: int) -> None:
    game = GridActionWrapper(LANES, tile)
    check_world(game.make_world("sim", 3, 0, {"deck": "random"}))
    assert game.counts["cells"] == -(-18 // tile) * -(-32 // tile)


@settings(max_examples=12, deadline=None)
@given(st.sampled_from([2, 3, 4]), st.integers(0, 2**32 - 1))
def test_a_cell_is_legal_if_one_of_its_tiles_is_and_stands_for_such_a_one(tile: int, seed: int) -> None:
    game, rng = GridActionWrapper(LANES, tile), np.random.default_rng(seed)
    world = game.make_world("sim", 2, seed, {"deck": "random"})
    world.reset()
    for _ in range(8):
        world.step(game.contract.random_action(world.masks, rng))
        world.inner.units[0, rng.integers(2), rng.integers(2), rules.LEFT] *= rng.random() < 0.8
        world.inner._show(np.arange(2))
        world._look()
        fine = LANES.contract
        for seat in range(2):
            mask, inner = world.masks[0, seat], world.inner.masks[0, seat]
            card, column = int(rng.integers(1, 21)), int(rng.integers(game.contract.head_sizes[1]))
            rows = game.contract.conditional_mask(mask, [card, column])
            own = list(game.cells[1].members[column])
            legal = np.any([fine.conditional_mask(inner, [card, each]) for each in own], axis=0)
            for row, members in enumerate(game.cells[2].members):
                assert rows[row] == legal[list(members)].any(), (card, column, row)
                chosen = world.tiles(np.array([[card, column, row]]), inner[None])[0]
                assert chosen[1] in own and chosen[2] in members
                if rows[row]:
                    assert fine.conditional_mask(inner, chosen[:2])[chosen[2]]


def test_tiles_of_one_change_nothing() -> None:
    game, rng = GridActionWrapper(LANES, 1), np.random.default_rng(0)
    ours, theirs = game.make_world("sim", 4, 3, {}), LANES.make_world("sim", 4, 3, {})
    ours.reset(), theirs.reset()
    for _ in range(60):
        actions = theirs.contract.random_action(theirs.masks, rng)
        ours.step(actions)
        theirs.step(actions)
        assert ours.obs.tobytes() == theirs.obs.tobytes() and ours.masks.tobytes() == theirs.masks.tobytes()


def test_a_state_belongs_to_its_tiles() -> None:
    two, four = (GridActionWrapper(LANES, tile).make_world("sim", 2, 0, {}) for tile in (2, 4))
    two.reset()
    state = two.get_state()
    two.set_state(state)
    with pytest.raises(ValueError, match="a state of cells of 2 tiles, not of 4"):
        four.set_state(state)


def test_it_is_trained_on_like_any_game() -> None:
    env = PvpVecEnv(2, game=GridActionWrapper(LANES, 4), opponent="baseline", reset_params={"bot": "guardian"})
    env.reset()
    for _ in range(5):
        env.step(np.zeros((2, 3), np.int64))
    assert env.action_space.nvec.tolist() == [21, 5, 8 + 4]  # type: ignore[attr-defined]
    env.close()


def test_games_without_two_position_heads_are_refused() -> None:
    with pytest.raises(
        ValueError, match="a grid needs two heads whose choices end in their place.*ConnectFour-v0 has 0"
    ):
        GridActionWrapper("ConnectFour-v0", 2)
    with pytest.raises(ValueError, match="tile"):
        GridActionWrapper(LANES, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"heads": (*LANES.contract.heads, Head("force", "", number=True))},
        {"agents": (Agent("all", (0, LANES.contract.num_observations), (0, LANES.contract.num_heads)),)},
    ],
)
def test_numbers_and_teams_are_refused(changes: dict[str, Any]) -> None:
    class Other(Game):
        name, contract = "other", replace(LANES.contract, **changes)

    with pytest.raises(ValueError, match="a grid is for single fighters who choose, not for the .* of LaneClash-v0"):
        GridActionWrapper(Other(), 2)
