"""Soccer as in Unity's ML-Agents: SoccerTwos-v0, two against two, and StrikersVsGoalie-v0, two against one.

A seat is a team. The physics are two-dimensional; what agents see, decide and are rewarded for is laid out as there, so
that fighters which were trained there can play here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sb3_pvp.game import Game, Rewards, Viewer, find_game
from sb3_pvp.game.contract import Contract
from sb3_pvp.games.soccer.pitch import MAX_STEPS, STEPS_PER_DECISION

if TYPE_CHECKING:
    from pydantic import BaseModel

    from sb3_pvp.game.contract.turn import Turn
    from sb3_pvp.games.soccer.layout import Layout
    from sb3_pvp.games.soccer.world import SoccerWorld

__all__ = ["SOCCER_TWOS", "STRIKERS_VS_GOALIE", "SoccerGame"]


class SoccerGame(Game):
    """A game of soccer. Compiled physics are imported on first use.

    Args:
        name: of the game and its contract.
        layout: the name of a layout in `sb3_pvp.games.soccer.layout`.
    """

    def __init__(self, name: str, layout: str) -> None:
        self.name, self._layout = name, layout
        self.max_episode_ticks = MAX_STEPS // STEPS_PER_DECISION

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return find_game, (self.name,)

    @cached_property
    def layout(self) -> Layout:
        """Who plays, and what they see."""
        from sb3_pvp.games.soccer import layout

        return getattr(layout, self._layout)  # type: ignore[no-any-return]

    @cached_property
    def contract(self) -> Contract:  # type: ignore[override]
        """The observations and actions of a team."""
        return self.layout.contract

    @cached_property
    def params(self) -> type[BaseModel]:  # type: ignore[override]
        """The reset parameters."""
        from sb3_pvp.games.soccer.params import SoccerParams

        return SoccerParams

    @cached_property
    def rewards(self) -> Rewards:  # type: ignore[override]
        """Unity's rewards, for the team."""
        from sb3_pvp.games.soccer.rewards import SoccerRewards

        return SoccerRewards()

    @cached_property
    def scripts(self) -> Mapping[str, Callable[[Turn], None]]:  # type: ignore[override]
        """Scripted teams of three strengths."""
        from sb3_pvp.games.soccer.scripts import scripts_of

        return scripts_of(self.layout)

    @cached_property
    def viewer(self) -> Viewer:  # type: ignore[override]
        """The pitch from above."""
        from sb3_pvp.games.soccer.viewer import SoccerViewer

        return SoccerViewer(self.layout)

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> SoccerWorld:
        """See `sb3_pvp.game.Game.make_world`."""
        from sb3_pvp.games.soccer.params import SoccerParams
        from sb3_pvp.games.soccer.world import SoccerWorld

        return SoccerWorld(self.layout, num_fights, seed, SoccerParams.read(params))


SOCCER_TWOS = SoccerGame("SoccerTwos-v0", "SOCCER_TWOS")
STRIKERS_VS_GOALIE = SoccerGame("StrikersVsGoalie-v0", "STRIKERS_VS_GOALIE")
