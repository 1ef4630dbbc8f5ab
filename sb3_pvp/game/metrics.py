"""What a game logs about its fights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.world import Transition


@dataclass(frozen=True)
class Ticks(Transition):
    """A batch of learners' ticks, without those of aborted fights: M ticks, E fights that ended, K of them decided.

    The arrays of `Transition` are ``(M,)``.
    """

    endings: NDArray[np.uint8]  #: `Outcome` numbers ``(E,)`` of the fights that ended, `Outcome.RUNNING` for a timeout.
    reasons: NDArray[np.uint8]  #: `DesyncReason` numbers ``(E,)``.
    last: NDArray[np.void]  #: The report of the last tick of each decided fight, ``(K,)``.
    lengths: NDArray[np.int64]  #: The number of ticks that the learner has played in each decided fight, ``(K,)``.
    durations: NDArray[np.float64]  #: ``(8, K)``, see `sb3_pvp.envs.measures.DURATIONS`.


Series = Callable[[Ticks], NDArray[Any]]  #: Computes the values of a metric, possibly none.
Statistic = Literal["mean", "sum", "std", "count", "number"]  #: How values become the logged number.


@dataclass(frozen=True)
class Metric:
    """A number that is logged once per rollout."""

    tag: str  #: Its key in the log.
    statistic: Statistic  #: Of the values; ``"number"`` counts the true ones, and is not logged if there are none.
    series: Series
    meaning: str  #: A one-sentence description.


@dataclass
class Metrics:
    """What to log about a game's reports. Outcomes, rewards and durations are logged for every game."""

    table: Sequence[Metric] = ()
    values: Sequence[str] = ()  #: Fields of the report that are summarized in ``info["episode_statistics"]``.
    #: By boolean field: the fields that only count in ticks where it is set.
    optional: Mapping[str, Sequence[str]] = field(default_factory=dict)


ReportMetrics = Metrics  #: Their other name.
