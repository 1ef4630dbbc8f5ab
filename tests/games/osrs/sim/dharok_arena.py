"""An arena of the Dharok game, and the masks and observations of its two seats by name."""

from __future__ import annotations

from typing import Any

import numpy as np
from arena import Arena, one

from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.sim import SimWorld
from sb3_pvp.games.osrs.sim.items import item_named
from sb3_pvp.games.osrs.sim.state import NO_ITEM

DHAROK = load_contract("DharokEnv")


class DharokArena(Arena):
    """N fights; A one tile west of B, A first in every tick, PIDs are never redrawn."""

    def __init__(self, num_fights: int = 1, bots: tuple[str | None, str | None] = (None, None), **options: Any) -> None:
        self.enter(SimWorld(num_fights, contract="DharokEnv"), bots=bots, **options)

    def empty_slots(self, seat: Any, name: str, count: int) -> None:
        """Takes this many pieces of an item out of every inventory."""
        for row in seat["inventory"]:
            row[np.flatnonzero(row == item_named(name))[:count]] = NO_ITEM

    def allowed(self, name: str, seat: int = 0) -> bool:
        """What all fights say about a sub-action of a seat."""
        return bool(one(self.world.masks[:, seat, DHAROK.flat_index(name)]))

    def sees(self, name: str, seat: int = 0) -> float:
        """An entry of a seat's observation in the first fight."""
        return float(self.world.obs[0, seat, DHAROK.observation_index(name)])
