"""Who watches the fights of an environment, for those who draw them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from sb3_pvp.envs.fights import Fights
from sb3_pvp.envs.viewer import known_looks
from sb3_pvp.game import Outcome


class Spectator:
    """Sees every tick of fights, also what could have been chosen in it, and the last one of a fight that is over.

    It only looks while somebody asks: for a tick after which nobody called `scene`, the next one costs nothing, and of
    the one after that the masks are unknown.

    Args:
        fights: to watch.
    """

    def __init__(self, fights: Fights) -> None:
        self._fights = fights
        self._started = False
        self._asked = False
        self._masks: NDArray[np.bool_] | None = None
        self._ends: dict[int, Any] = {}
        self._seen: set[int] = set()

    def scene(self, row: int) -> Any:
        """The last tick of the fight of a row; if that fight has ended in it, its end and not the new fight.

        That is so after `start_new` as well, but only if nobody has seen the end before.

        Raises `gymnasium.error.ResetNeeded` before the first fight, and `ValueError` for a contract whose fighters
        nobody knows how to draw.
        """
        if not self._started:
            raise ResetNeeded("there is no fight to render: call reset() first")
        self._asked = True
        self._seen.add(row)
        return self._ends.get(row) or self._look(row)

    def start_tick(self) -> None:
        """Call it before a tick."""
        self._ends.clear()
        self._seen.clear()
        self._masks = self._fights.seat_masks() if self._asked else None
        self._asked = False

    def see_end(self, rows: Iterable[int]) -> None:
        """Call it after a tick in which the fights of these rows have ended."""
        if self._masks is not None:
            self._ends = {row: self._look(row) for row in rows}

    def start_new(self) -> None:
        """Call it when new fights follow in the course of things."""
        self._started = True
        self._ends = {row: end for row, end in self._ends.items() if row not in self._seen}
        self._masks = None

    def start_over(self) -> None:
        """Call it when the fights are others than before, so that nobody shall see the old ones any more."""
        self.start_new()
        self._ends.clear()

    def _look(self, row: int) -> Any:
        fights = self._fights
        number, names, actions = fights.fighters(row)
        masks: Sequence[NDArray[np.bool_] | None] = (None, None)
        if self._masks is not None and fights.length[row] > 0:  # before its first tick nothing was to be chosen
            masks = self._masks[number]
        scene = known_looks(fights.settings.game.viewer).scene(fights.world, number, names, actions, masks)
        timeout = bool(fights.truncated[row]) and scene.outcome == Outcome.RUNNING.name.lower()
        return replace(scene, outcome="timeout") if timeout else scene
