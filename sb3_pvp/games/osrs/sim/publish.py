"""The results of a tick: observations, masks, meta records and outcomes of both seats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.report import write_meta
from sb3_pvp.games.osrs.sim.state import Fight, Seat
from sb3_pvp.games.osrs.sim.stock import count_inventory

#: Take the seat, its foe, the fight and the seat's `stock.count_inventory`.
Observe = Callable[[Seat, Seat, Fight, int, bool, NDArray[np.float32]], None]
WriteMasks = Callable[[Seat, Seat, Fight, int, NDArray[np.bool_]], None]
Publish = Callable[..., None]


def make_publish(observe: Observe, write_masks: WriteMasks) -> Publish:
    """Returns a rule that writes the results of a tick for both seats, from rules that write those of one seat.

    It must be called with ``starts`` set at the start of a fight, and with the same arrays in all ticks after it:
    then it writes the entries of the observations that rarely or never change.
    """

    @rule
    def publish(
        fight: Fight,
        first: Seat,
        second: Seat,
        starts: bool,
        obs: Any,
        masks: Any,
        meta: Any,
        outcome: NDArray[np.uint8],
    ) -> None:
        bag, other_bag = count_inventory(first), count_inventory(second)
        observe(first, second, fight, bag, starts, obs[0])  # first: masks use the target's tile that it records
        observe(second, first, fight, other_bag, starts, obs[1])
        write_masks(first, second, fight, bag, masks[0])
        write_masks(second, first, fight, other_bag, masks[1])
        write_meta(first, second, bag, other_bag, meta[0])
        write_meta(second, first, other_bag, bag, meta[1])
        outcome[0] = fight.outcome[0]
        outcome[1] = fight.outcome[1]

    return publish
