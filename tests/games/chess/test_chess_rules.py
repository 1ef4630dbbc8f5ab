"""The rules of chess, without any other program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sb3_pvp.game import Outcome
from sb3_pvp.games.chess import CHESS, perft
from sb3_pvp.games.chess.fen import move_name, read_fen, write_fen
from sb3_pvp.games.chess.params import START
from sb3_pvp.games.chess.rules import ENDINGS
from sb3_pvp.games.chess.world import ChessWorld
from tests.games.chess.positions import PERFT, SPECIAL, legal_ids, play, play_randomly


def board(fen: str = START, **params: Any) -> ChessWorld:
    world = CHESS.make_world("sim", 1, 0, {"fen": fen, "white": "first", **params})
    world.reset()
    return world


@pytest.mark.parametrize("fen", PERFT)
def test_perft(fen: str) -> None:
    assert tuple(perft(fen, depth) for depth in range(4)) == (1, *PERFT[fen][:3])


@pytest.mark.slow
@pytest.mark.parametrize("fen", PERFT)
def test_perft_at_depth_4(fen: str) -> None:
    assert perft(fen, 4) == PERFT[fen][3]


def test_a_negative_depth_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 0, got -1"):
        perft(START, -1)


@pytest.mark.slow
def test_whoever_has_black_sees_its_own_side() -> None:
    world = board()
    play(world, "e2e4")
    assert world.fen(0) == "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"
    play(world, "e2e4", "g1f3", "g1f3")
    assert world.fen(0) == "rnbqkb1r/pppp1ppp/5n2/4p3/4P3/5N2/PPPP1PPP/RNBQKB1R w KQkq - 2 3"
    assert move_name(int(world.last[0])) == "g8f6"


@pytest.mark.parametrize(
    "fen, can, cannot",
    [
        ("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", "e1g1 e1c1", ""),
        ("r3k2r/8/8/8/8/8/8/R3K2R w Kkq - 0 1", "e1g1", "e1c1"),
        ("4k3/8/8/8/8/8/5r2/R3K2R w KQ - 0 1", "e1f2", "e1g1 e1f1"),  # into and through check
        ("4k3/8/8/8/8/4r3/8/R3K2R w KQ - 0 1", "e1f1", "e1g1 e1c1"),  # out of check
        ("1r2k3/8/8/8/8/8/8/R3K2R w KQ - 0 1", "e1c1", ""),  # b1 may be attacked
        ("4k3/8/8/8/8/8/8/RN2K1NR w KQ - 0 1", "", "e1g1 e1c1"),
        ("8/8/8/K2pP2r/8/8/8/7k w - d6 0 1", "e5e6", "e5d6"),  # both pawns would leave the rank
        ("8/8/8/3pP3/K6r/8/8/7k w - d6 0 1", "a4a5", "e5d6"),  # does not answer the check
        ("7k/8/8/3pP3/2K5/8/8/8 w - d6 0 1", "e5d6", "e5e6"),  # the pawn that gives check is taken
        ("7k/8/8/3pP3/8/8/8/K7 w - d6 0 1", "e5d6 e5e6", ""),
        ("7k/8/8/3pP3/8/8/8/K7 w - - 0 1", "e5e6", "e5d6"),
        ("1n5k/P7/8/8/8/8/8/K7 w - - 0 1", "a7a8 a7a8n a7a8b a7a8r a7b8 a7b8n a7b8b a7b8r", "a7a8q"),
        ("4k3/4r3/8/8/8/8/4B3/4K3 w - - 0 1", "e1d1", "e2d3"),  # pinned
    ],
)
def test_special_moves(fen: str, can: str, cannot: str) -> None:
    legal = legal_ids(board(fen), 0)
    assert {*can.split()} <= legal and not {*cannot.split()} & legal


@pytest.mark.parametrize(
    "fen, moves, ending, claims",
    [
        (START, "f2f3 e2e4 g2g4 d1h5", "checkmate", True),
        ("7k/8/6K1/8/8/8/8/5Q2 w - - 0 1", "f1f7", "stalemate", True),
        ("7k/8/6K1/8/8/8/8/5Q2 w - - 99 80", "f1f8", "checkmate", True),
        ("7k/8/6K1/8/8/8/8/5Q2 w - - 99 80", "f1f2", "50 moves", True),
        ("7k/8/6K1/8/8/8/8/5Q2 w - - 99 80", "f1f2", "", False),
        ("7k/8/6K1/8/8/8/8/5Q2 w - - 149 80", "f1f2", "75 moves", False),
        ("7k/8/6K1/8/8/8/5p2/5Q2 w - - 149 80", "f1f2", "", False),
        ("7k/8/6K1/8/8/8/5n2/5B2 w - - 0 1", "g6f5", "", True),
        ("7k/8/6K1/8/8/8/8/5bB1 b - - 0 1", "f8g7", "", True),  # on squares of two colours
        ("8/8/6K1/8/8/7k/6P1/5b2 b - - 0 1", "f8g7", "insufficient material", True),
        ("8/8/6K1/8/8/7k/6P1/5n2 b - - 0 1", "h6g7", "insufficient material", True),
    ],
)
def test_ends(fen: str, moves: str, ending: str, claims: bool) -> None:
    world = board(fen, claims=claims)
    *before, last = moves.split()
    play(world, *before)
    assert world.outcome.tolist() == [[0, 0]]
    mover = int(world.positions[0, -1])
    play(world, last)
    assert ENDINGS[world.endings[0]] == ending
    tied = [Outcome.TIED, Outcome.TIED] if ending else [0, 0]
    won = [Outcome.WON, Outcome.LOST] if mover == 0 else [Outcome.LOST, Outcome.WON]
    assert world.outcome[0].tolist() == (won if ending == "checkmate" else tied)


@pytest.mark.parametrize(
    "claims, plies, ending", [(True, 8, "threefold repetition"), (False, 16, "fivefold repetition")]
)
def test_repetition(claims: bool, plies: int, ending: str) -> None:
    world = board(claims=claims)
    for ply in range(plies):
        assert not world.endings[0], ply
        play(world, ("g1f3", "g1f3", "f3g1", "f3g1")[ply % 4])
    assert ENDINGS[world.endings[0]] == ending


def test_a_position_with_other_rights_is_another_one() -> None:
    # The pawn may be taken en passant only the first time, and the king may castle only before it has moved.
    for fen, shuffle in (
        ("4k3/8/8/8/3p4/8/4P3/4K3 w - - 0 1", ("e2e4", "e1e2", "e1e2", "e2e1", "e2e1")),
        ("4k3/8/8/8/8/8/8/4K2R w K - 0 1", ("e1e2", "e1e2", "e2e1", "e2e1")),
    ):
        world, first = board(fen), len(shuffle) == 5
        play(world, *shuffle, *shuffle[first:])
        assert not world.endings[0]
        play(world, shuffle[first])
        assert ENDINGS[world.endings[0]] == "threefold repetition"


@pytest.mark.parametrize(
    "fen, why",
    [
        ("", "0 fields"),
        ("8/8/8/8/8/8/8/8 w - - 0 1", "White has 0 kings"),
        ("4k3/8/8/8/8/8/8/4K2K w - - 0 1", "White has 2 kings"),
        ("4k3/8/8/8/8/8/4K3 w - - 0 1", "7 ranks"),
        ("4k3/8/8/8/8/8/8/4K4 w - - 0 1", "rank 1 is '4K4', which is not 8 squares"),
        ("4k3/44/8/8/8/8/8/4K3 w - - 0 1", ""),
        ("4k3/53/8/8/8/8/8/4K3 w - - 0 1", "rank 7 is '53'"),
        ("4k3/8/8/8/8/8/8/4K2X w - - 0 1", "'X' is no piece"),
        ("4k2P/8/8/8/8/8/8/4K3 w - - 0 1", "a pawn stands on rank 8"),
        ("4k3/p7/pppppppp/8/8/8/8/4K3 w - - 0 1", "Black has 10 pieces, 9 of them pawns"),
        ("4k3/8/8/8/8/8/8/4K3 x - - 0 1", "the side to move is w or b, not 'x'"),
        ("4k3/8/8/8/8/8/8/4K3 w K - 0 1", "'K' needs king and rook at home"),
        ("4k3/8/8/8/8/8/8/4K3 w qK - 0 1", "not 'qK'"),
        ("4k3/8/8/8/8/8/8/4K3 w - e6 0 1", "no pawn has just passed e6"),
        ("4k3/8/8/8/8/8/8/4K3 w - e3 0 1", "no pawn can be taken en passant on 'e3'"),
        ("4k3/8/8/8/8/8/8/4K3 w - x9 0 1", "no pawn can be taken en passant on 'x9'"),
        ("4k3/8/8/8/8/8/8/4K3 w - - -1 1", "clocks are numbers up to 9999, not -1 1"),
        ("4k3/8/8/8/8/8/8/4K3 w - - 0 100000", "clocks are numbers up to 9999"),
        ("4k3/8/8/8/8/8/8/4K3 w - - 0 0000099999", "clocks are numbers up to 9999"),
        ("4k3/8/8/8/8/8/4R3/4K3 w - - 0 1", "the king of the side that is not to move is in check"),
    ],
)
def test_what_is_no_position_is_refused_in_a_line(fen: str, why: str) -> None:
    world = board()
    before = world.get_state()["arrays"]
    for call in (
        lambda: perft(fen, 1),
        lambda: world.reset(options={"reset_params": {"fen": fen}}),
        lambda: board(fen),
    ):
        with pytest.raises(ValueError, match=r"is no position of chess: ") as caught:
            call()
        assert why in str(caught.value) and "\n" not in str(caught.value)
    assert all(np.array_equal(before[name], getattr(world, name)) for name in before)


@given(st.sampled_from(SPECIAL), st.integers(0, 2**32), st.integers(0, 80))
@settings(max_examples=40, deadline=None)
def test_a_fen_says_all_but_what_was_before(fen: str, seed: int, plies: int) -> None:
    world, rng = board(fen), np.random.default_rng(seed)
    for _ in range(plies):
        if world.outcome.any():
            break
        play_randomly(world, rng)
    again = read_fen(world.fen(0))
    assert again.tolist() == world.positions[0].tolist()
    assert write_fen(again) == world.fen(0)


def test_clocks_may_be_left_out() -> None:
    assert read_fen(START.rsplit(" ", 2)[0]).tolist() == read_fen(START).tolist()
