"""Metrics of the learner's fights, per rollout (self-play.md §11.5, §11.6) and per episode (§10)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import DesyncReason, Game, Metrics, Outcome, Transition
from sb3_pvp.game.arrays import OutcomeRewards
from sb3_pvp.game.metrics import Metric, Ticks

STATISTICS = ("count", "sum", "mean", "min", "max", "std")
#: The measured durations, in seconds, and the statistics that are logged of them.
DURATIONS = ("process_step_times", "time_between_steps")
DURATION_STATISTICS = ("min", "max", "mean", "std")
#: Fight ticks that are collected before they are summed: a trade-off between NumPy's overhead per call and memory.
CHUNK = 2048
# Plain integers: NumPy compares arrays with members of an `IntEnum` ten times slower.
_RUNNING, _WON, _LOST, _TIED, _TARGET_LOST, _DESYNC = map(int, Outcome)
_NONE, _TICK, _TIME, _CONNECTION, _IDLE = map(int, DesyncReason)


class Measures(NamedTuple):
    """The rows of `FightMetrics.pop` in order, as plain values that any worker process can send."""

    #: Tag and statistic of each metric, then the names of the reward's terms.
    metrics: tuple[tuple[str, str], ...]
    terms: tuple[str, ...]


def metrics_of(game: Game) -> tuple[Metric, ...]:
    """Returns all metrics of a game's fights, in the order of `FightMetrics.pop`."""
    return (*(game.metrics.table if game.metrics else ()), *_common_metrics())


def measures_of(game: Game) -> Measures:
    """Returns the names of the metrics and reward terms of a game's fights."""
    metrics = tuple((metric.tag, metric.statistic) for metric in metrics_of(game))
    return Measures(metrics, tuple((game.rewards or OutcomeRewards()).terms))


def summarize(sums: NDArray[np.float64], measures: Measures) -> dict[str, float]:
    """Turns the sums of `FightMetrics.pop`, ``(metrics + terms, 3)``, into metrics by tag; empty ones are left out.

    ``rewards/{component}_count`` counts the ticks in which a component was not zero, ``_total`` is its sum, ``_avg``
    their quotient; ``rewards/overall_total`` is the sum over all components (self-play.md §11.5).
    """
    rows = zip(measures.metrics, sums.tolist(), strict=False)
    metrics = {tag: _summary(statistic, *row) for (tag, statistic), row in rows}
    summary = {tag: value for tag, value in metrics.items() if value is not None}
    rewards = sums[len(measures.metrics) :]
    for name, (count, total, _) in zip(measures.terms, rewards.tolist(), strict=True):
        if count:
            figures = {"count": count, "total": total, "avg": total / count}
            summary |= {f"rewards/{name}_{statistic}": value for statistic, value in figures.items()}
    return summary | {"rewards/overall_total": float(rewards[:, 1].sum())}


class FightMetrics:
    """Accumulates every tick of N fights of a game into three sums for each metric and each term of the reward."""

    def __init__(self, num_fights: int, game: Game) -> None:
        self._table = metrics_of(game)
        self._chunk = max(CHUNK // num_fights, 1)
        self._sums = np.zeros((len(self._table) + len(measures_of(game).terms), 3))
        #: Of `DURATIONS`; all fights are stepped together, so a tick takes equally long in each of them.
        self._durations = RunningStatistics(len(DURATIONS), num_fights)
        self._started = self._ended = time.perf_counter()
        self._clear()

    def begin(self, fights: NDArray[np.int64]) -> None:
        """Call it when episodes start in these fights; the learner's clock starts."""
        self._durations.begin(fights)
        self._ended = time.perf_counter()

    def start_tick(self) -> None:
        """Call it when the learner has acted; the environment's clock starts."""
        self._started = time.perf_counter()

    def end_tick(
        self,
        tick: Transition,
        components: NDArray[np.float32],
        over: NDArray[np.bool_],
        length: NDArray[np.int64],
        reasons: NDArray[np.uint8],
    ) -> None:
        """Adds a tick of all fights, which is kept without a copy, with the terms of its reward ``(terms, N)``.

        Each ``(N,)``: which fights are over, their ticks so far, and the `DesyncReason` of those that broke off.
        """
        now = time.perf_counter()
        self._durations.add(np.array([[now - self._started], [self._started - self._ended]]))
        self._ended = now
        # Summed a chunk at a time: the NumPy calls of a metric cost about the same for one tick as for a thousand.
        self._ticks.append(tick)
        self._components.append(components.copy())  # a reset overwrites it
        if over.any():
            ended = np.flatnonzero(over)
            outcome = tick.outcome[ended]
            # Copied out now: the reset that follows overwrites what is known of the ended fights.
            self._endings.append(np.stack([outcome, reasons[ended]]))
            decided = ended[(outcome != _RUNNING) & (outcome < _TARGET_LOST)]
            self._last.append(tick.report[decided])
            statistics = self._durations.of((slice(None), decided))
            durations = np.stack([statistics[each] for each in DURATION_STATISTICS], axis=1)
            self._episodes.append(np.vstack([length[decided], *durations]))
        if len(self._ticks) == self._chunk:
            self._sum_chunk()

    def pop(self) -> NDArray[np.float64]:
        """Returns count, sum and sum of squares since the last call, float64 ``(metrics + terms, 3)``, see `Measures`.

        Sums of several environments can be added; `summarize` turns them into metrics.
        """
        if self._ticks:
            self._sum_chunk()
        # Sums, no means: those of several environments, or processes, can still be added.
        sums, self._sums = self._sums, np.zeros_like(self._sums)
        return sums

    def _clear(self) -> None:
        self._ticks: list[Transition] = []
        self._components: list[NDArray[np.float32]] = []
        self._endings: list[NDArray[np.uint8]] = [np.zeros((2, 0), np.uint8)]
        self._last: list[NDArray[np.void]] = []
        self._episodes: list[NDArray[np.float64]] = [np.zeros((1 + len(DURATIONS) * len(DURATION_STATISTICS), 0))]

    def _sum_chunk(self) -> None:
        columns = {name: _concatenate([vars(tick)[name] for tick in self._ticks]) for name in vars(self._ticks[0])}
        intact = columns["outcome"] < _TARGET_LOST
        if not intact.all():  # the report of a fight that broke off is undefined (rewards.md §5)
            columns = {name: column[intact] for name, column in columns.items()}
        columns["endings"], columns["reasons"] = np.concatenate(self._endings, axis=1)
        lengths, *durations = np.concatenate(self._episodes, axis=1)
        # The empty array gives the dtype if no fight has ended.
        columns["last"] = _concatenate([columns["report"][:0], *self._last])
        ticks = Ticks(**columns, lengths=lengths.astype(np.int64), durations=np.array(durations))
        for sums, metric in zip(self._sums, self._table, strict=False):
            values = metric.series(ticks).astype(np.float64)
            sums += np.array([len(values), values.sum(), values @ values])
        components = np.concatenate(self._components, axis=1)
        self._sums[len(self._table) :, 0] += np.count_nonzero(components, axis=1)
        self._sums[len(self._table) :, 1] += components.sum(axis=1, dtype=np.float64)
        self._clear()


def _concatenate(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Concatenates records as raw bytes, which NumPy copies ten times faster than record by record."""
    raw = np.dtype((np.void, parts[0].itemsize))
    return np.concatenate([np.ascontiguousarray(part).view(raw) for part in parts]).view(parts[0].dtype)


def _summary(statistic: str, count: float, total: float, squares: float) -> float | None:
    """Returns the statistic of values with these sums, or ``None`` if there are no values."""
    if not count or (statistic == "number" and not total):
        return None
    if statistic == "std":  # rounding can make the variance of equal values slightly negative
        return math.sqrt(max(squares / count - (total / count) ** 2, 0.0))
    return {"mean": total / count, "count": count}.get(statistic, total)


def _common_metrics() -> Iterator[Metric]:
    """Yields the metrics that all games share: how fights end, and durations."""
    meaning, aside = "Number of fights that ended in any way.", "not counting `idle` and `connection_lost`"
    yield Metric("terminal/terminal_state_count", "count", lambda ticks: ticks.endings, meaning)
    for name, outcomes, meaning in (
        ("win", [_WON], "that the learner won"),
        ("lose", [_LOST], "that the learner lost"),
        ("tie", [_TIED], "that were tied"),
        ("timeout", [_RUNNING], "that reached the tick limit"),
        ("desync", [_TARGET_LOST, _DESYNC], f"that broke off; training stops at 0.05 ({aside})"),
    ):
        share = f"Share of the ended fights {meaning}."
        yield Metric(f"terminal/{name}_percentage", "mean", partial(_is_any_of, "endings", outcomes), share)
    for name, kind, number, meaning in (
        ("target_lost", "endings", _TARGET_LOST, "because the opponent was gone"),
        ("tick_desync", "reasons", _TICK, "because the world had played ticks without the learner"),
        ("time_desync", "reasons", _TIME, "because the learner took too long between two steps"),
        ("connection_lost", "reasons", _CONNECTION, "because the server closed the connection"),
        ("idle", "reasons", _IDLE, "because they were idle for so long that the agents logged out"),
    ):
        series, meaning = partial(_is_any_of, kind, [number]), f"Number of fights that broke off {meaning}."
        yield Metric(f"terminal/truncate/{name}", "number", series, meaning)
    names = {"min": "Shortest", "max": "Longest", "mean": "Mean", "std": "Standard deviation of the"}
    spans = ("time of a tick in the environment", "time of the learner between two ticks")
    measured = product(zip(DURATIONS, spans, strict=True), DURATION_STATISTICS)
    for row, ((duration, span), statistic) in enumerate(measured):
        meaning = f"{names[statistic]} {span}, in seconds, within a decided fight, averaged over fights."
        yield Metric(f"times/{duration}/{statistic}", "mean", partial(_duration, row), meaning)


# No lambdas above: they would bind the variables of the loops late, and all see the last values.
def _is_any_of(kind: str, numbers: list[int], ticks: Ticks) -> NDArray[np.bool_]:
    return np.asarray(np.equal.outer(getattr(ticks, kind), numbers).any(axis=-1))


def _duration(row: int, ticks: Ticks) -> NDArray[np.float64]:
    return np.asarray(ticks.durations[row])


class RunningStatistics:
    """Running statistics of V values over the current episode of each of N fights, float64 arrays ``(V, N)``."""

    ARRAYS = ("count", "total", "squares", "low", "high")  #: Attributes that a snapshot keeps.

    def __init__(self, num_values: int, num_fights: int) -> None:
        shape = (num_values, num_fights)
        self.count, self.total, self.squares, self.low, self.high = (np.zeros(shape) for _ in self.ARRAYS)
        self.begin(slice(None))

    def begin(self, fights: NDArray[np.int64] | slice) -> None:
        """Call it when episodes start in these fights."""
        for name, start in zip(self.ARRAYS, (0.0, 0.0, 0.0, np.inf, -np.inf), strict=True):
            getattr(self, name)[:, fights] = start

    def add(self, values: NDArray[np.float64], valid: NDArray[np.bool_] | bool = True) -> None:
        """Adds values that can be broadcast to ``(V, N)``; those that are not ``valid`` do not count and must be 0."""
        self.count += valid
        np.minimum(self.low, values, out=self.low, where=valid)
        np.maximum(self.high, values, out=self.high, where=valid)
        self.total += values
        self.squares += values * values

    def of(self, which: Any) -> dict[str, NDArray[np.float64]]:
        """Returns `STATISTICS` of the values at an index; the standard deviation is that of the population."""
        count, total, squares, low, high = (getattr(self, name)[which] for name in self.ARRAYS)
        mean = total / count
        deviation = np.sqrt(np.maximum(squares / count - mean * mean, 0.0))
        return dict(zip(STATISTICS, (count, total, mean, low, high, deviation), strict=True))


class EpisodeStatistics(RunningStatistics):
    """Statistics of the game's `sb3_pvp.game.Metrics.values` and of the reward per tick.

    Ticks in which a fight broke off are left out: their report is undefined (rewards.md §5).
    """

    def __init__(self, num_fights: int, metrics: Metrics | None) -> None:
        metrics = metrics or Metrics()
        self.names = (*metrics.values, "reward")
        super().__init__(len(self.names), num_fights)
        columns = {name: column for column, name in enumerate(self.names)}
        #: The column of a flag, and the columns of the values that only count in ticks with that flag.
        self._optional = [
            (columns[flag], [columns[name] for name in names if name in columns])
            for flag, names in metrics.optional.items()
        ]

    def end_tick(self, tick: Transition, reward: NDArray[np.float32]) -> None:
        """Adds a tick of all fights with the rewards ``(N,)``."""
        values = np.array([*(tick.report[name] for name in self.names[:-1]), reward], np.float64)
        valid = np.broadcast_to(tick.outcome < _TARGET_LOST, values.shape).copy()
        for flag, columns in self._optional:
            valid[columns] &= values[flag] != 0
        values[~valid] = 0.0
        self.add(values, valid)

    def of_episode(self, fight: int) -> dict[str, dict[str, float]]:
        """Returns ``{statistic: {name: value}}`` of a fight's episode, without values that no tick had."""
        present = np.flatnonzero(self.count[:, fight])
        names = [self.names[column] for column in present.tolist()]
        return {
            name: dict(zip(names, values.tolist(), strict=True)) for name, values in self.of((present, fight)).items()
        }
