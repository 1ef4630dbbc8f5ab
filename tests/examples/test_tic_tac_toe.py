"""The rules and the viewer of examples/tic_tac_toe.py."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from sb3_pvp.envs import PvpEnv, PvpVecEnv
from sb3_pvp.game import Outcome, make_world
from tests.paths import ROOT


@pytest.fixture(autouse=True)
def among_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))


def test_it_is_learned_by_self_play_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert importlib.import_module("tic_tac_toe").main(total_timesteps=4096) in ("won", "lost", "tied")
    assert capsys.readouterr().out.startswith("X learner, O baseline: running\n")


def test_a_game_is_played_in_its_own_world_only() -> None:
    with pytest.raises(ValueError, match="tic_tac_toe is played in 'sim' only, not in 'rsps://host:1'"):
        PvpEnv(game="tic_tac_toe:TicTacToe", world="rsps://host:1")


def play(world: Any, *cells: int) -> None:
    """Plays these cells in turns; both sides send the move, and the world ignores the side that is not to move."""
    for cell in cells:
        world.step(np.full((1, 2, 1), cell + 1))


def test_tic_tac_toe_is_won_by_three_in_a_line() -> None:
    world = make_world("tic_tac_toe:TicTacToe", "sim", 1)
    world.reset(options={"seed": 0})
    first = int(world.masks[0, :, 0].argmin())
    play(world, 4, 0, 2, 1)
    assert world.masks[0, first].nonzero()[0].tolist() == [4, 6, 7, 8, 9]
    assert world.masks[0, 1 - first].nonzero()[0].tolist() == [0]
    assert world.obs[0, first].nonzero()[0].tolist() == [2, 4, 9, 10, 18]
    play(world, 6)
    assert world.outcome[0, first] == Outcome.WON and world.outcome[0, 1 - first] == Outcome.LOST
    world.reset()
    play(world, 0, 1, 2, 4, 3, 5, 7, 6, 8)
    assert world.outcome[0].tolist() == [Outcome.TIED] * 2


def test_an_illegal_move_draws_in_the_first_empty_cell() -> None:
    env = PvpVecEnv(4, "noop", game="tic_tac_toe:TicTacToe")
    env.reset()
    rng, outcomes = np.random.default_rng(0), set()
    for _ in range(60):
        actions = env.fights.contract.random_action(env.action_masks(), rng)
        outcomes |= {info["outcome"] for info in env.step(actions)[3] if info}
    assert outcomes == {"won", "lost", "tied"}


def test_positions_are_shown_as_text() -> None:
    env = PvpEnv(game="tic_tac_toe:TicTacToe", render_mode="ansi")
    env.reset(seed=0)
    env.step(env.contract.random_action(env.action_masks(), np.random.default_rng(0)))
    title, *board = str(env.render()).splitlines()
    assert title == "X learner, O baseline: running"
    assert sorted("".join(board)) in [[*"........", symbol] for symbol in "OX"]
    env.close()
