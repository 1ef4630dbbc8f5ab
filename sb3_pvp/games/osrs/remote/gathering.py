"""Decides when a server without a clock plays the fights that are ready."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

#: Seconds that a fight waits for others. With a hundred busy clients about four fights then share a step of the world.
WAIT_SECONDS = 0.002
#: Maximum number of ticks without a wait after one in vain. The number doubles with each wait in vain, up to this.
MAX_SKIPS = 63


class Gathering:
    """Batches fights that become ready soon after each other: a step of the world costs about the same for one fight as
    for many.

    The first ready fight waits up to `WAIT_SECONDS` for the others, unless there are none in play. While waits are in
    vain they become rare: a client that plays its fights one after another would only be slowed down.

    Args:
        play: plays the fights that are ready.
        loop: the event loop that calls it.
    """

    def __init__(self, play: Callable[[], object], loop: asyncio.AbstractEventLoop) -> None:
        self._play = play
        self._loop = loop
        self._handle: asyncio.Handle | None = None
        self._is_waiting = False
        self._num_joined = 0
        self._skips_left = self._next_skips = 0

    def add(self, is_last: bool) -> None:
        """Schedules a ready fight; ``is_last``: all others that are in play are ready, too."""
        if self._is_waiting:
            self._num_joined += 1
            if is_last:
                self._end_wait()
        elif self._handle is None:  # Else `_run` is scheduled already, and will play this fight as well.
            if is_last or self._skips_left:
                self._skips_left = max(0, self._skips_left - 1)
                self._handle = self._loop.call_soon(self._run)
            else:
                self._is_waiting, self._num_joined = True, 0
                self._handle = self._loop.call_later(WAIT_SECONDS, self._on_timeout)

    def _end_wait(self) -> None:
        assert self._handle is not None
        self._handle.cancel()
        self._is_waiting = False
        self._next_skips = 0
        # Not at once: the request that made the fight ready may not be handled to its end yet.
        self._handle = self._loop.call_soon(self._run)

    def _on_timeout(self) -> None:
        self._is_waiting = False
        # 1, 3, 7, ... ticks without a wait, after as many waits in vain.
        self._next_skips = 0 if self._num_joined else min(2 * self._next_skips + 1, MAX_SKIPS)
        self._skips_left = self._next_skips
        self._run()

    def _run(self) -> None:
        self._handle = None
        self._play()
