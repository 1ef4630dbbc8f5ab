"""Boards that a human can read."""

from __future__ import annotations

from typing import Any

import numpy as np
from pettingzoo.classic import connect_four_v3, tictactoe_v3

from benchmarks.matrix_games import ROCK_PAPER_SCISSORS
from sb3_pvp.game import controls_of, make_world, pressed_actions, seen_scene, viewer_for_players
from sb3_pvp.games.pettingzoo import PettingZooGame
from tests.games.pettingzoo_games import Auction

NAMES = ("ann", "bob")
EMPTY = ". . . . . . ."


def test_connect_four_is_a_board_with_a_button_for_each_column() -> None:
    game = PettingZooGame(connect_four_v3.raw_env, shuffle_agents=False)
    viewer: Any = viewer_for_players(game.viewer, game.contract)
    (group,) = controls_of(viewer, game.contract)
    assert [(each.label, each.key) for each in group.controls] == [(f"Column {n}", f"{n}") for n in range(1, 8)]
    world = make_world(game, "sim", 1)
    world.reset()
    for mover, column in ((0, 3), (1, 3), (0, 0)):
        both = np.zeros((1, 2, 1), np.int64)
        for seat in (0, 1):
            pressed = [group.controls[column]]  # who is not to move waits
            both[0, seat] = pressed_actions(game.contract, world.masks[0, seat], pressed)
        assert both[0, :, 0].tolist() == [(column + 1) * (seat == mover) for seat in (0, 1)]
        world.step(both)
    first, second = (viewer.text(seen_scene(viewer, world, 0, NAMES, seat)) for seat in (0, 1))
    board = [EMPTY] * 4
    start, end = "tick 3, ann against bob: running", "1 2 3 4 5 6 7"
    assert first.splitlines() == [
        *(start, *board, ". . . O . . .", "X . . X . . .", end, "ann has X, bob has O"),
    ]
    assert second.splitlines() == [
        *(start, *board, ". . . X . . .", "O . . O . . .", end, "bob has X, ann has O"),
    ]
    assert viewer.text(viewer.scene(world, 0, NAMES)) == first
    assert pressed_actions(game.contract, world.masks[0, 1], []).tolist() == [0]  # it waits for its player


def test_tic_tac_toe_has_a_button_for_each_cell() -> None:
    game = PettingZooGame(tictactoe_v3.raw_env, shuffle_agents=False)
    viewer: Any = game.viewer
    (group,) = controls_of(viewer, game.contract)
    assert group.columns == 3 and [each.label for each in group.controls][:4] == ["1, 1", "1, 2", "1, 3", "2, 1"]
    world = make_world(game, "sim", 1)
    world.reset()
    world.step(np.array([[[game.contract.action_index(group.controls[5].action)[1]], [0]]]))
    rows = viewer.text(seen_scene(viewer, world, 0, NAMES, 0)).splitlines()[1:4]
    assert sum(row.count("X") for row in rows) == 1 and "O" not in "".join(rows)


def test_other_games_are_no_boards() -> None:
    assert PettingZooGame(Auction).viewer is None
    assert ROCK_PAPER_SCISSORS.viewer is None
