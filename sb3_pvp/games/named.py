"""Games that are found by their names."""

from __future__ import annotations

from typing import Any

from sb3_pvp.game import Game, find_game


class NamedGame(Game):
    """Base class of installed games: pickled as a name, so that caches, and classes of other versions, stay behind."""

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return find_game, (self.name,)
