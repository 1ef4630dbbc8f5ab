"""FEN, the notation of positions, in and out."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from sb3_pvp.games.chess import rules
from sb3_pvp.games.chess.layout import KING, LETTERS, PAWN, ROOK, SQUARES
from sb3_pvp.games.chess.rules import Position

_RIGHTS = "KQkq"
#: By right: the squares of king and rook, and whose they are.
_HOMES = ((4, 7, 1), (4, 0, 1), (60, 63, -1), (60, 56, -1))
_LARGEST = 9999  # of a clock or a number: positions are int16


def read_fen(fen: str) -> Position:
    """Returns the position of a FEN, which may lack the last two fields; `ValueError`, one line, if it is none."""
    return _read(fen).copy()


@lru_cache(1024)
def _read(fen: str) -> Position:
    fields = fen.split()
    if len(fields) not in (4, 6):
        raise _wrong(fen, f"it has {len(fields)} fields instead of 6")
    board, side, castling, passed, *clocks = fields
    position = np.zeros(rules.SIZE, np.int16)
    position[:64] = _squares(fen, board)
    if side not in ("w", "b"):
        raise _wrong(fen, f"the side to move is w or b, not {side!r}")
    if castling != "-" and not re.fullmatch("K?Q?k?q?", castling):
        raise _wrong(fen, f"the rights to castle are some of KQkq in this order, or -, not {castling!r}")
    position[rules.RIGHTS] = sum(1 << _RIGHTS.index(each) for each in castling if each != "-")
    for right, (king, rook, white) in enumerate(_HOMES):
        at_home = position[king] == white * KING and position[rook] == white * ROOK
        if position[rules.RIGHTS] >> right & 1 and not at_home:
            raise _wrong(fen, f"{_RIGHTS[right]!r} needs king and rook at home")
    if not all(re.fullmatch("[0-9]{1,4}", each) for each in clocks):
        raise _wrong(fen, f"its clocks are numbers up to {_LARGEST}, not {' '.join(clocks)}")
    clock, number = map(int, clocks or "01")
    position[rules.CLOCK], position[rules.NUMBER] = clock, max(number, 1)
    position[rules.PASSED] = _passed(fen, position, side, passed)
    if side == "b":
        rules.turn_round(position)  # so far White was to move
    _check_kings(fen, position)
    moves = np.empty(rules.MOST_MOVES, np.int64)
    rules.settle(position, moves, rules.legal_moves(position, moves))
    return position


def _wrong(fen: str, why: str) -> ValueError:
    return ValueError(f"{fen[:100]!r} is no position of chess: {why}")


def _squares(fen: str, board: str) -> list[int]:
    """Returns the pieces on the 64 squares, White's positive."""
    ranks = board.split("/")
    if len(ranks) != 8:
        raise _wrong(fen, f"it has {len(ranks)} ranks instead of 8")
    squares: list[int] = []
    for number, rank in zip(range(8, 0, -1), ranks, strict=True):
        pieces: list[int] = []
        for letter in rank:
            if letter in "12345678":
                pieces += [0] * int(letter)
            elif letter.upper() in LETTERS[1:]:
                pieces.append(LETTERS.index(letter.upper()) * (1 if letter.isupper() else -1))
            else:
                raise _wrong(fen, f"{letter!r} is no piece")
        if len(pieces) != 8 or re.search("[1-8]{2}", rank):
            raise _wrong(fen, f"rank {number} is {rank!r}, which is not 8 squares")
        if number in (1, 8) and {PAWN, -PAWN} & {*pieces}:
            raise _wrong(fen, f"a pawn stands on rank {number}")
        squares = pieces + squares
    for color, sign in (("White", 1), ("Black", -1)):
        own = [piece * sign for piece in squares if piece * sign > 0]
        if own.count(KING) != 1:
            raise _wrong(fen, f"{color} has {own.count(KING)} kings")
        if len(own) > 16 or own.count(PAWN) > 8:
            raise _wrong(fen, f"{color} has {len(own)} pieces, {own.count(PAWN)} of them pawns")
    return squares


def _passed(fen: str, position: Position, side: str, passed: str) -> int:
    """Returns the square that a pawn has passed, -1 for none."""
    if passed == "-":
        return -1
    square = SQUARES.index(passed) if passed in SQUARES else -1
    forward, rank, pawn = (8, 5, -PAWN) if side == "w" else (-8, 2, PAWN)
    if square >> 3 != rank:
        raise _wrong(fen, f"no pawn can be taken en passant on {passed!r}")
    if position[square] or position[square + forward] or position[square - forward] != pawn:
        raise _wrong(fen, f"no pawn has just passed {passed}")
    return square


def _check_kings(fen: str, position: Position) -> None:
    """Refuses a position in which the side to move could take the king."""
    other = position.copy()
    rules.turn_round(other)
    if rules.attacked(other, rules.king_of(other)):
        raise _wrong(fen, "the king of the side that is not to move is in check")


def as_white(position: Position) -> Position:
    """Returns a copy of a position as White sees it."""
    seen = position.copy()
    if seen[rules.BLACK]:
        rules.turn_round(seen)
    return seen


def write_fen(position: Position) -> str:
    """Returns the FEN of a position; it names a square en passant only if a pawn can be taken there."""
    seen = as_white(position)
    ranks = []
    for rank in range(7, -1, -1):
        pieces = seen[8 * rank : 8 * rank + 8].tolist()
        letters = "".join(
            (LETTERS[abs(each)].lower() if each < 0 else LETTERS[each]) if each else "." for each in pieces
        )
        ranks.append(re.sub(r"\.+", lambda gap: str(len(gap[0])), letters))
    rights = "".join(letter for right, letter in enumerate(_RIGHTS) if seen[rules.RIGHTS] >> right & 1) or "-"
    passed = SQUARES[seen[rules.PASSED]] if seen[rules.PASSED] >= 0 else "-"
    side = "b" if position[rules.BLACK] else "w"
    return f"{'/'.join(ranks)} {side} {rights} {passed} {seen[rules.CLOCK]} {seen[rules.NUMBER]}"


def move_name(move: int) -> str:
    """Returns a move of `rules.play_move` as UCI writes it, such as ``e7e8q``."""
    return SQUARES[move & 63] + SQUARES[move >> 6 & 63] + LETTERS[move >> 12].lower().strip()


def perft(fen: str, depth: int) -> int:
    """Returns how many sequences of ``depth`` legal moves a position has; `ValueError` if the FEN is no position."""
    position = read_fen(fen)
    if depth < 0:
        raise ValueError(f"the depth of perft is at least 0, got {depth}")
    return int(rules.count_games(position, depth)) if depth else 1
