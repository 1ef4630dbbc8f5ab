"""An arena with a round that was played, whose page is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.page.page_server import serving_page
from tests.arena.test_rounds import make

SCRIPTS = ("level-2", "level-5", "level-8")


def played(folder: Path, **facts: Any) -> Arena:
    """An arena of the duel after a round."""
    arena = make(folder, SCRIPTS, **facts)
    arena.run_once()
    return arena


@contextmanager
def served(arena: Arena, **settings: Any) -> Iterator[str]:
    """Yields the address of its page."""
    with serving_page(arena, port=0, **settings) as address:
        yield address
