"""The viewer of chess: boards as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import Outcome

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
    seat: int = -1  #: That of the player for whom the board is turned; -1: White is below.


class ChessViewer:
    """The `sb3_pvp.game.Viewer` of chess. Both players see everything."""

    def scene(self, world: Any, fight: int, names: Sequence[str], actions: Any = None, masks: Any = None) -> ChessScene:
        """See `sb3_pvp.game.Viewer.scene`; choices are not shown, but the last move."""
        from sb3_pvp.games.chess.fen import move_name  # here, because it imports Numba
        from sb3_pvp.games.chess.rules import ENDINGS

        outcome, last = Outcome(int(world.outcome[fight, 0])).name.lower(), int(world.last[fight])
        move = move_name(last) if last >= 0 else ""
        moment = int(world.ticks[fight]), tuple(names), outcome, world.fen(fight)
        return ChessScene(*moment, int(world.white[fight]), move, ENDINGS[world.endings[fight]])

    def seen(
        self, world: Any, fight: int, names: Sequence[str], seat: int, actions: Any = None, masks: Any = None
    ) -> ChessScene:
        """Returns the scene, with the board turned to the player of this seat."""
        return replace(self.scene(world, fight, names), seat=seat)

    def text(self, scene: ChessScene, color: bool = True) -> str:
        """Returns a line for the game, the board, and the last move or the end."""
        squares = [
            ["." * int(letter) if letter.isdecimal() else letter for letter in rank]
            for rank in scene.fen.split()[0].split("/")
        ]
        rows = [f"{8 - row} " + " ".join("".join(rank)) for row, rank in enumerate(squares)]
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
        """Returns the board, uint8 ``(512, 512, 3)``, pieces as letters; needs pygame."""
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


def _painted(letter: str) -> str:
    if letter == " ":
        return letter
    return f"{_SQUARE if letter == '.' else _WHITE if letter.isupper() else _BLACK}{letter}{_PLAIN}"
