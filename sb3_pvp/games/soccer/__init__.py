"""Soccer as in Unity's ML-Agents: SoccerTwos-v0, two against two, and StrikersVsGoalie-v0, two against one.

A seat is a team. The physics are two-dimensional; what agents see, decide and are rewarded for is laid out as there, so
that fighters which were trained there can play here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sb3_pvp.games.named import NamedGame
from sb3_pvp.games.soccer import layout as layouts
from sb3_pvp.games.soccer.pitch import MAX_STEPS, STEPS_PER_DECISION
from sb3_pvp.games.soccer.rewards import SoccerParams, SoccerRewards
from sb3_pvp.games.soccer.scripts import scripts_of
from sb3_pvp.games.soccer.viewer import SoccerViewer

if TYPE_CHECKING:
    from sb3_pvp.games.soccer.world import SoccerWorld

__all__ = ["SOCCER_TWOS", "STRIKERS_VS_GOALIE", "SoccerGame"]


class SoccerGame(NamedGame):
    """A game of soccer with these players."""

    params, rewards, max_episode_ticks = SoccerParams, SoccerRewards(), MAX_STEPS // STEPS_PER_DECISION

    def __init__(self, layout: layouts.Layout) -> None:
        self.name, self.layout, self.contract = layout.name, layout, layout.contract
        self.viewer, self.scripts = SoccerViewer(layout), scripts_of(layout.roles)

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> SoccerWorld:
        """See `sb3_pvp.game.Game.make_world`."""
        from sb3_pvp.games.soccer.world import SoccerWorld  # here, because it imports Numba

        return SoccerWorld(self.layout, num_fights, seed, params)


SOCCER_TWOS = SoccerGame(layouts.SOCCER_TWOS)
STRIKERS_VS_GOALIE = SoccerGame(layouts.STRIKERS_VS_GOALIE)
