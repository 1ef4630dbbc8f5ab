"""The viewer of chess: boards as text, as pictures and on pages, and what a human may do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.arguments import from_plain
from sb3_pvp.common.errors import extra
from sb3_pvp.game import Control, ControlGroup, Outcome
from sb3_pvp.games.chess.layout import CONTRACT, SQUARES

_WHITE, _BLACK, _SQUARE, _PLAIN = "\x1b[97m", "\x1b[95m", "\x1b[90m", "\x1b[0m"


@dataclass(frozen=True)
class ChessScene:
    """A moment of a game; the outcome is that of the first seat."""

    tick: int
    names: tuple[str, ...]
    outcome: str
    fen: str
    white: int  #: The seat that has White.
    move: str  #: The last move as UCI writes it, such as ``e2e4``; empty at the start.
    ending: str  #: How the game has ended, such as ``checkmate``; empty while it goes on.
    check: bool = False  #: Whether the king of the side to move is attacked.
    seat: int = -1  #: That of the player for whom the board is turned; -1: White is below.


class ChessViewer:
    """The `sb3_pvp.game.Viewer` of chess. Both players see everything."""

    def scene(self, world: Any, fight: int, names: Sequence[str], actions: Any = None, masks: Any = None) -> ChessScene:
        """See `sb3_pvp.game.Viewer.scene`; choices are not shown, but the last move."""
        from sb3_pvp.games.chess.fen import move_name  # here, because it imports Numba
        from sb3_pvp.games.chess.rules import ENDINGS, attacked, king_of

        outcome, last = Outcome(int(world.outcome[fight, 0])).name.lower(), int(world.last[fight])
        move = move_name(last) if last >= 0 else ""
        moment = int(world.ticks[fight]), tuple(names), outcome, world.fen(fight)
        position = world.positions[fight]
        check = bool(attacked(position, king_of(position)))
        return ChessScene(*moment, int(world.white[fight]), move, ENDINGS[world.endings[fight]], check)

    def seen(
        self, world: Any, fight: int, names: Sequence[str], seat: int, actions: Any = None, masks: Any = None
    ) -> ChessScene:
        """Returns the scene, with the board turned to the player of this seat."""
        return replace(self.scene(world, fight, names), seat=seat)

    def text(self, scene: ChessScene, color: bool = True) -> str:
        """Returns a line for the game, the board, and the last move or the end."""
        letters = "".join(_board(scene.fen).values())
        rows = [f"{rank + 1} " + " ".join(letters[8 * rank : 8 * rank + 8]) for rank in range(7, -1, -1)]
        files = "  a b c d e f g h"
        if scene.seat >= 0 and scene.seat != scene.white:
            rows, files = [row[:2] + row[:1:-1] for row in rows[::-1]], files[:2] + files[:1:-1]
        if color:
            rows = [row[:2] + "".join(map(_painted, row[2:])) for row in rows]
        white, black = scene.names[scene.white], scene.names[1 - scene.white]
        side = "White" if scene.fen.split()[1] == "w" else "Black"
        state = scene.ending or f"{side} to move"
        first = f"ply {scene.tick}, {white} (White) against {black} (Black): {scene.outcome}"
        return "\n".join([first, *rows, files, f"{scene.move}, {state}" if scene.move else state])

    def picture(self, scene: ChessScene) -> NDArray[np.uint8]:
        """Returns the board, uint8 ``(512, 512, 3)``, pieces as letters; `MissingExtra` without pygame."""
        with extra("render", "pictures"):
            import pygame  # here: it is an optional dependency

        pygame.font.init()
        font, surface = pygame.font.Font(None, 56), pygame.Surface((512, 512))
        ranks = self.text(scene, color=False).split("\n")[1:9]
        for row, column in np.ndindex(8, 8):
            dark = (row + column) % 2  # the same from both sides
            pygame.draw.rect(surface, (118, 150, 86) if dark else (238, 238, 210), (64 * column, 64 * row, 64, 64))
            letter = ranks[row][2 + 2 * column]
            if letter != ".":
                paint, middle = (255, 255, 255) if letter.isupper() else (0, 0, 0), (64 * column + 32, 64 * row + 32)
                pygame.draw.circle(surface, (70, 90, 120), middle, 26)
                drawn = font.render(letter.upper(), True, paint)
                surface.blit(drawn, drawn.get_rect(center=middle))
        return np.frombuffer(pygame.image.tobytes(surface, "RGB"), np.uint8).reshape(512, 512, 3).copy()

    def read_scene(self, plain: Any) -> ChessScene:
        """Returns the scene with these plain values; `ValueError`, with the location, if they are invalid."""
        return from_plain(ChessScene, plain)

    def events(self, scenes: Sequence[ChessScene]) -> list[dict[str, Any]]:
        """Returns all moves in long notation, such as ``Ng1-f3`` or ``e7xd8=Q+``, and how the game has ended."""
        found = []
        for tick, (before, after) in enumerate(pairwise(scenes), 1):
            seat = before.white if before.fen.split()[1] == "w" else 1 - before.white
            text = _notation(before.fen, after)
            kind = "check" if after.check else "capture" if "x" in text else "move"
            found.append({"tick": tick, "kind": kind, "seat": seat, "text": text})
            if after.ending:
                won = f", {after.names[seat]} wins" if after.outcome in ("won", "lost") else ""
                found.append({"tick": tick, "kind": "end", "seat": None, "text": f"{after.ending}{won}"})
        return found

    def page(self) -> Mapping[str, str]:
        """Returns ``script`` and ``style`` for a page, which draws the scenes of a recording."""
        data = files("sb3_pvp.games.chess") / "data"
        return {kind: (data / f"chess.{ending}").read_text("utf-8") for kind, ending in _PAGE.items()}

    def controls(self) -> tuple[ControlGroup, ...]:
        """Returns all moves, which are made on the board of the page."""
        moves = [each.id for each in CONTRACT.heads[0].actions if each.id[:2] in SQUARES]
        return (ControlGroup("Board", tuple(Control(move, move) for move in moves), "picture"),)


_PAGE = {"script": "js", "style": "css"}


def _notation(fen: str, after: ChessScene) -> str:
    """Returns the move that has led from a position to a scene, in long notation."""
    board, move = _board(fen), after.move
    piece, is_taken = board[move[:2]], board[move[2:4]] != "."
    if piece in "Kk" and move in ("e1g1", "e1c1", "e8g8", "e8c8"):
        text = "O-O" if move[2] == "g" else "O-O-O"
    else:
        passes = piece in "Pp" and move[0] != move[2]  # also en passant, where nothing stands
        text = piece.upper().strip("P") + move[:2] + ("x" if is_taken or passes else "-") + move[2:4]
        text += f"={move[4:].upper()}" if move[4:] else ""
    return text + ("#" if after.ending == "checkmate" else "+" if after.check else "")


def _board(fen: str) -> dict[str, str]:
    """Returns the letters of a FEN by square, ``.`` where nothing stands."""
    rows = ["".join("." * int(each) if each.isdecimal() else each for each in row) for row in fen.split()[0].split("/")]
    return dict(zip(SQUARES, "".join(rows[::-1]), strict=True))


def _painted(letter: str) -> str:
    if letter == " ":
        return letter
    return f"{_SQUARE if letter == '.' else _WHITE if letter.isupper() else _BLACK}{letter}{_PLAIN}"
