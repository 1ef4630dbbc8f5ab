"""The board as a small picture in grey, as a player sees it whose observations are pixels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.compiled import compiled
from sb3_pvp.games.chess.layout import TILE
from sb3_pvp.games.chess.rules import BLACK, Ints, Position

#: Pawn, knight, bishop, rook, queen and king, a row of each on a line.
_SHAPES = """
........ ........ ...##... ........ ........ ...##...
........ ..####.. ..####.. .#.##.#. #..##..# .######.
........ .####### ..##.##. .######. #.####.# ...##...
...##... ####.### ..#.###. ..####.. ######## .######.
..####.. ##..###. ..####.. ..####.. .######. ##.##.##
...##... ...####. ...##... ..####.. .######. .######.
..####.. .######. .######. .######. ..####.. ..####..
........ ........ ........ ........ ........ ........
"""
_GLYPHS = np.array([[[dot == "#" for dot in row] for row in line.split()] for line in _SHAPES.split("\n")[1:-1]])
#: Of each piece by number, the first one none: ``(7, 8, 8)``.
GLYPHS = np.zeros((7, TILE, TILE), np.bool_)
GLYPHS[1:] = _GLYPHS.swapaxes(0, 1)
#: Greys of own and other pieces, of dark and light squares, and by how much those of the last move are lighter.
OWN, OTHER, DARK, LIGHT, MOVED = 255.0, 0.0, 96.0, 144.0, 24.0


@compiled
def draw_boards(fights: Ints, positions: Position, white: Ints, last: Ints, obs: NDArray[np.float32]) -> None:
    """Draws boards for both seats, each from its own side, with the last rank on top.

    Arguments are as in `sb3_pvp.games.chess.rules.play_boards`; ``obs (F, 2, 4096)`` is written.
    """
    for fight in fights:
        position, move = positions[fight], last[fight]
        flip = 56 if position[BLACK] else 0  # moves are written as White sees them
        start, end = (move % 64) ^ flip, (move // 64 % 64) ^ flip
        mover = white[fight] ^ position[BLACK]
        for square in range(64):
            piece = position[square]
            moved = MOVED if move >= 0 and square in (start, end) else 0.0
            for waits in range(2):
                # Whoever waits has the other pieces, and sees the board mirrored.
                seat, place = (1 - mover, square ^ 56) if waits else (mover, square)
                ground = (LIGHT if (place + (place >> 3)) & 1 else DARK) + moved
                paint = OWN if (piece > 0) != waits else OTHER
                first = TILE * (8 * TILE * (7 - (place >> 3)) + (place & 7))
                for y, x in np.ndindex(TILE, TILE):
                    obs[fight, seat, first + 8 * TILE * y + x] = paint if GLYPHS[abs(piece), y, x] else ground
