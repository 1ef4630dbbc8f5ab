"""Log files that grow while they are read."""

from __future__ import annotations

import codecs
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

_POLL_SECONDS = 0.2


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of a text file of any size; none if it is not there."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", errors="replace") as file:
        return [line.removesuffix("\n") for line in deque(file, maxlen=count)]


def follow(path: Path, is_over: Callable[[], bool], start: int = 0) -> Iterator[str]:
    """What is in the file from byte ``start`` on, as it comes, up to the moment when ``is_over`` says yes."""
    decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
    with path.open("rb") as file:
        file.seek(start)
        while True:
            over = is_over()  # before reading: what was written until then is read
            while chunk := file.read(1 << 16):
                yield decode(chunk)
            if over:
                return
            time.sleep(_POLL_SECONDS)
