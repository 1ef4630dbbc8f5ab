"""LaneClash, a card battler on two lanes: LaneClash-v0, and LaneClashPixels-v0 with pictures.

Hidden hands, real time, and a grid on which cards are placed. Cards are data (`sb3_pvp.games.lanes.cards`), and rules
whole numbers in Numba, for thousands of battles at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sb3_pvp.game.contract import Contract
from sb3_pvp.games.lanes.cards import CardTable, own_cards, read_cards
from sb3_pvp.games.lanes.layout import PIXELS_NAME, SMALLEST, pixels_contract, vector_contract
from sb3_pvp.games.lanes.params import LanesParams
from sb3_pvp.games.lanes.rewards import LanesRewards
from sb3_pvp.games.lanes.scripts import scripts_of
from sb3_pvp.games.lanes.viewer import LanesViewer
from sb3_pvp.games.named import NamedGame

if TYPE_CHECKING:
    from sb3_pvp.games.lanes.world import LanesWorld

__all__ = ["LANES", "LANES_PIXELS", "LanesGame", "lanes_pixels", "read_cards"]


class LanesGame(NamedGame):
    """Battles with these cards; ``contract`` says whether players see numbers or pictures."""

    params, rewards = LanesParams, LanesRewards()
    max_episode_ticks = 2400  # of 0.1 seconds: more than that a battle never has

    def __init__(self, table: CardTable, contract: Contract) -> None:
        self.name, self.table, self.contract = contract.name, table, contract
        table.figures.flags.writeable = False  # also where it was unpickled: worlds save what may change
        self._vectors = vector_contract(table) if contract.pixels else contract
        self.viewer = LanesViewer(table)
        # Of pictures only the world's own bot knows enough: `LanesParams.bot`.
        self.scripts: Mapping[str, Any] = {} if contract.pixels else scripts_of(table)

    def __reduce__(self) -> Any:
        if self in (LANES, LANES_PIXELS):  # a name is shorter, and what it stands for has a cache
            return super().__reduce__()
        return LanesGame, (self.table, self.contract)

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> LanesWorld:
        """See `sb3_pvp.game.Game.make_world`."""
        from sb3_pvp.games.lanes.world import LanesWorld  # here, because it imports Numba

        return LanesWorld(self.table, self.contract, self._vectors, num_fights, seed, params)


@lru_cache(8)
def lanes_pixels(size: int = SMALLEST) -> LanesGame:
    """Returns the game with pictures of 64 to 448 pixels a side; it is registered with 64 of them."""
    name = PIXELS_NAME if size == SMALLEST else PIXELS_NAME.replace("-", f"{size}-")
    return LanesGame(own_cards(), pixels_contract(own_cards(), size, name))


LANES = LanesGame(own_cards(), vector_contract(own_cards()))
LANES_PIXELS = lanes_pixels()
