"""Games behind a screen: any program on a virtual display, seen as pixels and played with keys and the mouse."""

from sb3_pvp.games.screen.display import ScreenError
from sb3_pvp.games.screen.env import ScreenEnv
from sb3_pvp.games.screen.game_file import ScreenGame, read_screen_game

__all__ = ["ScreenEnv", "ScreenError", "ScreenGame", "read_screen_game"]
