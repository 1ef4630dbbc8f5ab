"""The results of a tick: observations, masks, meta records and outcomes of both seats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.report import write_meta
from sb3_pvp.games.osrs.sim.state import Fight, Seat

Observe = Callable[[Seat, Seat, Fight, NDArray[np.float32]], None]
WriteMasks = Callable[[Seat, Seat, Fight, NDArray[np.bool_]], None]
Publish = Callable[..., None]


def make_publish(observe: Observe, write_masks: WriteMasks) -> Publish:
    """Returns a rule that writes the results of a tick for both seats, from rules that write those of one seat."""

    @rule
    def publish_seat(me: Seat, foe: Seat, fight: Fight, obs: Any, masks: Any, meta: Any) -> None:
        observe(me, foe, fight, obs)  # first: masks use the target's tile that it records
        write_masks(me, foe, fight, masks)
        write_meta(me, foe, meta)

    @rule
    def publish(
        fight: Fight, first: Seat, second: Seat, obs: Any, masks: Any, meta: Any, outcome: NDArray[np.uint8]
    ) -> None:
        publish_seat(first, second, fight, obs[0], masks[0], meta[0])
        publish_seat(second, first, fight, obs[1], masks[1], meta[1])
        outcome[0] = fight.outcome[0]
        outcome[1] = fight.outcome[1]

    return publish
