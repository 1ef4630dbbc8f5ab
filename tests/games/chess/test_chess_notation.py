"""SAN, PGN and the table of openings, by themselves and beside python-chess."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from sb3_pvp.games.chess import CHESS
from sb3_pvp.games.chess.fen import move_name, read_fen
from sb3_pvp.games.chess.notation import (
    UNNAMED,
    legal_by_name,
    name_opening,
    openings,
    played,
    san,
    walk,
    write_pgn,
)
from sb3_pvp.games.chess.params import START
from tests.games.chess.engine_programs import python_chess
from tests.games.chess.positions import SPECIAL, play_randomly

MATE = ["e2e4", "e7e5", "d1h5", "b8c6", "f1c4", "g8f6", "h5f7"]


@pytest.mark.parametrize(
    ("fen", "move", "text"),
    [
        (START, "g1f3", "Nf3"),
        ("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", "e1c1", "O-O-O"),
        ("5k2/8/8/8/8/8/8/4K2R w K - 0 1", "e1g1", "O-O+"),
        ("7k/8/8/3pP3/8/8/8/K7 w - d6 0 1", "e5d6", "exd6"),
        ("1n5k/P7/8/8/8/8/8/K7 w - - 0 1", "a7b8n", "axb8=N"),
        ("1n5k/P7/8/8/8/8/8/K7 w - - 0 1", "a7a8q", "a8=Q"),
        ("6k1/5ppp/8/8/8/8/8/KR6 w - - 0 1", "b1b8", "Rb8#"),
        ("6k1/8/8/8/8/8/8/R3K2R w - - 0 1", "a1d1", "Rd1"),
        ("6k1/8/8/8/4K3/8/8/R6R w - - 0 1", "a1d1", "Rad1"),
        ("R7/6k1/8/8/4K3/8/8/R7 w - - 0 1", "a1a4", "R1a4"),
        ("8/k7/8/8/4Q2Q/8/K7/7Q w - - 0 1", "h4e1", "Qh4e1"),
        ("4k3/4r3/8/8/8/4N3/8/N3K3 w - - 0 1", "a1c2", "Nc2"),  # the other one is pinned
    ],
)
def test_san(fen: str, move: str, text: str) -> None:
    position = read_fen(fen)
    legal = legal_by_name(position)
    assert san(position, move, legal) == text
    assert [each for _, each in walk([text], fen)] == [text]


def test_a_move_that_is_not_legal_is_named() -> None:
    with pytest.raises(ValueError, match="'e2e5' is no legal move in rnbqkbnr"):
        list(walk(["e2e5"]))
    with pytest.raises(ValueError, match="is no position of chess"):
        list(walk(["e2e4"], "nonsense"))


def test_pgn() -> None:
    heads = {"White": 'A "B" \\', "Black": "c", "Result": "1-0", "Rung": "x"}
    head, text, rest = write_pgn(heads, MATE).split("\n\n")
    assert head.splitlines()[3:] == [
        '[Round "?"]', '[White "A \\"B\\" \\\\"]', '[Black "c"]', '[Result "1-0"]', '[Rung "x"]'
    ]  # fmt: skip
    assert text == "1. e4 e5 2. Qh5 Nc6 3. Bc4 Nf6 4. Qxf7# 1-0" and rest == ""


def test_openings_are_named_by_the_last_position_of_a_line() -> None:
    assert str(name_opening(["e2e4", "e7e5", "g1f3", "b8c6", "f1b5", "h7h5"])) == "C60 Ruy Lopez"
    assert str(name_opening(["g1f3", "d7d5", "d2d4"])) == "D02 Queen's Pawn Game, Zukertort Variation"  # transposed
    assert str(name_opening([])) == UNNAMED
    assert all(name_opening([move]).name != UNNAMED for move in legal_by_name(read_fen(START)))


def random_game(fen: str, seed: int) -> list[str]:
    world, rng, moves = CHESS.make_world("sim", 1, seed, {"fen": fen}), np.random.default_rng(seed), list[str]()
    world.reset()
    while not world.outcome[0, 0]:
        play_randomly(world, rng)
        moves.append(move_name(int(world.last[0])))
    return moves


def check_game(chess: Any, fen: str, seed: int) -> None:
    board = chess.Board(fen)
    for (_, text), move in zip(walk(moves := random_game(fen, seed), fen), moves, strict=True):
        assert text == board.san(chess.Move.from_uci(move))
        board.push_uci(move)


def test_every_move_is_written_as_python_chess_writes_it() -> None:
    chess = python_chess()
    for seed, fen in enumerate(SPECIAL):
        check_game(chess, fen, seed)
        position, board = read_fen(fen), chess.Board(fen)
        for _ in range(3):
            legal = legal_by_name(position)
            assert {san(position, each, legal) for each in legal} == {board.san(each) for each in board.legal_moves}
            move = min(legal)
            position = played(position, legal[move])
            board.push_uci(move)


@pytest.mark.slow
def test_moves_of_many_games_are_written_as_python_chess_writes_them() -> None:
    chess = python_chess()
    for seed in range(300):
        check_game(chess, (START, *SPECIAL)[seed % (1 + len(SPECIAL))], seed)


def test_python_chess_reads_our_games() -> None:
    chess = python_chess()
    moves = random_game(START, 3)
    heads = {"White": "A B", "Result": "1/2-1/2", "Opening": "Réti"}
    found = chess.pgn.read_game(io.StringIO(write_pgn(heads, moves) + write_pgn(heads, moves[:9])))
    assert not found.errors and [each.uci() for each in found.mainline_moves()] == moves
    assert found.headers["White"] == heads["White"] and found.headers["Opening"] == "Réti"


def test_the_table_of_openings_is_chess() -> None:
    chess = python_chess()
    lines = openings()
    assert len({each.moves for each in lines}) == len({str(each) for each in lines}) == len(lines) > 80
    assert [each.eco for each in lines] == sorted(each.eco for each in lines)
    for line in lines:
        board = chess.Board()
        for move in line.moves:
            board.push_uci(move)
        assert name_opening(line.moves) == line
