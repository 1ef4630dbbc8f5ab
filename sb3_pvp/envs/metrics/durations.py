"""How long the ticks of an episode took, and the pauses between them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: What takes time, in seconds, and what is told of it.
DURATIONS = ("process_step_times", "time_between_steps")
DURATION_STATISTICS = ("min", "max", "mean", "std")


class EpisodeDurations:
    """The statistics of two durations over each fight's episode, in seconds.

    The fights of an environment share its clock: a tick takes as long for every one of them.

    Args:
        num_fights: N.
    """

    def __init__(self, num_fights: int) -> None:
        shape = (len(DURATIONS), num_fights)
        self._count = np.zeros(num_fights)
        self._low, self._high, self._total, self._squares = (np.zeros(shape) for _ in range(4))
        self._started = 0.0
        self.begin(slice(None))

    def begin(self, fights: NDArray[np.int64] | slice) -> None:
        """New episodes have begun in these fights; the learner's time starts."""
        self._low[:, fights], self._high[:, fights] = np.inf, -np.inf
        for array in (self._count, self._total, self._squares):
            array[..., fights] = 0.0
        self._ended = time.perf_counter()

    def start_tick(self) -> None:
        """The learner has acted; the environment's time starts."""
        self._started = time.perf_counter()

    def end_tick(self) -> None:
        """A tick of all fights is over; the learner's time starts."""
        now = time.perf_counter()
        seconds = np.array([[now - self._started], [self._started - self._ended]])
        self._ended = now
        self._count += 1
        np.minimum(self._low, seconds, out=self._low)
        np.maximum(self._high, seconds, out=self._high)
        self._total += seconds
        self._squares += seconds * seconds

    def of(self, fights: NDArray[Any]) -> NDArray[np.float64]:
        """`DURATION_STATISTICS` of each of `DURATIONS` in the episodes of K fights, ``(8, K)``."""
        mean = self._total[:, fights] / self._count[fights]
        variance = self._squares[:, fights] / self._count[fights] - mean * mean
        statistics = (self._low[:, fights], self._high[:, fights], mean, np.sqrt(np.maximum(variance, 0.0)))
        return np.stack(statistics, axis=1).reshape(len(statistics) * len(mean), len(fights))
