"""What happens at regular times."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Ticker:
    """Calls ``tick`` every so many ``seconds``, without drift, from `start` to `stop`.

    A tick that lasts too long takes the place of those that should have begun meanwhile: no agent is hurried through
    ticks that it had no time for.
    """

    def __init__(self, seconds: float, tick: Callable[[], object], loop: asyncio.AbstractEventLoop) -> None:
        self._seconds = seconds
        self._tick = tick
        self._loop = loop
        self._next = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """The first tick comes after ``seconds``."""
        self._next = self._loop.time() + self._seconds
        self._timer = self._loop.call_at(self._next, self._run)

    def stop(self) -> None:
        """No tick is begun any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _run(self) -> None:
        self._tick()
        late = self._loop.time() - self._next
        self._next += self._seconds * (1 + max(0, int(late / self._seconds)))
        self._timer = self._loop.call_at(self._next, self._run)
