"""A fighter's choices: one row per action head, with chosen, open and masked entries."""

from __future__ import annotations

from functools import lru_cache

import pygame

from sb3_pvp.games.osrs.rendering.picture.brush import text_width, write
from sb3_pvp.games.osrs.rendering.picture.palette import (
    BACKGROUND,
    CHOICES,
    DAMAGE,
    FAINT,
    LINE,
    MASKED,
    PANEL,
    SEATS,
    STYLES,
    TEXT,
    Color,
)
from sb3_pvp.games.osrs.rendering.scene import FighterScene, HeadScene

_INDENT, _LABEL, _GAP, _SIZE = 12, 104, 3, 15  # pixels; _LABEL is the width of a head's name, _SIZE that of letters
_MIN_SPACE, _MAX_SPACE = 4, 18  # pixels around the text of an entry
#: Words without information in a row, besides those of the head.
_FILLERS = {"use", "attack", "type", "move", "to", "target", "tile", "tiles"}
_STYLES_OF_WORDS = {"melee": "melee", "ranged": "ranged", "mage": "magic"}


def draw_choices(surface: pygame.Surface, fighter: FighterScene, seat: int, tick: int) -> None:
    """Draws the panel of a seat: the chosen entry is filled, masked ones are struck out."""
    left, top, width, height = CHOICES[seat]
    pygame.draw.rect(surface, BACKGROUND, (left, top, width, height))
    pygame.draw.line(surface, LINE, (left, top), (left + width, top))
    if seat:
        pygame.draw.line(surface, LINE, (left, top), (left, top + height))
    if all(head.chosen is None for head in fighter.heads):
        text = "no choice yet" if tick == 0 else "choices unknown: played by the world"
        write(surface, text, (left + width / 2, top + height / 2), 17, FAINT, "center", width - 2 * _INDENT)
        return
    row = min((height - 8) // max(len(fighter.heads), 1), 24)
    for number, head in enumerate(fighter.heads):
        _draw_head(surface, head, (left + _INDENT, top + 6 + number * row, width - 2 * _INDENT, row - 1), SEATS[seat])


def short_name(entry: str, head: str) -> str:
    """Returns an entry's id without fillers and words of its head, e.g. ``ice spell``; ``-`` for doing nothing."""
    words = entry.split("_")
    if words[0] in ("no", "dont"):
        return "-"
    kept = [word for word in words if word not in _FILLERS and word not in head.split("_")]
    return " ".join(kept or words)


def _draw_head(surface: pygame.Surface, head: HeadScene, box: tuple[int, int, int, int], color: Color) -> None:
    left, top, width, height = box
    acts = bool(head.chosen)  # neither unknown nor 0, doing nothing
    label = head.id.replace("_", " ")
    write(surface, label, (left, top + height / 2), _SIZE, TEXT if acts else FAINT, "midleft", _LABEL - 6)
    names, widths, size = _layout(head.id, head.entries, width - _LABEL)
    x = left + _LABEL
    for entry, (name, chip_width) in enumerate(zip(names, widths, strict=True)):
        is_open = head.open is None or head.open[entry]
        chip = pygame.Rect(x, top, chip_width, height - 1)
        _draw_chip(surface, name, chip, size, entry == head.chosen, is_open, _chip_color(head, entry, color))
        x += chip_width + _GAP


@lru_cache(maxsize=128)  # measuring text is slow, and the heads of a contract are always the same
def _layout(head: str, entries: tuple[str, ...], width: int) -> tuple[list[str], list[int], int]:
    """Returns names, widths and a font size with which all entries of a head fit into a row."""
    names = [short_name(entry, head) for entry in entries]
    for size in (_SIZE, 14, 13, 12):
        texts = [text_width(name, size) for name in names]
        space = min((width - sum(texts)) // len(names) - _GAP, _MAX_SPACE)
        if space >= _MIN_SPACE:
            return names, [text + space for text in texts], size
    equal = width // len(names) - _GAP  # `write` shortens names that do not fit
    return names, [equal] * len(names), size


def _chip_color(head: HeadScene, entry: int, color: Color) -> Color:
    """Returns the colour of a chosen entry: that of the style in its name, else the fighter's; grey for nothing."""
    if entry == 0:
        return FAINT
    words = f"{head.entries[entry]}_{head.id}".split("_")
    styles = [_STYLES_OF_WORDS[word] for word in words if word in _STYLES_OF_WORDS]
    return STYLES[styles[0]] if styles else color


def _draw_chip(
    surface: pygame.Surface, name: str, chip: pygame.Rect, size: int, chosen: bool, is_open: bool, color: Color
) -> None:
    if chosen:
        pygame.draw.rect(surface, color, chip, border_radius=3)
    elif is_open:
        pygame.draw.rect(surface, PANEL, chip, border_radius=3)
        pygame.draw.rect(surface, LINE, chip, 1, border_radius=3)
    text = write(
        surface,
        name,
        chip.center,
        size,
        BACKGROUND if chosen else TEXT if is_open else MASKED,
        "center",
        chip.width - 2,
    )
    if not is_open:
        strike = DAMAGE if chosen and name != "-" else MASKED  # red: a masked action was chosen
        pygame.draw.line(surface, strike, (text.left - 2, chip.centery), (text.right + 1, chip.centery))
