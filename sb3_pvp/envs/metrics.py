"""What happened in the learners' fights, as numbers: per rollout (self-play.md §11.5, §11.6) and per fight (§10)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import DesyncReason, Game, Metrics, Outcome, Transition
from sb3_pvp.simple_game import Metric, OutcomeRewards, ReportMetrics, Ticks

STATISTICS = ("count", "sum", "mean", "min", "max", "std")
#: What takes time, in seconds, and what is told of it.
DURATIONS = ("process_step_times", "time_between_steps")
DURATION_STATISTICS = ("min", "max", "mean", "std")
#: Ticks of fights that are kept before they are summed up: NumPy is slow on few, and memory is dear for many.
CHUNK = 2048
# Plain integers: NumPy compares arrays with members of an `IntEnum` ten times more slowly.
_RUNNING, _WON, _LOST, _TIED, _TARGET_LOST, _DESYNC = map(int, Outcome)
_NONE, _TICK, _TIME, _CONNECTION, _IDLE = map(int, DesyncReason)


class Measures(NamedTuple):
    """What sums stand for, in their order, as plain values: tag and statistic of metrics, names of rewards' terms."""

    metrics: tuple[tuple[str, str], ...]
    terms: tuple[str, ...]


def metrics_of(game: Game) -> tuple[Metric, ...]:
    """All metrics of a game's fights, in the order of `FightMetrics.pop`."""
    return (*(game.metrics.table if game.metrics else ()), *_common_metrics())


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
            figures = {"count": count, "total": total, "avg": total / count}
            summary |= {f"rewards/{name}_{statistic}": value for statistic, value in figures.items()}
    return summary | {"rewards/overall_total": float(rewards[:, 1].sum())}


class FightMetrics:
    """Takes in every tick of N fights of a game and keeps, for each metric and term of the reward, three sums."""

    def __init__(self, num_fights: int, game: Game) -> None:
        self._table, self._num_terms = metrics_of(game), len(measures_of(game).terms)
        self._chunk = max(CHUNK // num_fights, 1)
        self._sums = np.zeros((len(self._table) + self._num_terms, 3))
        #: Of `DURATIONS`; the fights share a clock: a tick takes as long for every one of them.
        self._durations = RunningStatistics(len(DURATIONS), num_fights)
        self._started = self._ended = time.perf_counter()
        self._forget()

    def begin(self, fights: NDArray[np.int64]) -> None:
        """New episodes have begun in these fights; the learner's time starts."""
        self._durations.begin(fights)
        self._ended = time.perf_counter()

    def start_tick(self) -> None:
        """The learner has acted; the environment's time starts."""
        self._started = time.perf_counter()

    def end_tick(
        self,
        tick: Transition,
        components: NDArray[np.float32],
        over: NDArray[np.bool_],
        length: NDArray[np.int64],
        reasons: NDArray[np.uint8],
    ) -> None:
        """Takes in the tick of all fights, and keeps it.

        Rewards ``components`` are ``(terms, N)``; ``over`` says which fights have ended, ``length`` after how many
        ticks, and ``reasons`` (`DesyncReason` numbers) why some broke off, ``(N,)`` each.
        """
        now = time.perf_counter()
        self._durations.add(np.array([[now - self._started], [self._started - self._ended]]))
        self._ended = now
        self._ticks.append(tick)
        self._components.append(components.copy())  # a reset overwrites it
        if over.any():
            ended = np.flatnonzero(over)
            outcome = tick.outcome[ended]
            self._endings.append(np.stack([outcome, reasons[ended]]))
            decided = ended[(outcome != _RUNNING) & (outcome < _TARGET_LOST)]
            self._last.append(tick.report[decided])
            told = self._durations.of((slice(None), decided))
            durations = np.stack([told[each] for each in DURATION_STATISTICS], axis=1)
            self._episodes.append(np.vstack([length[decided], *durations]))
        if len(self._ticks) == self._chunk:
            self._reduce()

    def pop(self) -> NDArray[np.float64]:
        """Count, sum and sum of squares of everything since the last call, ``(metrics + terms, 3)``, see `Measures`.

        The sums of several environments may be added up; `summarize` makes metrics of them.
        """
        if self._ticks:
            self._reduce()
        sums, self._sums = self._sums, np.zeros_like(self._sums)
        return sums

    def _forget(self) -> None:
        self._ticks: list[Transition] = []
        self._components: list[NDArray[np.float32]] = []
        self._endings: list[NDArray[np.uint8]] = [np.zeros((2, 0), np.uint8)]
        self._last: list[NDArray[np.void]] = []
        self._episodes: list[NDArray[np.float64]] = [np.zeros((1 + len(DURATIONS) * len(DURATION_STATISTICS), 0))]

    def _reduce(self) -> None:
        ticks, number = self._joined(), len(self._table)
        for sums, metric in zip(self._sums, self._table, strict=False):
            values = metric.series(ticks).astype(np.float64)
            sums += np.array([len(values), values.sum(), values @ values])
        components = np.concatenate(self._components, axis=1)
        self._sums[number:, 0] += np.count_nonzero(components, axis=1)
        self._sums[number:, 1] += components.sum(axis=1, dtype=np.float64)
        self._forget()

    def _joined(self) -> Ticks:
        columns = [_joined([getattr(tick, field.name) for tick in self._ticks]) for field in fields(Transition)]
        intact = columns[-1] < _TARGET_LOST
        if not intact.all():  # nobody knows what was reported of a fight that broke off (rewards.md §5)
            columns = [column[intact] for column in columns]
        endings, reasons = np.concatenate(self._endings, axis=1)
        episodes = np.concatenate(self._episodes, axis=1)
        last = _joined([columns[0][:0], *self._last])
        lengths, durations = episodes[0].astype(np.int64), episodes[1:]
        report, previous, has_previous, outcome = columns
        return Ticks(report, previous, has_previous, outcome, endings, reasons, last, lengths, durations)


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """One after the other: as lumps of bytes, which NumPy copies ten times as fast as records."""
    lump = np.dtype((np.void, parts[0].itemsize))
    return np.concatenate([np.ascontiguousarray(part).view(lump) for part in parts]).view(parts[0].dtype)


def _summary(statistic: str, count: float, total: float, squares: float) -> float | None:
    """The metric of values with these moments, or ``None`` if there is nothing to tell."""
    if not count or (statistic == "number" and not total):
        return None
    if statistic == "std":
        return math.sqrt(max(squares / count - (total / count) ** 2, 0.0))
    return {"mean": total / count, "count": count}.get(statistic, total)


def _common_metrics() -> Iterator[Metric]:
    """Those of all games: how fights end, and what takes time."""
    meaning, aside = "How many fights ended, in whatever way.", "`idle` and `connection_lost` aside"
    yield Metric("terminal/terminal_state_count", "count", lambda ticks: ticks.endings, meaning)
    for name, outcomes, meaning in (
        ("win", [_WON], "that the learner won"),
        ("lose", [_LOST], "that the learner lost"),
        ("tie", [_TIED], "that were tied"),
        ("timeout", [_RUNNING], "that reached the limit of ticks"),
        ("desync", [_TARGET_LOST, _DESYNC], f"that broke off; training stops at 0.05 ({aside})"),
    ):
        share = f"Share of the ended fights {meaning}."
        yield Metric(f"terminal/{name}_percentage", "mean", partial(_among, "endings", outcomes), share)
    for name, kind, number, meaning in (
        ("target_lost", "endings", _TARGET_LOST, "because the opponent had gone"),
        ("tick_desync", "reasons", _TICK, "because the world had played ticks without the learner"),
        ("time_desync", "reasons", _TIME, "because the learner took too long between two steps"),
        ("connection_lost", "reasons", _CONNECTION, "because the server had closed the connection"),
        ("idle", "reasons", _IDLE, "because nobody had played for so long that the agents logged out"),
    ):
        series, meaning = partial(_among, kind, [number]), f"How many fights broke off {meaning}."
        yield Metric(f"terminal/truncate/{name}", "number", series, meaning)
    names = {"min": "Shortest", "max": "Longest", "mean": "Mean", "std": "Standard deviation of the"}
    spans = ("time of a tick in the environment", "time that the learner took between two ticks")
    told = product(zip(DURATIONS, spans, strict=True), DURATION_STATISTICS)
    for row, ((duration, span), statistic) in enumerate(told):
        meaning = f"{names[statistic]} {span}, in seconds, within a decided fight, averaged over fights."
        yield Metric(f"times/{duration}/{statistic}", "mean", partial(_duration, row), meaning)


def _among(kind: str, numbers: list[int], ticks: Ticks) -> NDArray[np.bool_]:
    return np.asarray(np.equal.outer(getattr(ticks, kind), numbers).any(axis=-1))


def _duration(row: int, ticks: Ticks) -> NDArray[np.float64]:
    return np.asarray(ticks.durations[row])


class RunningStatistics:
    """Adds up V values over the episode of each of N fights, in arrays of float64 ``(V, N)``."""

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

    def of(self, which: Any) -> dict[str, NDArray[np.float64]]:
        """`STATISTICS` of a part of the values; the standard deviation is that of the population."""
        count, total, squares, low, high = (getattr(self, name)[which] for name in self.ARRAYS)
        mean = total / count
        deviation = np.sqrt(np.maximum(squares / count - mean * mean, 0.0))
        return dict(zip(STATISTICS, (count, total, mean, low, high, deviation), strict=True))


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

    def end_tick(self, tick: Transition, reward: NDArray[np.float32]) -> None:
        """Takes in a tick of all fights; rewards ``(N,)``."""
        values = np.array([*(tick.report[name] for name in self.names[:-1]), reward], np.float64)
        told = np.broadcast_to(tick.outcome < _TARGET_LOST, values.shape).copy()
        for flag, columns in self._optional:
            told[columns] &= values[flag] != 0
        values[~told] = 0.0
        self.add(values, told)

    def of_episode(self, fight: int) -> dict[str, dict[str, float]]:
        """`STATISTICS` of the episode of a fight: of each the values by name, without those that no tick had."""
        told = np.flatnonzero(self.count[:, fight])
        names = [self.names[column] for column in told.tolist()]
        statistics = self.of((told, fight)).items()
        return {name: dict(zip(names, values.tolist(), strict=True)) for name, values in statistics}
