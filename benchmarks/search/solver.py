"""An exact solver of connect four, with which answers are compared: alpha-beta over bits, with a table.

A position is two numbers of 49 bits: the pieces of the side to move, and all pieces. A column has seven bits, from the
bottom, of which the last one stays empty, so that no four in a row goes round an edge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.connect_four import COLUMNS, ROWS

_HEIGHT = ROWS + 1
_BOTTOM = sum(1 << _HEIGHT * column for column in range(COLUMNS))
_BOARD = _BOTTOM * ((1 << ROWS) - 1)
_ORDER = np.array(sorted(range(COLUMNS), key=lambda column: abs(column - COLUMNS // 2)))
_BITS = 22  #: Of the table's size.
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _compiled(function: _Function) -> _Function:
    # Not kept on disk: recursive functions that Numba reads from there crash.
    return cast("_Function", numba.njit(error_model="numpy")(function))


def solved(boards: NDArray[np.int64], movers: NDArray[np.int64]) -> NDArray[np.int8]:
    """Returns how each move of positions ends if both play best, int8 ``(B, 7)``: 1 won, 0 tied, -1 lost, -2 illegal.

    Args:
        boards: the seat that has a piece there, or -1, ``(B, 6, 7)``; row 0 is the top.
        movers: the seat to move ``(B,)``.
    """
    keys, values = np.zeros(1 << _BITS, np.int64), np.zeros(1 << _BITS, np.int8)
    found = np.full((len(boards), COLUMNS), -2, np.int8)
    for row, (board, mover) in enumerate(zip(boards, movers.tolist(), strict=True)):
        own, everything = 0, 0
        for y, x in np.argwhere(board >= 0).tolist():
            bit = 1 << _HEIGHT * x + ROWS - 1 - y
            everything |= bit
            own |= bit if board[y, x] == mover else 0
        for column in np.flatnonzero(board[0] < 0).tolist():
            found[row, column] = _after(own, everything, column, keys, values)
    return found


@_compiled
def _after(own: int, everything: int, column: int, keys: NDArray[np.int64], values: NDArray[np.int8]) -> int:
    """Returns how a move ends for who makes it."""
    move = (everything + (1 << _HEIGHT * column)) & (((1 << ROWS) - 1) << _HEIGHT * column)
    move &= ~everything
    if _has_four(own | move):
        return 1
    return -_value(own ^ everything, everything | move, -1, 1, keys, values)


@_compiled
def _has_four(pieces: int) -> bool:
    for step in (1, _HEIGHT, _HEIGHT - 1, _HEIGHT + 1):
        pairs = pieces & (pieces >> step)
        if pairs & (pairs >> 2 * step):
            return True
    return False


@_compiled
def _winning_cells(own: int, everything: int) -> int:
    """Returns the empty cells that would complete four in a row, reachable or not."""
    found = (own << 1) & (own << 2) & (own << 3)
    for step in (_HEIGHT, _HEIGHT - 1, _HEIGHT + 1):
        pairs = (own << step) & (own << 2 * step)
        found |= pairs & (own << 3 * step)
        found |= pairs & (own >> step)
        pairs = (own >> step) & (own >> 2 * step)
        found |= pairs & (own << step)
        found |= pairs & (own >> 3 * step)
    return found & (_BOARD ^ everything)


@_compiled
def _value(own: int, everything: int, low: int, high: int, keys: NDArray[np.int64], values: NDArray[np.int8]) -> int:
    """Returns 1, 0 or -1 for the side to move, or a bound outside ``low`` to ``high``."""
    if everything == _BOARD:
        return 0
    reachable = (everything + _BOTTOM) & _BOARD
    if _winning_cells(own, everything) & reachable:
        return 1
    threats = _winning_cells(own ^ everything, everything)
    forced = threats & reachable
    if forced:
        if forced & (forced - 1):
            return -1  # two of them at once
        reachable = forced
    reachable &= ~(threats >> 1)  # a move below a threat lets the other side complete it
    if reachable == 0:
        # All moves lose, unless the board is full after one.
        return 0 if everything | (everything + _BOTTOM) & _BOARD == _BOARD and not forced else -1
    key = everything + own + _BOTTOM
    # The low bits are those of one column: mixed, so that positions spread over the table.
    slot = ((key * 0x9E3779B97F4A7C1) >> 20) & ((1 << _BITS) - 1)
    if keys[slot] == key:
        known = values[slot]
        lower, upper = known // 4 - 1, known % 4 - 1
        low, high = max(low, lower), min(high, upper)
        if low >= high:
            return low if lower >= high else high
    else:
        lower, upper = -1, 1
    best, start = -1, low
    for column in _ORDER:
        move = reachable & (((1 << ROWS) - 1) << _HEIGHT * column)
        if move:
            value = -_value(own ^ everything, everything | move, -high, -low, keys, values)
            best, low = max(best, value), max(low, value)
            if low >= high:
                break
    # What is known: exact within the window, else a bound.
    if best > start or best == -1:
        lower = max(lower, best)
    if best < high or best == 1:
        upper = min(upper, best)
    keys[slot], values[slot] = key, (lower + 1) * 4 + upper + 1
    return best
