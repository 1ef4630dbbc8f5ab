"""What is measured in the fights of every game, and what in those of one (self-play.md §11.6)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.envs.metrics.episode_statistics import DURATION_STATISTICS, DURATIONS
from sb3_pvp.game import DesyncReason, Game, Outcome
from sb3_pvp.simple_game import Metric, OutcomeRewards, Series, Ticks

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
