"""What happened over a whole fight: statistics of every number that a world reports of its ticks (self-play.md §10)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import Metrics, Outcome, Transition
from sb3_pvp.simple_game import ReportMetrics

STATISTICS = ("count", "sum", "mean", "min", "max", "std")

_BROKEN = int(Outcome.TARGET_LOST)


class EpisodeStatistics:
    """Adds up values over the episode of each fight: those that the game's metrics name, and the reward of the tick.

    Ticks in which a fight broke off are left out: nobody knows what was reported of them (rewards.md §5).

    Args:
        num_fights: N.
        metrics: of the game.

    Attributes:
        count: float64 ``(values, N)``: how many ticks of the episode had the value.
        total, squares: its sum, and that of its squares; the same layout.
        low, high: the least and the greatest; infinite if no tick had it.
    """

    def __init__(self, num_fights: int, metrics: Metrics | None) -> None:
        metrics = metrics or ReportMetrics()
        self.names = (*metrics.values, "reward")
        columns = {name: column for column, name in enumerate(self.names)}
        #: By the column of a flag: the columns of the values that only a tick with that flag has.
        self._optional = [
            (columns[flag], [columns[name] for name in names if name in columns])
            for flag, names in metrics.optional.items()
        ]
        shape = (len(self.names), num_fights)
        self.count, self.total, self.squares, self.low, self.high = (np.zeros(shape) for _ in range(5))
        self._values = np.zeros(shape)
        self.begin(slice(None))

    def begin(self, fights: NDArray[np.int64] | slice) -> None:
        """New episodes have begun in these fights."""
        for array in (self.count, self.total, self.squares):
            array[:, fights] = 0.0
        self.low[:, fights], self.high[:, fights] = np.inf, -np.inf

    def end_tick(self, tick: Transition, reward: NDArray[np.float32]) -> None:
        """Takes in a tick of all fights; rewards ``(N,)``."""
        values = self._values
        for row, name in zip(values, self.names[:-1], strict=False):
            row[:] = tick.report[name]
        values[-1] = reward
        told = np.broadcast_to(tick.outcome < _BROKEN, values.shape).copy()
        for flag, columns in self._optional:
            told[columns] &= values[flag] != 0
        self.count += told
        np.minimum(self.low, values, out=self.low, where=told)
        np.maximum(self.high, values, out=self.high, where=told)
        values[~told] = 0.0
        self.total += values
        self.squares += values * values

    def of(self, fight: int) -> dict[str, dict[str, float]]:
        """`STATISTICS` of the episode of a fight: of each the values by name, without those that no tick had.

        The standard deviation is that of the population.
        """
        told = np.flatnonzero(self.count[:, fight])
        count, total, squares = (array[told, fight] for array in (self.count, self.total, self.squares))
        mean = total / count
        deviation = np.sqrt(np.maximum(squares / count - mean * mean, 0.0))
        columns = (count, total, mean, self.low[told, fight], self.high[told, fight], deviation)
        names = [self.names[column] for column in told.tolist()]
        return {
            statistic: dict(zip(names, column.tolist(), strict=True))
            for statistic, column in zip(STATISTICS, columns, strict=True)
        }
