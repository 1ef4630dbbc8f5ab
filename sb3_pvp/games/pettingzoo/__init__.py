"""Any two-player game of PettingZoo as a game."""

from sb3_pvp.games.pettingzoo.world import PettingZooGame

__all__ = ["PettingZooGame"]
