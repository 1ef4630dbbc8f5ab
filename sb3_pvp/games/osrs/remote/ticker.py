"""A timer for periodic calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Ticker:
    """Calls ``tick`` every ``seconds``, without drift, from `start` to `stop`.

    Ticks that are due while another one still runs are skipped: agents would have no time to answer them.
    """

    def __init__(self, seconds: float, tick: Callable[[], object], loop: asyncio.AbstractEventLoop) -> None:
        self._seconds = seconds
        self._tick = tick
        self._loop = loop
        self._next = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Starts the timer; the first tick comes after ``seconds``."""
        self._next = self._loop.time() + self._seconds
        self._timer = self._loop.call_at(self._next, self._run)

    def stop(self) -> None:
        """Stops the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _run(self) -> None:
        try:
            self._tick()
        finally:  # a tick that fails must not be the last one
            late = self._loop.time() - self._next
            # From the time when this tick was due, and not from now: a late one must not shift all others.
            self._next += self._seconds * (1 + max(0, int(late / self._seconds)))
            self._timer = self._loop.call_at(self._next, self._run)
