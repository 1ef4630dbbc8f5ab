"""Text and bars on a surface."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Literal

import pygame

from sb3_pvp.games.osrs.rendering.picture.palette import BACKGROUND, TEXT, Box, Color, Point

Anchor = Literal["topleft", "midleft", "midright", "center", "midtop", "midbottom", "topright"]
ELLIPSIS = "…"


def prepare_fonts() -> None:
    """Must be called before drawing: other code may have called ``pygame.quit()``, which invalidates all fonts."""
    if not pygame.font.get_init():
        pygame.font.init()
    try:
        _font(15).size("")  # raises for a font from before a `quit`
    except pygame.error:
        _font.cache_clear()


def write(
    surface: pygame.Surface,
    text: str,
    place: Point,
    size: int = 15,
    color: Color = TEXT,
    anchor: Anchor = "topleft",
    width: float | None = None,
) -> pygame.Rect:
    """Writes a line of text whose ``anchor`` is at ``place``, shortened to ``width`` pixels, and returns its box."""
    written = _written(text if width is None else fitted(text, size, int(width)), size, color)
    box = written.get_rect(**{anchor: (round(place[0]), round(place[1]))})
    surface.blit(written, box)
    return box


def text_width(text: str, size: int) -> int:
    """Returns the width of a line in pixels."""
    return _font(size).size(_printable(text))[0]


@lru_cache(maxsize=512)
def fitted(text: str, size: int, width: int) -> str:
    """Returns the text if it fits ``width`` pixels, else as much of its beginning and end as fits, with an ellipsis."""
    if text_width(text, size) <= width:
        return text
    for kept in range(len(text) - 1, 0, -1):
        end = kept // 2
        shorter = text[: kept - end] + ELLIPSIS + text[len(text) - end :]
        if text_width(shorter, size) <= width:
            return shorter
    return ELLIPSIS


def bar(
    surface: pygame.Surface, box: Box, share: float, color: Color, empty: Color, text: str = "", size: int = 14
) -> None:
    """Draws a bar that is filled to ``share`` (0 to 1), by at least one pixel if that is positive, and its text."""
    left, top, width, height = box
    share = min(max(share, 0.0), 1.0)
    filled = max(round(share * (width - 2)), 1) if share > 0 else 0
    pygame.draw.rect(surface, BACKGROUND, box)
    pygame.draw.rect(surface, empty, (left + 1, top + 1, width - 2, height - 2))
    pygame.draw.rect(surface, color, (left + 1, top + 1, filled, height - 2))
    if text:
        outlined(surface, text, (left + width / 2, top + height / 2), size)


def outlined(surface: pygame.Surface, text: str, center: Point, size: int, color: Color = TEXT) -> None:
    """Writes text with an outline, readable on any background."""
    for dx, dy in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        write(surface, text, (center[0] + dx, center[1] + dy), size, BACKGROUND, "center")
    write(surface, text, center, size, color, "center")


@lru_cache(maxsize=1024)
def _written(text: str, size: int, color: Color) -> pygame.Surface:
    return _font(size).render(_printable(text), True, color)


def _printable(text: str) -> str:
    """Replaces characters that pygame refuses to draw, such as NUL: names of fighters are arbitrary."""
    return "".join(character if character.isprintable() else "?" for character in text)


@cache
def _font(size: int) -> pygame.font.Font:
    return pygame.font.Font(None, size)  # the font that comes with pygame: the same pixels on every machine
