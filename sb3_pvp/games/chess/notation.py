"""Moves and games as people write them: SAN, PGN, and the names of openings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from textwrap import fill
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.chess import rules
from sb3_pvp.games.chess.fen import as_white, move_name, read_fen, write_fen
from sb3_pvp.games.chess.layout import LETTERS, PAWN, PLANES, SQUARES
from sb3_pvp.games.chess.params import START
from sb3_pvp.games.chess.rules import Position

UNNAMED = "another line"  #: Of games that are in no line of the table.
RESULTS = ("1-0", "0-1", "1/2-1/2")
_HEADS = ("Event", "Site", "Date", "Round", "White", "Black", "Result")  # the seven that every game has


def position_of(observation: NDArray[np.float32]) -> Position:
    """Returns the position that the side to move sees ``(1344,)``; the number of the move is 1, as nobody sees it."""
    planes, position = observation.reshape(len(PLANES), 64), np.zeros(rules.SIZE, np.int16)
    for number in range(6):
        position[:64] += ((number + 1) * (planes[number] - planes[6 + number])).astype(np.int16)
    facts = dict(zip(PLANES[12:], planes[12:], strict=True))
    rights = ("own_short", "own_long", "its_short", "its_long")
    position[rules.RIGHTS] = sum(1 << bit for bit, name in enumerate(rights) if facts[name][0])
    position[rules.PASSED] = np.argmax(facts["en_passant"]) if facts["en_passant"].any() else -1
    position[rules.CLOCK], position[rules.NUMBER] = round(float(facts["clock"][0]) * 100), 1
    position[rules.BLACK] = not facts["white"][0]
    return position


def legal_by_name(position: Position) -> dict[str, int]:
    """Returns the legal actions by move, such as ``e7e8q``, as White sees the board."""
    moves = np.empty(rules.MOST_MOVES, np.int64)
    count = rules.legal_moves(position, moves)
    return {move_name(rules.play_move(position.copy(), action)): action for action in moves[:count].tolist()}


def played(position: Position, action: int) -> Position:
    """Returns the position after a legal action."""
    after, moves = position.copy(), np.empty(rules.MOST_MOVES, np.int64)
    rules.play_move(after, action)
    rules.settle(after, moves, rules.legal_moves(after, moves))
    return after


def san(position: Position, move: str, legal: Mapping[str, int]) -> str:
    """Returns a legal move as PGN writes it, such as ``exd6``, ``Nbd2`` or ``O-O+``; ``legal`` as `legal_by_name`."""
    board, start, end = as_white(position), SQUARES.index(move[:2]), SQUARES.index(move[2:4])
    piece, takes = abs(int(board[start])), bool(board[end])
    if piece == PAWN:
        takes = move[0] != move[2]
        text = (f"{move[0]}x" if takes else "") + move[2:4] + (f"={move[4:].upper()}" if move[4:] else "")
    elif LETTERS[piece] == "K" and abs(start - end) == 2:
        text = "O-O" if end > start else "O-O-O"
    else:
        others = [
            each for each in legal
            if each[2:4] == move[2:4] and each[:2] != move[:2] and board[SQUARES.index(each[:2])] == board[start]
        ]  # fmt: skip
        same_file, same_rank = (any(each[part] == move[part] for each in others) for part in (0, 1))
        which = "" if not others else move[0] if not same_file else move[1] if not same_rank else move[:2]
        text = LETTERS[piece] + which + "x" * takes + move[2:4]
    after, moves = played(position, legal[move]), np.empty(rules.MOST_MOVES, np.int64)
    if not rules.attacked(after, rules.king_of(after)):
        return text
    return text + ("+" if rules.legal_moves(after, moves) else "#")


def walk(moves: Sequence[str], fen: str = START) -> Iterator[tuple[Position, str]]:
    """Yields the position after each move (UCI's or SAN), and the move as SAN.

    Raises `ValueError` for a move that is not legal, and for a FEN that is no position.
    """
    position = read_fen(fen)
    for move in moves:
        legal = legal_by_name(position)
        written = {san(position, each, legal): each for each in legal if move not in legal or each == move}
        if move not in legal and move not in written:
            raise ValueError(f"{move!r} is no legal move in {write_fen(position)}")
        chosen = move if move in legal else written[move]
        text = next(each for each, name in written.items() if name == chosen)
        position = played(position, legal[chosen])
        yield position, text


def write_pgn(heads: Mapping[str, str], moves: Sequence[str]) -> str:
    """Returns a game from the start of chess as PGN, with an empty line behind it.

    ``heads`` are its tags, of which ``Result`` is one; ``moves`` as UCI writes them.
    """
    complete = {name: heads.get(name, "????.??.??" if name == "Date" else "?") for name in _HEADS} | {**heads}
    words = []
    for ply, (_, text) in enumerate(walk(moves)):
        words += [f"{ply // 2 + 1}. {text}" if ply % 2 == 0 else text]
    escaped = {name: text.replace("\\", "\\\\").replace('"', '\\"') for name, text in complete.items()}
    tags = [f'[{name} "{text}"]' for name, text in escaped.items()]
    body = fill(" ".join([*words, complete["Result"]]), 79, break_long_words=False, break_on_hyphens=False)
    return "\n".join([*tags, "", body, "", ""])


class Opening(NamedTuple):
    """A named line."""

    eco: str  #: Its code in the Encyclopaedia of Chess Openings, such as ``B90``.
    name: str
    moves: tuple[str, ...]  #: As UCI writes them.

    def __str__(self) -> str:
        return f"{self.eco} {self.name}" if self.eco else self.name


@cache
def openings() -> tuple[Opening, ...]:
    """Returns the lines of the table, in the order of their codes."""
    return tuple(opening for opening, _ in _table())


def name_opening(moves: Sequence[str]) -> Opening:
    """Returns the last line of the table that a game has been in, by its positions, of its moves as UCI writes them."""
    known = {key: opening for opening, key in _table()}
    longest = max(len(opening.moves) for opening, _ in _table())
    keys = [_key(position) for position, _ in walk(moves[: longest + 4])]
    return next((known[key] for key in reversed(keys) if key in known), Opening("", UNNAMED, ()))


@cache
def _table() -> tuple[tuple[Opening, str], ...]:
    """Returns the lines with a key of their positions."""
    rows = []
    for line in (files(__package__) / "data" / "openings.tsv").read_text("utf-8").splitlines():
        eco, name, text = line.split("\t")
        position, moves = read_fen(START), list[str]()
        for word in text.split():
            legal = legal_by_name(position)
            moves.append(next(each for each in legal if san(position, each, legal) == word))
            position = played(position, legal[moves[-1]])
        rows.append((Opening(eco, name, tuple(moves)), _key(position)))
    return tuple(rows)


def _key(position: Position) -> str:
    return " ".join(write_fen(position).split()[:4])
