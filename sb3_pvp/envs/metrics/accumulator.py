"""Sums over many ticks of many fights, from which metrics are computed once per roll-out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.envs.metrics.episode_statistics import DURATION_STATISTICS, DURATIONS, EpisodeDurations
from sb3_pvp.envs.metrics.table import measures_of, metrics_of
from sb3_pvp.game import Game, Outcome, Transition
from sb3_pvp.simple_game import Ticks

NUM_DURATIONS = len(DURATIONS) * len(DURATION_STATISTICS)
#: So many ticks of one fight are kept before they are summed up: NumPy is slow on few, and memory is dear for many.
CHUNK = 2048
_RUNNING, _TARGET_LOST = int(Outcome.RUNNING), int(Outcome.TARGET_LOST)


class FightMetrics:
    """Takes in every tick of N fights of a game and keeps, for each metric and term of the reward, three sums.

    ``report`` is the dtype of the game's reports.
    """

    def __init__(self, num_fights: int, game: Game, report: np.dtype[np.void]) -> None:
        shape = (max(CHUNK // num_fights, 1), num_fights)
        self._table, self._num_terms = metrics_of(game), len(measures_of(game).terms)
        self._durations = EpisodeDurations(num_fights)
        # Lumps of bytes, which NumPy copies ten times as fast as records.
        self._dtype, self._bytes = report, np.dtype((np.void, report.itemsize))
        self._previous_dtype = np.dtype(
            [(name, report[name]) for name in (game.metrics.previous if game.metrics else ())]
        )
        self._report, self._previous = np.zeros(shape, self._bytes), np.zeros(shape, self._previous_dtype)
        self._has_previous, self._outcome = np.zeros(shape, bool), np.zeros(shape, np.uint8)
        self._components = np.zeros((self._num_terms, *shape), np.float32)
        self._clear()

    def begin(self, fights: NDArray[np.int64]) -> None:
        """New episodes have begun in these fights."""
        self._durations.begin(fights)

    def start_tick(self) -> None:
        """A tick begins."""
        self._durations.start_tick()

    def end_tick(
        self,
        tick: Transition,
        components: NDArray[np.float32],
        over: NDArray[np.bool_],
        length: NDArray[np.int64],
        reasons: NDArray[np.uint8],
    ) -> None:
        """Takes in the tick of all fights.

        Args:
            tick: what happened to the learners.
            components: the rewards ``(terms, N)``.
            over: bool ``(N,)``, which fights have ended.
            length: ticks of each episode so far ``(N,)``.
            reasons: why fights broke off, `DesyncReason` numbers ``(N,)``.
        """
        self._durations.end_tick()
        row = self._filled
        self._report[row] = np.ascontiguousarray(tick.report).view(self._bytes)
        self._has_previous[row], self._outcome[row] = tick.has_previous, tick.outcome
        for name in self._previous_dtype.names or ():
            self._previous[name][row] = tick.previous[name]
        self._components[:, row] = components
        if over.any():
            self._end(tick, np.flatnonzero(over), length, reasons)
        self._filled += 1
        if self._filled == len(self._report):
            self._reduce()

    def pop(self) -> NDArray[np.float64]:
        """Count, sum and sum of squares of everything since the last call, ``(metrics + terms, 3)``, see `Measures`.

        The sums of several environments may be added up; `summarize` makes metrics of them.
        """
        if self._filled:
            self._reduce()
        sums = self._sums
        self._clear()
        return sums

    def _clear(self) -> None:
        self._sums = np.zeros((len(self._table) + self._num_terms, 3))
        self._forget()

    def _forget(self) -> None:
        self._filled = 0
        self._endings: list[NDArray[np.uint8]] = [np.zeros((2, 0), np.uint8)]
        self._last: list[NDArray[np.void]] = [np.zeros(0, self._dtype)]
        self._episodes: list[NDArray[np.float64]] = [np.zeros((1 + NUM_DURATIONS, 0))]

    def _end(
        self, tick: Transition, ended: NDArray[np.int64], length: NDArray[np.int64], reasons: NDArray[np.uint8]
    ) -> None:
        outcome = tick.outcome[ended]
        self._endings.append(np.stack([outcome, reasons[ended]]))
        decided = ended[(outcome != _RUNNING) & (outcome < _TARGET_LOST)]
        self._last.append(tick.report[decided])
        self._episodes.append(np.vstack([length[decided], self._durations.of(decided)]))

    def _reduce(self) -> None:
        ticks, number = self._ticks(), len(self._table)
        for sums, metric in zip(self._sums, self._table, strict=False):
            values = metric.series(ticks).astype(np.float64)
            sums += np.array([len(values), values.sum(), values @ values])
        components = self._components[:, : self._filled].reshape(self._num_terms, -1)
        self._sums[number:, 0] += np.count_nonzero(components, axis=1)
        self._sums[number:, 1] += components.sum(axis=1, dtype=np.float64)
        self._forget()

    def _ticks(self) -> Ticks:
        arrays: list[NDArray[Any]] = [self._report.view(self._dtype), self._previous, self._has_previous, self._outcome]
        report, previous, has_previous, outcome = (array[: self._filled].ravel() for array in arrays)
        endings, reasons = np.concatenate(self._endings, axis=1)
        episodes = np.concatenate(self._episodes, axis=1)
        # Nobody knows what was reported of a fight that broke off (rewards.md §5).
        intact = slice(None) if (outcome < _TARGET_LOST).all() else outcome < _TARGET_LOST
        return Ticks(
            *(report[intact], previous[intact], has_previous[intact], outcome[intact]),
            *(endings, reasons),
            np.concatenate(self._last),
            episodes[0].astype(np.int64),
            episodes[1:],
        )
