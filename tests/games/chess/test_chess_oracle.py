"""Chess, move by move beside python-chess and PettingZoo, where they are installed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from sb3_pvp.game import Outcome
from sb3_pvp.games.chess import CHESS
from sb3_pvp.games.chess.fen import move_name
from sb3_pvp.games.chess.params import START
from sb3_pvp.games.chess.rules import ENDINGS
from tests.games.chess.engine_programs import python_chess
from tests.games.chess.positions import SPECIAL, legal_ids, play_randomly

chess: Any = python_chess()

_TERMINATIONS = {
    "CHECKMATE": "checkmate",
    "STALEMATE": "stalemate",
    "INSUFFICIENT_MATERIAL": "insufficient material",
    "SEVENTYFIVE_MOVES": "75 moves",
    "FIVEFOLD_REPETITION": "fivefold repetition",
}

KINGS_ONLY = "k7/1p1p1p1p/1P1P1P1P/8/8/1p1p1p1p/1P1P1P1P/K7 w - - 0 1"
"""Nothing but the kings can move, each on its first row: the one place in which random play repeats itself."""


def ids_of(board: Any) -> set[str]:
    """Returns the legal moves of python-chess as the contract names them, from the mover's side."""
    own = board if board.turn else board.mirror()
    return {move.uci().removesuffix("q") for move in own.legal_moves}


def ending_of(board: Any, claims: bool) -> str:
    """Returns how a game has ended by python-chess, if draws are claimed as soon as they are on the board."""
    if outcome := board.outcome():
        return _TERMINATIONS[outcome.termination.name]
    if claims and board.is_fifty_moves():
        return "50 moves"
    return "threefold repetition" if claims and board.is_repetition(3) else ""


def play_beside(fens: list[str], claims: bool, seed: int) -> Counter[str]:
    """Plays a game from each position, comparing all of it; returns how they have ended."""
    world = CHESS.make_world("sim", len(fens), seed, {})
    params = [{"fen": fen, "white": ("first", "second")[row % 2], "claims": claims} for row, fen in enumerate(fens)]
    world.reset(options=[{"seed": row, "reset_params": each} for row, each in enumerate(params)])
    boards, rng = [chess.Board(fen) for fen in fens], np.random.default_rng(seed)
    while (running := np.flatnonzero(world.outcome[:, 0] == Outcome.RUNNING)).size:
        for row in running.tolist():
            assert legal_ids(world, row) == ids_of(boards[row]), boards[row].fen()
            waits = 1 - (world.white[row] ^ (not boards[row].turn))
            assert np.flatnonzero(world.masks[row, waits]).tolist() == [0]
        play_randomly(world, rng)
        for row in running.tolist():
            boards[row].push_uci(move_name(int(world.last[row])))
            assert world.fen(row) == boards[row].fen()
            assert ENDINGS[world.endings[row]] == ending_of(boards[row], claims), boards[row].fen()
    for row, board in enumerate(boards):
        winner = board.outcome() and board.outcome().winner
        first = Outcome.TIED if winner is None else Outcome.WON if winner == (row % 2 == 0) else Outcome.LOST
        assert world.outcome[row, 0] == first
    return Counter(ENDINGS[each] for each in world.endings)


def test_random_games_beside_python_chess() -> None:
    assert play_beside([START] * 8 + [*SPECIAL], claims=True, seed=0).total() == 20
    assert play_beside([SPECIAL[-1], SPECIAL[-4]], claims=False, seed=1).total() == 2
    assert "fivefold repetition" in play_beside([KINGS_ONLY] * 8, claims=False, seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("claims", [True, False])
def test_thousands_of_random_games_beside_python_chess(claims: bool) -> None:
    ends = Counter[str]()
    for part in range(20):
        ends += play_beside([START] * 190 + [*SPECIAL] * 5 + [KINGS_ONLY] * 5, claims, seed=part)
    assert ends.total() == 20 * (195 + 5 * len(SPECIAL))
    assert {*ends} >= {*_TERMINATIONS.values()} - ({"75 moves", "fivefold repetition"} if claims else set())


def test_masks_are_those_of_pettingzoo() -> None:
    env = pytest.importorskip("pettingzoo.classic.chess.chess", reason="PettingZoo's chess is not installed").raw_env()
    compare_with_pettingzoo(env, games=2)


@pytest.mark.slow
def test_masks_of_many_games_are_those_of_pettingzoo() -> None:
    env = pytest.importorskip("pettingzoo.classic.chess.chess", reason="PettingZoo's chess is not installed").raw_env()
    compare_with_pettingzoo(env, games=1000)


def compare_with_pettingzoo(env: Any, games: int) -> None:
    world, rng = CHESS.make_world("sim", 1, 0, {"white": "first"}), np.random.default_rng(0)
    for _ in range(games):
        world.reset()
        env.reset()
        while not world.outcome[0, 0]:
            agent = env.agent_selection
            seat = env.possible_agents.index(agent)
            seen = env.observe(agent)
            assert np.array_equal(world.masks[0, seat], seen["action_mask"].astype(bool))
            action = int(rng.choice(np.flatnonzero(seen["action_mask"])))
            env.step(action)
            world.step(np.full((1, 2, 1), action))
            if any(env.terminations.values()):
                break
        # PettingZoo also lets players claim a draw that their next move would bring about.
        if world.outcome[0, 0]:
            assert env.rewards[env.possible_agents[0]] == {1: 1, 2: -1, 3: 0}[int(world.outcome[0, 0])]
        else:
            assert env.board.can_claim_draw()
