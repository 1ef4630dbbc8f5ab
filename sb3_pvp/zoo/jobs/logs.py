"""Log files that grow while they are read."""

from __future__ import annotations

import codecs
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_POLL_SECONDS = 0.2
_BLOCK = 1 << 16


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of a text file of any size; none if it is not there."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return []
    with file:
        position, tail = file.seek(0, os.SEEK_END), b""
        while position and tail.count(b"\n") <= count:
            start = max(position - _BLOCK, 0)
            file.seek(start)
            tail, position = file.read(position - start) + tail, start
    lines = tail.decode(errors="replace").splitlines()
    return lines[-count:] if count else []


def follow(path: Path, is_over: Callable[[], bool], start: int = 0) -> Iterator[str]:
    """What is in the file from byte ``start`` on, as it comes, up to the moment when ``is_over`` says yes."""
    decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
    with path.open("rb") as file:
        file.seek(start)
        while True:
            over = is_over()  # before reading: what was written until then is read
            while chunk := file.read(_BLOCK):
                yield decode(chunk)
            if over:
                return
            time.sleep(_POLL_SECONDS)
