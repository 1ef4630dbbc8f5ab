"""The rules of chess, in Numba, for one position and for many boards at once.

A position is always seen from the side to move: its own pieces are positive numbers, and its pawns go towards higher
squares. To pass the turn is to turn the board round, so that no rule has to be written twice. All that is compiled is
in this file, see `sb3_pvp.common.compiled`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.compiled import compiled, compiled_with_arrays
from sb3_pvp.games.chess.layout import BISHOP, KING, KNIGHT, NUM_MOVES, PAWN, PLANES, QUEEN, ROOK, table

Ints = NDArray[np.int64]
#: 64 squares: 0, or a piece, negative if it is the opponent's; then what follows, int16 ``(69,)``.
Position = NDArray[np.int16]
RIGHTS = 64  #: To castle, bits: own short, own long, the opponent's short, the opponent's long.
PASSED = 65  #: The square on which a pawn can be taken en passant; -1: none.
CLOCK = 66  #: Moves of both sides since the last capture or move of a pawn.
NUMBER = 67  #: Of the full move.
BLACK = 68  #: 1 if Black is to move.
SIZE = 69

#: How a game has ended. The last two are draws that a player may claim.
ENDINGS = (
    "",
    "checkmate",
    "stalemate",
    "insufficient material",
    "75 moves",
    "fivefold repetition",
    "50 moves",
    "threefold repetition",
)
(RUNNING, CHECKMATE, STALEMATE, MATERIAL, MOVES_75, FIVEFOLD, MOVES_50, THREEFOLD) = range(8)
MOST_MOVES = 512  #: More than any position has.
HISTORY = 152  #: Positions since the last capture or move of a pawn; the 75-move rule ends a game before.

#: Numbers of planes; those of the pieces come first, own and then the opponent's.
_RIGHTS_PLANE, _PASSED_PLANE, _CLOCK_PLANE, _REPEATED_PLANE, _WHITE_PLANE, _TURN_PLANE = map(
    PLANES.index, ("own_short", "en_passant", "clock", "repeated", "white", "turn")
)
_EAST, _NORTH, _BECOMES = table(0), table(1), table(2)
_JUMPS, _PROMOTIONS = 56, 64
_WORTH = np.array([0, 1, 3, 3, 5, 9, 0])  #: Of a piece in pawns, by number.
#: Directions of `layout.DIRECTIONS` by number: forward, and forward to both sides.
_FORWARD, _FORWARD_LEFT, _FORWARD_RIGHT = 4, 2, 7
#: The rights that are left when a piece moves from or to a square.
_KEPT = np.full(64, 15)
_KEPT[[0, 4, 7, 56, 60, 63]] = 13, 12, 14, 7, 3, 11


def _random_bits(count: int) -> NDArray[np.uint64]:
    """Returns numbers with which positions are hashed, by SplitMix64: the same on every machine, in every version."""
    state = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    return state ^ (state >> np.uint64(31))


#: By square and piece, then by rights, square en passant, and side to move.
_BITS = _random_bits(64 * 13 + 16 + 64 + 1)


@compiled
def attacked(position: Position, square: int) -> bool:
    """Returns whether the opponent attacks a square."""
    rank, file = square >> 3, square & 7
    for direction in range(8):
        east, north = _EAST[direction], _NORTH[direction]
        x, y, reach = file + east, rank + north, 1
        while 0 <= x < 8 and 0 <= y < 8:
            piece = -position[8 * y + x]
            if piece != 0:
                slider = ROOK if east == 0 or north == 0 else BISHOP
                if piece in (QUEEN, slider):
                    return True
                if reach == 1 and (piece == KING or (piece == PAWN and north == 1 and east != 0)):
                    return True
                break
            x, y, reach = x + east, y + north, reach + 1
    for jump in range(_JUMPS, _PROMOTIONS):
        x, y = file + _EAST[jump], rank + _NORTH[jump]
        if 0 <= x < 8 and 0 <= y < 8 and position[8 * y + x] == -KNIGHT:
            return True
    return False


@compiled
def king_of(position: Position) -> int:
    """Returns the square of the king of the side to move."""
    for square in range(64):
        if position[square] == KING:
            return square
    return -1


@compiled
def _is_safe(position: Position, start: int, end: int, king: int) -> bool:
    """Returns whether the own king is safe after a move, which is taken back."""
    piece, taken = position[start], position[end]
    passed = -1
    if piece == PAWN and end == position[PASSED]:
        passed = end - 8
        position[passed] = 0
    position[start], position[end] = 0, piece
    safe = not attacked(position, end if piece == KING else king)
    position[start], position[end] = piece, taken
    if passed >= 0:
        position[passed] = -PAWN
    return safe


@compiled
def _add(position: Position, start: int, move: int, king: int, check: bool, moves: Ints, count: int) -> int:
    """Appends a move if it leaves the king safe; returns the number of moves."""
    end = start + 8 * _NORTH[move] + _EAST[move]
    piece = position[start]
    # Only whoever leaves a line to the king can uncover it, while there is no check.
    x, y = (start & 7) - (king & 7), (start >> 3) - (king >> 3)
    in_line = x == 0 or y == 0 or x == y or x == -y
    is_risky = check or in_line or (piece == PAWN and end == position[PASSED])
    if is_risky and not _is_safe(position, start, end, king):
        return count
    first = ((start & 7) * 8 + (start >> 3)) * NUM_MOVES
    moves[count] = first + move
    count += 1
    if piece == PAWN and end >= 56:
        for lesser in range(3):
            moves[count] = first + _PROMOTIONS + 3 * (_EAST[move] + 1) + lesser
            count += 1
    return count


@compiled
def _pawn_moves(position: Position, start: int, king: int, check: bool, moves: Ints, count: int) -> int:
    if position[start + 8] == 0:
        count = _add(position, start, _FORWARD, king, check, moves, count)
        if start < 16 and position[start + 16] == 0:
            count = _add(position, start, 8 + _FORWARD, king, check, moves, count)
    for move in (_FORWARD_LEFT, _FORWARD_RIGHT):
        if 0 <= (start & 7) + _EAST[move] < 8:
            end = start + 8 + _EAST[move]
            if position[end] < 0 or end == position[PASSED]:
                count = _add(position, start, move, king, check, moves, count)
    return count


@compiled
def _castling(position: Position, moves: Ints, count: int) -> int:
    """Appends castling, neither through check nor into it; there is none now."""
    first = 4 * 8 * NUM_MOVES  # from e1
    is_free = position[5] == 0 and position[6] == 0
    if position[RIGHTS] & 1 and is_free and not attacked(position, 5) and not attacked(position, 6):
        moves[count] = first + 8 + 6  # two squares to the right
        count += 1
    is_free = position[1] == 0 and position[2] == 0 and position[3] == 0
    if position[RIGHTS] & 2 and is_free and not attacked(position, 3) and not attacked(position, 2):
        moves[count] = first + 8 + 1
        count += 1
    return count


@compiled
def legal_moves(position: Position, moves: Ints) -> int:
    """Writes the actions that are legal moves to ``moves``, int64 ``(MOST_MOVES,)``, and returns their number."""
    king, count = king_of(position), 0
    check = attacked(position, king)
    for start in range(64):
        piece = position[start]
        if piece <= 0:
            continue
        if piece == PAWN:
            count = _pawn_moves(position, start, king, check, moves, count)
            continue
        rank, file = start >> 3, start & 7
        slides = BISHOP <= piece <= QUEEN
        for number in range(8):
            move = _JUMPS + number if piece == KNIGHT else number
            east, north = _EAST[move], _NORTH[move]
            straight = east == 0 or north == 0
            if (piece == ROOK and not straight) or (piece == BISHOP and straight):
                continue
            x, y = file + east, rank + north
            while 0 <= x < 8 and 0 <= y < 8:
                there = position[8 * y + x]
                if there > 0:
                    break
                count = _add(position, start, move, king, check, moves, count)
                if there < 0 or not slides:
                    break
                x, y, move = x + east, y + north, move + 8
    if not check and position[RIGHTS] & 3:
        count = _castling(position, moves, count)
    return count


@compiled
def turn_round(position: Position) -> None:
    """Passes the turn: turns the board round and changes the sides."""
    for square in range(32):
        other = square ^ 56
        position[square], position[other] = -position[other], -position[square]
    position[RIGHTS] = (position[RIGHTS] >> 2) | ((position[RIGHTS] & 3) << 2)
    if position[PASSED] >= 0:
        position[PASSED] ^= 56
    position[BLACK] ^= 1


@compiled
def play_move(position: Position, action: int) -> int:
    """Plays a legal action and passes the turn; returns the move: from, 64 times to, 4,096 times the promotion.

    These are squares of the board as White sees it.
    """
    square, move = action // NUM_MOVES, action % NUM_MOVES
    start = 8 * (square & 7) + (square >> 3)
    end = start + 8 * _NORTH[move] + _EAST[move]
    piece, taken, becomes = position[start], position[end], 0
    passed = -1
    if piece == PAWN:
        if end == position[PASSED]:
            position[end - 8] = 0
        if end - start == 16:
            passed = start + 8
        if end >= 56:
            becomes = _BECOMES[move]
    elif piece == KING and end - start == 2:
        position[7], position[5] = 0, ROOK
    elif piece == KING and start - end == 2:
        position[0], position[3] = 0, ROOK
    position[start], position[end] = 0, becomes if becomes else piece
    position[RIGHTS] &= _KEPT[start] & _KEPT[end]
    position[PASSED] = passed
    position[CLOCK] = 0 if piece == PAWN or taken != 0 else position[CLOCK] + 1
    position[NUMBER] += position[BLACK]
    flip = 56 if position[BLACK] else 0
    turn_round(position)
    return int((start ^ flip) + 64 * (end ^ flip) + 4096 * becomes)


@compiled
def settle(position: Position, moves: Ints, count: int) -> None:
    """Forgets the square of a capture en passant that is not legal: no rule of repetition knows it."""
    if position[PASSED] < 0:
        return
    for index in range(count):
        square, move = moves[index] // NUM_MOVES, moves[index] % NUM_MOVES
        start = 8 * (square & 7) + (square >> 3)
        if position[start] == PAWN and start + 8 * _NORTH[move] + _EAST[move] == position[PASSED]:
            return
    position[PASSED] = -1


@compiled
def key_of(position: Position) -> np.uint64:
    """Returns a hash of all that makes two positions the same, see `settle`."""
    key: np.uint64 = _BITS[64 * 13 + position[RIGHTS]]
    for square in range(64):
        if position[square] != 0:
            key ^= _BITS[13 * square + position[square] + 6]
    if position[PASSED] >= 0:
        key ^= _BITS[64 * 13 + 16 + position[PASSED]]
    if position[BLACK]:
        key ^= _BITS[64 * 13 + 16 + 64]
    return key


@compiled
def _lacks_material(position: Position) -> bool:
    """Returns whether no moves whatever can mate: kings with one knight, or with bishops on one colour of squares."""
    knights, light, dark = 0, 0, 0
    for square in range(64):
        piece = abs(position[square])
        if piece in (PAWN, ROOK, QUEEN):
            return False
        if piece == KNIGHT:
            knights += 1
        elif piece == BISHOP:
            if ((square >> 3) + square) & 1:
                light += 1
            else:
                dark += 1
    if knights:
        return knights == 1 and light + dark == 0
    return light == 0 or dark == 0


@compiled
def ending_of(position: Position, count: int, before: int, claims: bool) -> int:
    """Returns how the game has ended (`ENDINGS`), 0 if it goes on.

    ``count`` is the number of legal moves, ``before`` how often the position has been there before, and ``claims``
    whether what a player may claim is a draw.
    """
    if count == 0 and attacked(position, king_of(position)):
        return CHECKMATE
    if _lacks_material(position):
        return MATERIAL
    if count == 0:
        return STALEMATE
    if position[CLOCK] >= 150:
        return MOVES_75
    if before >= 4:
        return FIVEFOLD
    if claims and position[CLOCK] >= 100:
        return MOVES_50
    if claims and before >= 2:
        return THREEFOLD
    return RUNNING


@compiled_with_arrays
def count_games(position: Position, depth: int) -> int:
    """Returns the number of sequences of ``depth`` legal moves, at least one."""
    moves = np.empty(MOST_MOVES, np.int64)
    if depth == 1:
        return legal_moves(position, moves)
    # A stack of positions and of the moves that are left in each, instead of recursion.
    positions, lists = np.empty((depth, SIZE), np.int16), np.empty((depth, MOST_MOVES), np.int64)
    left, level, total = np.zeros(depth, np.int64), 0, 0
    positions[0] = position
    left[0] = legal_moves(positions[0], lists[0])
    while level >= 0:
        if left[level] == 0:
            level -= 1
            continue
        left[level] -= 1
        positions[level + 1] = positions[level]
        play_move(positions[level + 1], lists[level, left[level]])
        found = legal_moves(positions[level + 1], lists[level + 1])
        if level + 2 == depth:
            total += found
        else:
            level += 1
            left[level] = found
    return total


@compiled_with_arrays
def play_boards(
    fights: Ints,
    actions: Ints,
    begins: bool,
    games: tuple[Position, NDArray[np.uint64], Ints, Ints, NDArray[np.bool_]],
    last: Ints,
    endings: Ints,
    masks: NDArray[np.bool_],
    obs: NDArray[np.float32],
    gains: NDArray[np.int8],
) -> None:
    """Plays a move on some boards, or none if the games begin, and writes all that follows.

    Args:
        fights: numbers of the boards ``(N,)``.
        actions: of both seats ``(N, 2, 1)``; if the mover's is not legal, its first legal one is played.
        begins: whether the games begin at these positions.
        games: positions ``(F, 69)``; hashes of the positions since the last capture or move of a pawn ``(F, 152)``,
            and how many they are ``(F,)``; the seats that have White ``(F,)``; whether draws are claimed ``(F,)``.
        last, endings: the last moves and how games have ended ``(F,)``, written.
        masks, obs: ``(F, 2, 4672)`` and ``(F, 2, 1344)``, written; ``obs`` may have no rows.
        gains: what each seat has won in pawns with the move ``(F, 2)``, written; what it has lost is negative.
    """
    positions, keys, known, white, claims = games
    moves = np.empty(MOST_MOVES, np.int64)
    for index, fight in enumerate(fights):
        position = positions[fight]
        gains[fight] = 0
        if not begins:
            mover = white[fight] ^ position[BLACK]
            action = actions[index, mover, 0]
            if not masks[fight, mover, action]:
                action = np.argmax(masks[fight, mover])
            gain = -_balance(position)
            last[fight] = play_move(position, action)
            gain -= _balance(position)  # which the other player sees now
            gains[fight, mover], gains[fight, 1 - mover] = gain, -gain
            if position[CLOCK] == 0:
                known[fight] = 0
        count = legal_moves(position, moves)
        settle(position, moves, count)
        key, before = key_of(position), 0
        for earlier in range(known[fight]):
            before += keys[fight, earlier] == key
        keys[fight, known[fight]] = key
        known[fight] += 1
        endings[fight] = ending_of(position, count, before, claims[fight])
        mover = white[fight] ^ position[BLACK]
        masks[fight] = False
        masks[fight, 1 - mover, 0] = True
        for number in range(count):
            masks[fight, mover, moves[number]] = True
        if len(obs) == 0:
            continue
        obs[fight] = 0.0
        _see(position, before, False, obs[fight, mover])
        _see(position, before, True, obs[fight, 1 - mover])


@compiled
def _balance(position: Position) -> int:
    """Returns by how many pawns the pieces of the side to move are worth more than the other one's."""
    balance = 0
    for square in range(64):
        piece = position[square]
        balance += _WORTH[piece] if piece >= 0 else -_WORTH[-piece]
    return balance


@compiled
def _see(position: Position, before: int, waits: bool, seen: NDArray[np.float32]) -> None:
    """Writes what the side to move sees, or the one that waits, to zeros ``(1344,)``."""
    flip, sign, turn = (56, -1, 2) if waits else (0, 1, 0)
    for square in range(64):
        piece = position[square] * sign
        if piece != 0:
            seen[64 * (piece - 1 if piece > 0 else 5 - piece) + (square ^ flip)] = 1.0
    for right in range(4):
        if position[RIGHTS] >> right & 1:
            plane = 64 * (_RIGHTS_PLANE + (right ^ turn))
            seen[plane : plane + 64] = 1.0
    if position[PASSED] >= 0:
        seen[64 * _PASSED_PLANE + (position[PASSED] ^ flip)] = 1.0
    seen[64 * _CLOCK_PLANE : 64 * _REPEATED_PLANE] = np.float32(position[CLOCK] / 100)
    seen[64 * _REPEATED_PLANE : 64 * _WHITE_PLANE] = np.float32(min(before, 2) / 2)
    seen[64 * _WHITE_PLANE : 64 * _TURN_PLANE] = (position[BLACK] == 1) == waits
    seen[64 * _TURN_PLANE : 64 * (_TURN_PLANE + 1)] = not waits
