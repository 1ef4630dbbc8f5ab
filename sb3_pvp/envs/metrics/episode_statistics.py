"""Statistics over whole fights: of the numbers that a world reports of its ticks (self-play.md §10), and of time."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import Metrics, Outcome, Transition
from sb3_pvp.simple_game import ReportMetrics

STATISTICS = ("count", "sum", "mean", "min", "max", "std")
#: What takes time, in seconds, and what is told of it.
DURATIONS = ("process_step_times", "time_between_steps")
DURATION_STATISTICS = ("min", "max", "mean", "std")

_BROKEN = int(Outcome.TARGET_LOST)


class RunningStatistics:
    """Adds up V values over the episode of each of N fights.

    Attributes:
        count: float64 ``(V, N)``: how often there was a value.
        total, squares: the sum, and that of the squares; the same layout.
        low, high: the least and the greatest; infinite if there was none.
    """

    ARRAYS = ("count", "total", "squares", "low", "high")

    def __init__(self, num_values: int, num_fights: int) -> None:
        shape = (num_values, num_fights)
        self.count, self.total, self.squares, self.low, self.high = (np.zeros(shape) for _ in self.ARRAYS)
        self.begin(slice(None))

    def begin(self, fights: NDArray[np.int64] | slice) -> None:
        """New episodes have begun in these fights."""
        for array in (self.count, self.total, self.squares):
            array[:, fights] = 0.0
        self.low[:, fights], self.high[:, fights] = np.inf, -np.inf

    def add(self, values: NDArray[np.float64], told: NDArray[np.bool_] | bool = True) -> None:
        """Takes in values that can be broadcast to ``(V, N)``; those that are not told must be 0."""
        self.count += told
        np.minimum(self.low, values, out=self.low, where=told)
        np.maximum(self.high, values, out=self.high, where=told)
        self.total += values
        self.squares += values * values

    def moments(self, which: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation (that of the population) of a part of the values."""
        mean = self.total[which] / self.count[which]
        return mean, np.sqrt(np.maximum(self.squares[which] / self.count[which] - mean * mean, 0.0))


class EpisodeStatistics(RunningStatistics):
    """Statistics of the values that the game's metrics name, and of the reward of the tick.

    Ticks in which a fight broke off are left out: nobody knows what was reported of them (rewards.md §5).
    """

    def __init__(self, num_fights: int, metrics: Metrics | None) -> None:
        metrics = metrics or ReportMetrics()
        self.names = (*metrics.values, "reward")
        super().__init__(len(self.names), num_fights)
        columns = {name: column for column, name in enumerate(self.names)}
        #: By the column of a flag: the columns of the values that only a tick with that flag has.
        self._optional = [
            (columns[flag], [columns[name] for name in names if name in columns])
            for flag, names in metrics.optional.items()
        ]
        self._values = np.zeros((len(self.names), num_fights))

    def end_tick(self, tick: Transition, reward: NDArray[np.float32]) -> None:
        """Takes in a tick of all fights; rewards ``(N,)``."""
        values = self._values
        for row, name in zip(values, self.names[:-1], strict=False):
            row[:] = tick.report[name]
        values[-1] = reward
        told = np.broadcast_to(tick.outcome < _BROKEN, values.shape).copy()
        for flag, columns in self._optional:
            told[columns] &= values[flag] != 0
        values[~told] = 0.0
        self.add(values, told)

    def of(self, fight: int) -> dict[str, dict[str, float]]:
        """`STATISTICS` of the episode of a fight: of each the values by name, without those that no tick had."""
        told = np.flatnonzero(self.count[:, fight])
        mean, deviation = self.moments((told, fight))
        count, total, low, high = (each[told, fight] for each in (self.count, self.total, self.low, self.high))
        names = [self.names[column] for column in told.tolist()]
        return {
            statistic: dict(zip(names, column.tolist(), strict=True))
            for statistic, column in zip(STATISTICS, (count, total, mean, low, high, deviation), strict=True)
        }


class EpisodeDurations(RunningStatistics):
    """Statistics of `DURATIONS`: how long the ticks of an episode took, and the pauses between them.

    The fights of an environment share its clock: a tick takes as long for every one of them.
    """

    def __init__(self, num_fights: int) -> None:
        self._started = 0.0
        super().__init__(len(DURATIONS), num_fights)

    def begin(self, fights: NDArray[np.int64] | slice) -> None:
        """New episodes have begun in these fights; the learner's time starts."""
        super().begin(fights)
        self._ended = time.perf_counter()

    def start_tick(self) -> None:
        """The learner has acted; the environment's time starts."""
        self._started = time.perf_counter()

    def end_tick(self) -> None:
        """A tick of all fights is over; the learner's time starts."""
        now = time.perf_counter()
        self.add(np.array([[now - self._started], [self._started - self._ended]]))
        self._ended = now

    def of(self, fights: NDArray[np.int64]) -> NDArray[np.float64]:
        """`DURATION_STATISTICS` of each of `DURATIONS` in the episodes of K fights, ``(8, K)``."""
        which = (slice(None), fights)
        statistics = np.stack((self.low[which], self.high[which], *self.moments(which)), axis=1)
        return statistics.reshape(len(DURATIONS) * len(DURATION_STATISTICS), len(fights))
