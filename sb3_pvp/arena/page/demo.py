"""An arena for a first look: the fighters that ship, and the scripts of a game, in a temporary folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.challenge import Challenge
from sb3_pvp.game import HOME_GAME, find_game
from sb3_pvp.players.opponents import WORLD_BOT, opponent_names
from sb3_pvp.policies.files.shipped import shipped_names

#: Scripts beside the fighters.
_SCRIPTS = 3


@contextmanager
def make_demo(game: str | None = None, processes: int | None = None) -> Iterator[Arena]:
    """Makes an arena that is gone afterwards; its players are admitted without a test, since they came with this."""
    name = game or HOME_GAME
    played = find_game(name)
    shipped = shipped_names(played.name)
    scripts = [each for each in opponent_names(played) if each not in (*shipped, WORLD_BOT, "noop")][:_SCRIPTS]
    with tempfile.TemporaryDirectory() as folder:
        challenge = Challenge(name="demo", game=name, scripts=(*shipped, *scripts, WORLD_BOT), fights_per_match=10)
        Arena.create(Path(folder) / "arena", challenge).close()
        with closing(Arena(Path(folder) / "arena", processes)) as arena:
            yield arena
