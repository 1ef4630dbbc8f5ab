"""Shows the fights of an environment in a render mode of Gymnasium: as text, as arrays, or in a window."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium.error import DependencyNotInstalled, ResetNeeded
from numpy.typing import NDArray

from sb3_pvp.game import Outcome

if TYPE_CHECKING:
    from sb3_pvp.envs.fights import Fights
    from sb3_pvp.envs.window import Window

RENDER_MODES = ("ansi", "human", "rgb_array")
RENDER_FPS = 2  #: Ticks shown per second.
#: What `render` returns: a text, a picture uint8 ``(height, width, 3)``, or nothing.
Frame: TypeAlias = str | NDArray[np.uint8] | None


def check_render_mode(render_mode: str | None) -> str | None:
    """Returns the mode; `TypeError` for others, on which SB3's ``make_vec_env`` tries again without ``"rgb_array"``."""
    if render_mode is not None and render_mode not in RENDER_MODES:
        raise TypeError(f"unknown render_mode {render_mode!r} (known: None, {', '.join(map(repr, RENDER_MODES))})")
    return render_mode


class Viewer:
    """Sees every tick of fights, also what could have been chosen in it, and the last one of a fight that is over.

    It only looks while somebody asks: for a tick that nobody looked at, the next one costs nothing, and of the one
    after that the masks are unknown. Nothing is imported, and no window is opened, before there is need to.
    """

    def __init__(self, fights: Fights) -> None:
        self._fights = fights
        self.names: tuple[str, str] | None = None  #: Of the players; ``None``: those that the fights have.
        self._window: Window | None = None
        self._no_display = self._started = self._asked = False
        self._masks: NDArray[np.bool_] | None = None
        self._ends: dict[int, Any] = {}
        self._seen: set[int] = set()

    def start_tick(self) -> None:
        """Call it before a tick."""
        self._ends.clear()
        self._seen.clear()
        self._masks = self._fights.seat_masks() if self._asked else None
        self._asked = False

    def end_tick(self) -> None:
        """Call it after a tick."""
        if self._masks is not None:
            over = self._fights.terminated | self._fights.truncated
            self._ends = {row: self._look(row) for row in np.flatnonzero(over).tolist()}

    def start_new(self, certain: bool = True) -> None:
        """Call it when new fights have begun; ``certain`` ones: nobody shall see the ends of those before."""
        self._started = True
        self._ends = {row: end for row, end in self._ends.items() if row not in self._seen and not certain}
        self._masks = None

    def frame(self, row: int, render_mode: str | None) -> Frame:
        """What `render` returns for the fight of a row; in mode ``"human"`` the window shows it instead.

        It is the last tick; if the fight has ended in it, its end and not the new fight, unless that was seen before:
        vectorised environments reset before anybody can see it.
        """
        if render_mode == "ansi":
            return self._text(self._scene(row))
        if render_mode == "rgb_array":
            return self._picture(self._scene(row))
        if render_mode == "human":
            self.show([row])
        return None

    def show(self, rows: Iterable[int]) -> None:
        """Shows fights side by side in the window, for as long as a tick lasts; without a display, as text."""
        scenes = [self._scene(row) for row in rows]
        images = [] if self._no_display else [self._picture(scene) for scene in scenes]
        if images and self._window is None:
            from sb3_pvp.envs.window import Window, has_display

            if has_display():
                self._window = Window(self._fights.contract.name, RENDER_FPS)
            else:
                self._no_display = True
                gym.logger.warn("there is no display to open a window on: fights are shown as text")
        if self._no_display:
            for scene in scenes:
                print(self._text(scene), flush=True)
        elif self._window is not None:
            if len(images) > 1:
                from stable_baselines3.common.vec_env.base_vec_env import tile_images  # here, because it imports torch

                images = [tile_images(images)]
            self._window.show(images[0])

    def close(self) -> None:
        """Closes the window."""
        if self._window is not None:
            self._window.close()
            self._window = None

    @property
    def _looks(self) -> Any:
        if (looks := self._fights.settings.game.viewer) is None:
            raise ValueError("this game has no viewer (`sb3_pvp.game.Viewer`): nobody knows how to draw it")
        return looks

    def _scene(self, row: int) -> Any:
        if not self._started:
            raise ResetNeeded("there is no fight to render: call reset() first")
        self._asked = True
        self._seen.add(row)
        return self._ends.get(row) or self._look(row)

    def _look(self, row: int) -> Any:
        fights = self._fights
        number, names, actions = fights.fighters(row)
        masks: Sequence[NDArray[np.bool_] | None] = (None, None)
        if self._masks is not None and fights.length[row] > 0:  # before its first tick nothing was to be chosen
            masks = self._masks[number]
        scene = self._looks.scene(fights.world, number, self.names or names, actions, masks)
        timeout = bool(fights.truncated[row]) and scene.outcome == Outcome.RUNNING.name.lower()
        return replace(scene, outcome="timeout") if timeout else scene

    def _text(self, scene: Any) -> str:
        return str(self._looks.text(scene, color="NO_COLOR" not in os.environ))

    def _picture(self, scene: Any) -> NDArray[np.uint8]:
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        try:
            import pygame  # noqa: F401
        except ImportError as error:
            raise DependencyNotInstalled('pictures of fights need pygame: pip install "sb3-pvp[render]"') from error
        picture: NDArray[np.uint8] = self._looks.picture(scene)
        return picture
