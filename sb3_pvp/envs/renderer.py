"""Rendering of an environment's fights in Gymnasium's render modes: as text, as images, or in a window."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium.error import DependencyNotInstalled
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sb3_pvp.envs.window import Window

RENDER_FPS = 2  #: Ticks shown per second.
#: What `render` returns: text, an image uint8 ``(height, width, 3)``, or nothing.
Frame: TypeAlias = str | NDArray[np.uint8] | None


class FightRenderer:
    """Renders the last tick of each fight with the masks it was played with; also the end of a fight that was reset.

    Unused rendering is free: while `is_used` is false, nothing needs to be called. It is true for the tick after a
    rendered one, so the first frame after a pause has no masks. pygame is imported, and the window opened, on first
    use. ``scene_of`` returns the present scene of a row for ``viewer`` (`sb3_pvp.game.Viewer`).
    """

    def __init__(self, viewer: Any, title: str, scene_of: Callable[[int], Any]) -> None:
        self._viewer, self._title, self._scene_of = viewer, title, scene_of
        self._window: Window | None = None
        self._no_display = self.is_used = False
        self._final_scenes: dict[int, Any] = {}  #: Of the rows whose fight ended in the last tick.
        self._rendered: set[int] = set()  #: Rows that were rendered since the last tick.

    def start_tick(self) -> bool:
        """Call it before a tick; returns whether masks are to be kept, and `end_tick` to be called."""
        self.is_used = bool(self._rendered)
        self._final_scenes, self._rendered = {}, set()
        return self.is_used

    def end_tick(self, ended: NDArray[np.int64]) -> None:
        """Call it after a tick, with the rows whose fight has ended."""
        self._final_scenes = {row: self._scene_of(row) for row in ended.tolist()}

    def start_episodes(self, keep_final_scenes: bool) -> None:
        """Call it when fights were reset.

        Vectorized environments reset inside ``step``, so the end of a fight could never be rendered after it. With
        ``keep_final_scenes``, the next frame of such a row is its last fight's end, unless that was rendered already.
        """
        # Automatic resets only: whoever resets a fight himself wants to see the new one.
        kept = self._final_scenes if keep_final_scenes else {}
        self._final_scenes = {row: scene for row, scene in kept.items() if row not in self._rendered}

    def frame(self, row: int, render_mode: str | None) -> Frame:
        """Returns what `render` returns for the fight of a row, see `start_episodes`; shows it in mode ``"human"``."""
        if render_mode == "ansi":
            return self._text(self._scene(row))
        if render_mode == "rgb_array":
            return self._picture(self._scene(row))
        if render_mode == "human":
            self.show([row])
        return None

    def show(self, rows: Iterable[int]) -> None:
        """Shows fights side by side in the window for one tick's time; prints them if there is no display."""
        # Scenes before pictures: they are data, and are needed for text as well if there is no display.
        scenes = [self._scene(row) for row in rows]
        images = [] if self._no_display else [self._picture(scene) for scene in scenes]
        if images and self._window is None:
            from sb3_pvp.envs.window import Window, has_display

            if has_display():
                self._window = Window(self._title, RENDER_FPS)
            else:
                self._no_display = True
                gym.logger.warn("no display to open a window on: fights are printed as text")
        if self._window is None:
            print(*map(self._text, scenes), sep="\n", flush=True)
            return
        if len(images) > 1:
            from stable_baselines3.common.vec_env.base_vec_env import tile_images  # here, because it imports torch

            images = [tile_images(images)]
        self._window.show(images[0])

    def close(self) -> None:
        """Closes the window."""
        if self._window is not None:
            self._window.close()
            self._window = None

    def _scene(self, row: int) -> Any:
        scene = self._final_scenes.get(row) or self._scene_of(row)
        self.is_used = True
        self._rendered.add(row)
        return scene

    def _text(self, scene: Any) -> str:
        return str(self._viewer.text(scene, color="NO_COLOR" not in os.environ))

    def _picture(self, scene: Any) -> NDArray[np.uint8]:
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        try:
            import pygame  # noqa: F401
        except ImportError as error:
            raise DependencyNotInstalled('pictures of fights need pygame: pip install "sb3-pvp[render]"') from error
        picture: NDArray[np.uint8] = self._viewer.picture(scene)
        return picture
