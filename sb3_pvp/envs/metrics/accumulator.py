"""What is measured in the fights of every game and in those of one, summed up per roll-out (self-play.md §11.6)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.envs.metrics.episode_statistics import DURATION_STATISTICS, DURATIONS, EpisodeDurations
from sb3_pvp.game import DesyncReason, Game, Outcome, Transition
from sb3_pvp.simple_game import Metric, OutcomeRewards, Series, Ticks

NUM_DURATIONS = len(DURATIONS) * len(DURATION_STATISTICS)
#: So many ticks of one fight are kept before they are summed up: NumPy is slow on few, and memory is dear for many.
CHUNK = 2048
# Plain integers: NumPy compares arrays with members of an `IntEnum` ten times more slowly.
_RUNNING, _WON, _LOST, _TIED, _TARGET_LOST, _DESYNC = map(int, Outcome)
_NONE, _TICK, _TIME, _CONNECTION, _IDLE = map(int, DesyncReason)


class Measures(NamedTuple):
    """What sums stand for, in their order; plain values, which any worker process can send.

    Attributes:
        metrics: tag and statistic of each.
        terms: the names of the rewards.
    """

    metrics: tuple[tuple[str, str], ...]
    terms: tuple[str, ...]


def metrics_of(game: Game) -> tuple[Metric, ...]:
    """All metrics of a game's fights, in the order of `sb3_pvp.envs.metrics.FightMetrics.pop`."""
    return (*(game.metrics.table if game.metrics else ()), *_terminal_metrics(), *_time_metrics())


def measures_of(game: Game) -> Measures:
    """The same, and the rewards."""
    metrics = tuple((metric.tag, metric.statistic) for metric in metrics_of(game))
    return Measures(metrics, tuple((game.rewards or OutcomeRewards()).terms))


def summarize(sums: NDArray[np.float64], measures: Measures) -> dict[str, float]:
    """The metrics by tag, of sums that `FightMetrics.pop` gave; those with nothing to tell are left out.

    ``rewards/{component}_count`` counts the ticks in which a component was not zero, ``_total`` is its sum, ``_avg``
    the quotient; ``rewards/overall_total`` is the sum over all components (self-play.md §11.5).
    """
    rows = zip(measures.metrics, sums.tolist(), strict=False)
    metrics = {tag: _summary(statistic, *row) for (tag, statistic), row in rows}
    summary = {tag: value for tag, value in metrics.items() if value is not None}
    rewards = sums[len(measures.metrics) :]
    for name, (count, total, _) in zip(measures.terms, rewards.tolist(), strict=True):
        if count:
            summary |= {
                f"rewards/{name}_count": count,
                f"rewards/{name}_total": total,
                f"rewards/{name}_avg": total / count,
            }
    return summary | {"rewards/overall_total": float(rewards[:, 1].sum())}


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


def _summary(statistic: str, count: float, total: float, squares: float) -> float | None:
    """The metric of values with these moments, or ``None`` if there is nothing to tell."""
    if not count or (statistic == "number" and not total):
        return None
    if statistic == "std":
        return math.sqrt(max(squares / count - (total / count) ** 2, 0.0))
    return {"mean": total / count, "count": count}.get(statistic, total)


def _terminal_metrics() -> Iterator[Metric]:
    meaning = "How many fights ended, in whatever way."
    yield Metric("terminal/terminal_state_count", "count", lambda ticks: ticks.endings, meaning)
    for name, (first, last), meaning in (
        ("win", (_WON, _WON), "that the learner won"),
        ("lose", (_LOST, _LOST), "that the learner lost"),
        ("tie", (_TIED, _TIED), "that were tied"),
        ("timeout", (_RUNNING, _RUNNING), "that reached the limit of ticks"),
        (
            "desync",
            (_TARGET_LOST, _DESYNC),
            "that broke off; training stops at 0.05 (`idle` and `connection_lost` aside)",
        ),
    ):
        share = f"Share of the ended fights {meaning}."
        yield Metric(f"terminal/{name}_percentage", "mean", _ended_by(first, last), share)
    for name, series, meaning in (
        ("target_lost", _ended_by(_TARGET_LOST, _TARGET_LOST), "because the opponent had gone"),
        ("tick_desync", _broken_by(_TICK), "because the world had played ticks without the learner"),
        ("time_desync", _broken_by(_TIME), "because the learner took too long between two steps"),
        ("connection_lost", _broken_by(_CONNECTION), "because the server had closed the connection"),
        ("idle", _broken_by(_IDLE), "because nobody had played for so long that the agents logged out"),
    ):
        yield Metric(f"terminal/truncate/{name}", "number", series, f"How many fights broke off {meaning}.")


def _time_metrics() -> Iterator[Metric]:
    names = {"min": "Shortest", "max": "Longest", "mean": "Mean", "std": "Standard deviation of the"}
    spans = ("time of a tick in the environment", "time that the learner took between two ticks")
    told = product(zip(DURATIONS, spans, strict=True), DURATION_STATISTICS)
    for row, ((duration, span), statistic) in enumerate(told):
        meaning = f"{names[statistic]} {span}, in seconds, within a decided fight, averaged over fights."
        yield Metric(f"times/{duration}/{statistic}", "mean", partial(_durations, row), meaning)


def _durations(row: int, ticks: Ticks) -> NDArray[np.float64]:
    values: NDArray[np.float64] = ticks.durations[row]
    return values


def _ended_by(first: int, last: int) -> Series:
    """Which endings are one of these outcomes, or between them."""
    return lambda ticks: (ticks.endings >= first) & (ticks.endings <= last)


def _broken_by(reason: int) -> Series:
    """Which endings have this `DesyncReason`."""
    return lambda ticks: ticks.reasons == reason
