"""Waiting for other processes: a line says for what and how far that is, Ctrl-C ends it at once, and it has a bound."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

from sb3_pvp.common.processes import LOOK_SECONDS, MAX_SILENCE

#: Seconds before the first line, and the longest time between two of them.
_FIRST_LINE, _MOST = 2.0, 60.0
_num_waits = 0


class WaitedTooLong(TimeoutError):
    """Raised after `MAX_SILENCE`; the message is one line."""


def is_waiting() -> bool:
    """Returns whether this process is in `waiting`: a signal to stop need not be deferred."""
    return _num_waits > 0


@contextmanager
def waiting() -> Iterator[None]:
    """Marks what may be ended at any time: a wait, or work whose result is not needed to go on later."""
    global _num_waits
    _num_waits += 1
    try:
        yield
    finally:
        _num_waits -= 1


class ProgressLines:
    """Prints now and then how much of something is done, in lines on stderr: less and less often."""

    def __init__(self, text: str, total: int) -> None:
        self._text, self._total, self._pause = text, total, _FIRST_LINE
        self._due = time.monotonic() + self._pause

    def show(self, done: int) -> None:
        """Prints a line if it is time for one."""
        if time.monotonic() >= self._due:
            print(f"{self._text}: {done} of {self._total}", file=sys.stderr, flush=True)
            self._pause = min(2 * self._pause, _MOST)
            self._due = time.monotonic() + self._pause


def wait_for(future: futures.Future[Any], text: str, progress: Callable[[], int], total: int) -> None:
    """Waits until a future is done, with lines of progress.

    Raises `WaitedTooLong` after `MAX_SILENCE` seconds in which ``progress`` did not change.
    """
    lines, done, moved_at = ProgressLines(text, total), -1, time.monotonic()
    with waiting():
        while not futures.wait([future], LOOK_SECONDS).done:
            if (now := progress()) != done:
                done, moved_at = now, time.monotonic()
            if time.monotonic() - moved_at > MAX_SILENCE:
                raise WaitedTooLong(f"there was no progress in {MAX_SILENCE:g} seconds ({done} of {total})")
            lines.show(done)
