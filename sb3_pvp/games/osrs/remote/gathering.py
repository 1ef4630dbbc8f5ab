"""When a server without a clock plays the fights that are ready."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

#: Seconds that a fight waits for others. With a hundred busy clients that makes four fights of one.
WAIT = 0.002
#: After each wait in vain twice as many ticks are played at once as after the one before, and at most so many.
MOST_SKIPPED = 63


class Gathering:
    """Lets fights that become ready soon after each other be played together: most of the work of a tick is the same
    for one fight as for many.

    The first one that is ready waits for the others, but no longer than `WAIT`, not when there are no others in play,
    and seldom while such waiting is in vain, as it is if a client plays its fights one after the other.

    :param play: plays the fights that are ready.
    :param loop: the event loop that calls it.
    """

    def __init__(self, play: Callable[[], object], loop: asyncio.AbstractEventLoop) -> None:
        self._play = play
        self._loop = loop
        self._handle: asyncio.Handle | None = None
        self._is_waiting = False
        self._num_joined = 0
        self._ticks_without_wait = self._next_ticks_without_wait = 0

    def add(self, is_last: bool) -> None:
        """A fight is ready; ``is_last``: so are all others that are in play."""
        if self._is_waiting:
            self._num_joined += 1
            if is_last:
                self._end_wait()
        elif self._handle is None:
            if is_last or self._ticks_without_wait:
                self._ticks_without_wait = max(0, self._ticks_without_wait - 1)
                self._handle = self._loop.call_soon(self._run)
            else:
                self._is_waiting, self._num_joined = True, 0
                self._handle = self._loop.call_later(WAIT, self._on_timeout)

    def _end_wait(self) -> None:
        assert self._handle is not None
        self._handle.cancel()
        self._is_waiting = False
        self._next_ticks_without_wait = 0
        self._handle = self._loop.call_soon(self._run)

    def _on_timeout(self) -> None:
        self._is_waiting = False
        self._next_ticks_without_wait = (
            0 if self._num_joined else min(2 * self._next_ticks_without_wait + 1, MOST_SKIPPED)
        )
        self._ticks_without_wait = self._next_ticks_without_wait
        self._run()

    def _run(self) -> None:
        self._handle = None
        self._play()
