"""Sums over many ticks of many fights, from which metrics are computed once per roll-out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.envs.fight_metrics.durations import EpisodeDurations
from sb3_pvp.envs.fight_metrics.series import EPISODE_ROWS, PRIOR_DTYPE, Ticks
from sb3_pvp.envs.fight_metrics.table import METRICS
from sb3_pvp.envs.rewards import COMPONENTS, Tick
from sb3_pvp.world import META_BYTES, META_DTYPE, Outcome

#: So many ticks of one fight are kept before they are summed up: NumPy is slow on few, and memory is dear for many.
CHUNK = 2048
_RUNNING, _TARGET_LOST = int(Outcome.RUNNING), int(Outcome.TARGET_LOST)


class FightMetrics:
    """Takes in every tick of N fights and keeps, for each metric and reward component, three sums.

    Args:
        num_fights: N.
    """

    def __init__(self, num_fights: int) -> None:
        shape = (max(CHUNK // num_fights, 1), num_fights)
        self._durations = EpisodeDurations(num_fights)
        self._meta, self._prior = np.zeros(shape, META_BYTES), np.zeros(shape, PRIOR_DTYPE)
        self._has_prior, self._outcome = np.zeros(shape, bool), np.zeros(shape, np.uint8)
        self._components = np.zeros((len(COMPONENTS), *shape), np.float32)
        self._clear()

    def begin(self, fights: NDArray[np.int64]) -> None:
        """New episodes have begun in these fights."""
        self._durations.begin(fights)

    def start_tick(self) -> None:
        """A tick begins."""
        self._durations.start_tick()

    def end_tick(
        self,
        tick: Tick,
        components: NDArray[np.float32],
        over: NDArray[np.bool_],
        length: NDArray[np.int64],
        reasons: NDArray[np.uint8],
    ) -> None:
        """Takes in the tick of all fights.

        Args:
            tick: what happened to the learners.
            components: the rewards ``(len(COMPONENTS), N)``.
            over: bool ``(N,)``, which fights have ended.
            length: ticks of each episode so far ``(N,)``.
            reasons: why fights broke off, `DesyncReason` numbers ``(N,)``.
        """
        self._durations.end_tick()
        row = self._filled
        self._meta[row] = np.ascontiguousarray(tick.meta).view(META_BYTES)
        self._has_prior[row], self._outcome[row] = tick.has_previous, tick.outcome
        for name in PRIOR_DTYPE.names or ():
            self._prior[name][row] = tick.previous[name]
        self._components[:, row] = components
        if over.any():
            self._end(tick, np.flatnonzero(over), length, reasons)
        self._filled += 1
        if self._filled == len(self._meta):
            self._reduce()

    def pop(self) -> NDArray[np.float64]:
        """Count, sum and sum of squares of everything since the last call, ``(len(METRICS) + len(COMPONENTS), 3)``.

        The sums of several environments may be added up; `summarize` makes metrics of them.
        """
        if self._filled:
            self._reduce()
        sums = self._sums
        self._clear()
        return sums

    def _clear(self) -> None:
        self._sums = np.zeros((len(METRICS) + len(COMPONENTS), 3))
        self._forget()

    def _forget(self) -> None:
        self._filled = 0
        self._endings: list[NDArray[np.uint8]] = [np.zeros((2, 0), np.uint8)]
        self._episodes: list[NDArray[np.float64]] = [np.zeros((len(EPISODE_ROWS), 0))]

    def _end(self, tick: Tick, ended: NDArray[np.int64], length: NDArray[np.int64], reasons: NDArray[np.uint8]) -> None:
        outcome = tick.outcome[ended]
        self._endings.append(np.stack([outcome, reasons[ended]]))
        decided = ended[(outcome != _RUNNING) & (outcome < _TARGET_LOST)]
        food, ticks = (tick.meta[name][decided] for name in ("food_count", "episode_ticks"))
        self._episodes.append(np.vstack([food, ticks - length[decided], self._durations.of(decided)]))

    def _reduce(self) -> None:
        ticks, number = self._ticks(), len(METRICS)
        for sums, metric in zip(self._sums, METRICS, strict=False):
            values = metric.series(ticks).astype(np.float64)
            sums += np.array([len(values), values.sum(), values @ values])
        components = self._components[:, : self._filled].reshape(len(COMPONENTS), -1)
        self._sums[number:, 0] += np.count_nonzero(components, axis=1)
        self._sums[number:, 1] += components.sum(axis=1, dtype=np.float64)
        self._forget()

    def _ticks(self) -> Ticks:
        arrays: list[NDArray[Any]] = [self._meta.view(META_DTYPE), self._prior, self._has_prior, self._outcome]
        meta, prior, has_prior, outcome = (array[: self._filled].ravel() for array in arrays)
        endings, reasons = np.concatenate(self._endings, axis=1)
        # Nobody knows what was reported of a fight that broke off (rewards.md §5).
        intact = slice(None) if (outcome < _TARGET_LOST).all() else outcome < _TARGET_LOST
        return Ticks(
            *(meta[intact], prior[intact], has_prior[intact], outcome[intact]),
            *(endings, reasons, np.concatenate(self._episodes, axis=1)),
        )


def summarize(sums: NDArray[np.float64]) -> dict[str, float]:
    """The metrics by tag, of sums that `FightMetrics.pop` gave; those with nothing to tell are left out.

    ``rewards/{component}_count`` counts the ticks in which a component was not zero, ``_total`` is its sum, ``_avg``
    the quotient; ``rewards/overall_total`` is the sum over all components (self-play.md §11.5).
    """
    metrics = {metric.tag: metric.summary(*row) for metric, row in zip(METRICS, sums.tolist(), strict=False)}
    summary = {tag: value for tag, value in metrics.items() if value is not None}
    rewards = sums[len(METRICS) :]
    for name, (count, total, _) in zip(COMPONENTS, rewards.tolist(), strict=True):
        if count:
            summary |= {
                f"rewards/{name}_count": count,
                f"rewards/{name}_total": total,
                f"rewards/{name}_avg": total / count,
            }
    return summary | {"rewards/overall_total": float(rewards[:, 1].sum())}
