"""The tick of a screen: when each frame is due, and which came late or never."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Share of a tick after which a frame is late.
LATE = 0.1


class TickClock:
    """Waits for ticks, and counts. ``frames + dropped`` is the number of ticks since `start`.

    Args:
        tick: seconds from one frame to the next.
        now, sleep: of `time`, in seconds.

    Attributes:
        frames: that were taken.
        late: of these, how many were taken later than `LATE` of a tick after they were due.
        dropped: ticks that had passed before anybody asked for their frame.
        lag: seconds by which the last frame was late.
    """

    def __init__(
        self, tick: float, now: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.tick, self._now, self._sleep = tick, now, sleep
        self.start()

    def start(self) -> None:
        """Begins to count, now."""
        self._due, self._paused_at = self._now(), float("nan")
        self.frames = self.late = self.dropped = 0
        self.lag = 0.0

    def pause(self) -> None:
        """Stops the time until `go_on`."""
        self._paused_at = self._now()

    def go_on(self) -> None:
        """Lets the time go on after `pause`."""
        self._due += self._now() - self._paused_at

    def wait(self) -> None:
        """Returns when the next frame is due; drops those of ticks that have passed completely."""
        self._due += self.tick
        passed = max(int((self._now() - self._due) // self.tick), 0)
        self.dropped += passed
        self._due += passed * self.tick
        if (left := self._due - self._now()) > 0:
            self._sleep(left)
        self.lag = self._now() - self._due
        self.frames += 1
        self.late += self.lag > LATE * self.tick
