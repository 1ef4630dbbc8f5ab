"""What can be read from a screen: whether something is there, and numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from sb3_pvp.common.errors import shown
from sb3_pvp.games.screen.display import ScreenError, VirtualDisplay
from sb3_pvp.games.screen.game_file import (
    MOST_COMPARED,
    LogReader,
    NumberReader,
    PictureReader,
    PixelReader,
    ScreenGame,
)

#: Reads a frame of the whole display, uint8 ``(height, width, 3)``; ``None``: nothing is found.
Reading: TypeAlias = Callable[[NDArray[np.uint8]], float | None]
_DIGITS = 10


def make_readings(game: ScreenGame, display: VirtualDisplay) -> dict[str, Reading]:
    """Returns what reads a display, by name; raises `ValueError` for pictures that cannot be read, and bad patterns."""
    made: dict[str, Reading] = {}
    for name, each in game.readers.items():
        try:
            if isinstance(each, PixelReader):
                made[name] = pixel_reading(each)
            elif isinstance(each, PictureReader):
                made[name] = picture_reading(each, load_picture(game.folder / each.file))
            elif isinstance(each, NumberReader):
                made[name] = number_reading(each, load_picture(game.folder / each.digits))
            elif isinstance(each, LogReader):
                made[name] = log_reading(each, display)
            else:
                made[name] = lambda frame: float(display.exit_code() is not None)
        except (ValueError, OSError, re.error) as error:
            raise ValueError(f"the reader {name} of {game.name}: {' '.join(str(error).split())}") from error
    return made


def load_picture(path: Path) -> NDArray[np.uint8]:
    """Returns a picture, uint8 ``(height, width, 3)``."""
    from PIL import Image

    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def pixel_reading(reader: PixelReader) -> Reading:
    """Returns what tells whether a pixel has a color."""
    (x, y), color = reader.at, np.array(reader.color, np.int64)
    return lambda frame: float(np.abs(frame[y, x] - color).max() <= reader.tolerance)


def picture_reading(reader: PictureReader, picture: NDArray[np.uint8]) -> Reading:
    """Returns what tells whether a picture is in a region; raises `ValueError` if it is too large for that."""
    left, top, width, height = reader.region
    tall, wide, _ = picture.shape
    if tall > height or wide > width or (height - tall + 1) * (width - wide + 1) * tall * wide > MOST_COMPARED:
        raise ValueError(f"{wide} x {tall} pixels are too many for {width} x {height}: change the region")
    own = picture.astype(np.int16)

    def read(frame: NDArray[np.uint8]) -> float:
        there = frame[top : top + height, left : left + width].astype(np.int16)
        places = sliding_window_view(there, (tall, wide), axis=(0, 1))
        return float(np.abs(places - own.transpose(2, 0, 1)).mean(axis=(2, 3, 4)).min() <= reader.tolerance)

    return read


def number_reading(reader: NumberReader, digits: NDArray[np.uint8]) -> Reading:
    """Returns what reads a number; raises `ValueError` unless the picture has ten digits in this color."""
    left, top, width, height = reader.region
    known = glyphs(ink_of(digits, reader))
    if len(known) != _DIGITS:
        raise ValueError(f"{reader.digits} has {len(known)} digits in the color {list(reader.color)}, not {_DIGITS}")

    def read(frame: NDArray[np.uint8]) -> float | None:
        found, number = glyphs(ink_of(frame[top : top + height, left : left + width], reader)), 0
        for glyph in found:
            errors = [difference(glyph, each) for each in known]
            if min(errors) > reader.errors:
                return None
            number = 10 * number + int(np.argmin(errors))
        return float(number) if found else None

    return read


def ink_of(picture: NDArray[np.uint8], reader: NumberReader) -> NDArray[np.bool_]:
    """Returns which pixels have the color of the ink, ``(height, width)``."""
    ink: NDArray[np.bool_] = np.abs(picture - np.array(reader.color, np.int64)).max(axis=2) <= reader.tolerance
    return ink


def glyphs(ink: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    """Returns runs of columns with ink, from left to right, without empty rows above and below."""
    edges = np.flatnonzero(np.diff(ink.any(axis=0), prepend=False, append=False)).reshape(-1, 2)
    rows = [np.flatnonzero(ink[:, start:end].any(axis=1)) for start, end in edges]
    return [ink[own[0] : own[-1] + 1, start:end] for (start, end), own in zip(edges, rows, strict=True)]


def difference(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> float:
    """Returns the share of pixels that differ; what only one of them has differs."""
    shape = np.maximum(one.shape, other.shape)
    both = np.zeros((2, *shape), bool)
    for place, glyph in zip(both, (one, other), strict=True):
        place[: glyph.shape[0], : glyph.shape[1]] = glyph
    return float((both[0] != both[1]).mean())


def log_reading(reader: LogReader, display: VirtualDisplay) -> Reading:
    """Returns what reads the new lines of a file, each of them once; it raises `ScreenError` for what is no number."""
    pattern, place = re.compile(reader.pattern), display.folder / reader.file
    position = starts = 0

    def read(frame: NDArray[np.uint8]) -> float | None:
        nonlocal position, starts
        if starts != display.starts and place == display.output:
            position, starts = 0, display.starts
        if not place.is_file():
            return None if pattern.groups else 0.0
        position = position if position <= place.stat().st_size else 0  # it was begun anew
        with place.open("rb") as file:
            file.seek(position)
            whole, _, rest = file.read().rpartition(b"\n")
            position = file.tell() - len(rest)
        found = [each for line in whole.decode(errors="replace").splitlines() if (each := pattern.search(line))]
        if not pattern.groups:
            return float(len(found))
        numbers = [each[1] for each in found if each[1] is not None]
        return number(numbers[-1]) if numbers else None

    def number(text: str) -> float:
        with suppress(ValueError):
            if isfinite(value := float(text)):
                return value
        raise ScreenError(
            f"the pattern {reader.pattern!r} finds {shown(text)}, which is no number: let its first group match digits"
        )

    return read
