"""Loads loadouts from Python, many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.games.osrs.sim.compile import callable_rule, rule
from sb3_pvp.games.osrs.sim.items import ITEM_NAMES
from sb3_pvp.games.osrs.sim.loadouts import BUILD_NAMES, load
from sb3_pvp.games.osrs.sim.state import NO_ITEM, SEAT


@callable_rule
@rule
def _load_all(seats: Any, builds: Any, randomize_gear: bool, seeds: Any, baseline_bots: Any) -> None:
    for i in range(len(seats)):
        load(seats[i], builds[i], randomize_gear, seeds[i], baseline_bots[i])


def loaded(builds: Sequence[str], seeds: ArrayLike | None = None, baseline_bots: ArrayLike = False) -> NDArray[np.void]:
    """Seats ``(n,)`` with the loadouts of these builds; gear is randomised if there are seeds."""
    seats = np.zeros(len(builds), SEAT)
    load_into(seats, builds, seeds, baseline_bots)
    return seats


def load_into(
    seats: NDArray[np.void], builds: Sequence[str], seeds: ArrayLike | None = None, baseline_bots: ArrayLike = False
) -> None:
    """Gives these seats other loadouts."""
    numbers = np.array([BUILD_NAMES.index(build) for build in builds])
    all_seeds = np.broadcast_to(np.asarray(0 if seeds is None else seeds, np.int64), len(builds)).copy()
    bots = np.broadcast_to(np.asarray(baseline_bots, np.bool_), len(builds)).copy()
    _load_all(seats, numbers, seeds is not None, all_seeds, bots)


def names(indices: NDArray[np.int64]) -> list[str]:
    """The names of these items, without empty places."""
    return [ITEM_NAMES[index] for index in indices if index != NO_ITEM]
