"""What a player of chess sees and may choose: planes or a picture of the board, and 4,672 moves, from its own side.

Squares are numbered from the player's own left corner, 8 a rank. Whoever has Black sees the board mirrored: their own
pieces stand on the first two ranks, and the king to the right of the queen, as White's do.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract import Contract, Head, Observation, SubAction

NAME = "ChessPvP-v0"
PAWN, KNIGHT, BISHOP, ROOK, QUEEN, KING = range(1, 7)
LETTERS = " PNBRQK"  #: White's pieces by number.
SQUARES = [file + rank for rank in "12345678" for file in "abcdefgh"]
TILE = 8  #: Pixels of a side of a square in pictures that are observations.

#: Moves of a square: 7 distances in 8 directions, 8 knight's moves, and 9 promotions to less than a queen.
NUM_MOVES = 73
DIRECTIONS = [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1) if x or y]
JUMPS = [(x, y) for x in range(-2, 3) for y in range(-2, 3) if abs(x) + abs(y) == 3]
_STEPS = [(x * reach, y * reach) for reach in range(1, 8) for x, y in DIRECTIONS]
#: How far each of these moves goes to the right and forward, and what a pawn becomes that reaches the last rank.
MOVES = [*((*step, QUEEN) for step in (*_STEPS, *JUMPS)), *((x, 1, piece) for x in (-1, 0, 1) for piece in (2, 3, 4))]
NUM_ACTIONS = 64 * NUM_MOVES

_PIECES = ("pawn", "knight", "bishop", "rook", "queen", "king")
#: Of the whole board, behind the pieces of both sides.
_FACTS = {
    "own_short": "1 if the own king may still castle to the h-file.",
    "own_long": "1 if the own king may still castle to the a-file.",
    "its_short": "1 if the other king may still castle to the h-file.",
    "its_long": "1 if the other king may still castle to the a-file.",
    "en_passant": "1 where a pawn can be taken en passant: the square that it has passed.",
    "clock": "Moves of both sides since the last capture or move of a pawn, in hundreds.",
    "repeated": "0.5 if the position has been there once before, 1 if more often.",
    "white": "1 for the player who has White.",
    "turn": "1 if it is the player's turn.",
}
PLANES = [*(f"{side}_{piece}" for side in ("own", "its") for piece in _PIECES), *_FACTS]


def move_squares(action: int) -> tuple[int, int]:
    """Returns the squares from and to which an action moves; the second one is -1 if that is off the board."""
    square, (x, y, _) = action // NUM_MOVES, MOVES[action % NUM_MOVES]
    # Files first, as in PettingZoo's chess, whose actions these are.
    file, rank = divmod(square, 8)
    on_board = 0 <= file + x < 8 and 0 <= rank + y < 8
    return 8 * rank + file, 8 * (rank + y) + file + x if on_board else -1


def _actions() -> Iterator[SubAction]:
    yield SubAction("wait", "Wait for the other player.")  # No piece can leave the board: the number is free.
    for action in range(1, NUM_ACTIONS):
        (start, end), move = move_squares(action), action % NUM_MOVES
        is_promotion = move >= len(_STEPS) + len(JUMPS)
        if end < 0 or (is_promotion and end < 56):
            yield SubAction(f"none_{SQUARES[start]}_{move}", "No move: off the board.")
        else:
            piece = LETTERS[MOVES[move][2]].lower() if is_promotion else ""
            about = f" and become a {_PIECES[MOVES[move][2] - 1]}" if is_promotion else ""
            yield SubAction(
                f"{SQUARES[start]}{SQUARES[end]}{piece}", f"From {SQUARES[start]} to {SQUARES[end]}{about}."
            )


def _observations() -> Iterator[Observation]:
    for plane in PLANES:
        for square in SQUARES:
            yield Observation(f"{plane}_{square}", _FACTS.get(plane) or f"1 for a {plane.replace('_', ' ')} here.")


_HEADS = (Head("move", "The move, from the own side.", tuple(_actions())),)
CONTRACT = Contract(NAME, _HEADS, tuple(_observations()), shape=(21, 8, 8))
#: The same moves, but a picture of the board is all that is seen, see `sb3_pvp.games.chess.pixels`.
PIXELS = Contract("ChessPixelsPvP-v0", _HEADS, shape=(1, 8 * TILE, 8 * TILE), pixels=True)


def table(column: int) -> NDArray[np.int64]:
    """Returns a column of `MOVES`, int64 ``(73,)``."""
    return np.array([move[column] for move in MOVES])
