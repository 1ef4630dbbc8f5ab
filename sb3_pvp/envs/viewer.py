"""Shows scenes in a render mode of Gymnasium: as text, as arrays, or in a window."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium.error import DependencyNotInstalled
from numpy.typing import NDArray

from sb3_pvp.game import Viewer as Looks

if TYPE_CHECKING:
    from sb3_pvp.envs.window import Window

RENDER_MODES = ("ansi", "human", "rgb_array")
#: Ticks shown per second; in the game it is five in three seconds.
RENDER_FPS = 2

#: What `render` returns: a text, a picture uint8 ``(640, 960, 3)``, or nothing.
Frame: TypeAlias = str | NDArray[np.uint8] | None


def check_render_mode(render_mode: str | None) -> str | None:
    """Returns the mode, or raises `TypeError` for one that does not exist.

    It is a `TypeError` because SB3's ``make_vec_env`` asks for ``"rgb_array"`` first and, on this error only, tries
    again without.
    """
    if render_mode is not None and render_mode not in RENDER_MODES:
        raise TypeError(f"unknown render_mode {render_mode!r} (known: None, {', '.join(map(repr, RENDER_MODES))})")
    return render_mode


class Viewer:
    """Shows the fights of one environment. Nothing is imported, and no window is opened, before there is need to.

    Args:
        title: of the window.
        looks: how the game looks.
    """

    def __init__(self, title: str, looks: Looks | None) -> None:
        self._title, self._looks = title, looks
        self._window: Window | None = None
        self._no_display = False

    def frame(self, scene: Any, render_mode: str | None) -> Frame:
        """What `render` returns in a mode; in mode ``"human"`` the window shows it instead.

        Raises `gymnasium.error.DependencyNotInstalled` if pygame is missing, but for texts.
        """
        if render_mode == "ansi":
            return self._text(scene)
        if render_mode == "rgb_array":
            return self._picture(scene)
        if render_mode == "human":
            self.show([scene])
        return None

    def show(self, scenes: Sequence[Any]) -> None:
        """Shows fights side by side in the window, for as long as a tick lasts; without a display, as text."""
        if not self._no_display:
            image = _tiled([self._picture(scene) for scene in scenes])
            try:
                self._window = self._window or _open_window(self._title)
                self._window.show(image)
            except _NoDisplay:
                self._no_display = True
                gym.logger.warn("there is no display to open a window on: fights are shown as text")
        if self._no_display:
            for scene in scenes:
                print(self._text(scene), flush=True)

    def close(self) -> None:
        """Closes the window."""
        if self._window is not None:
            self._window.close()
            self._window = None

    def _text(self, scene: Any) -> str:
        return known_looks(self._looks).text(scene, color="NO_COLOR" not in os.environ)

    def _picture(self, scene: Any) -> NDArray[np.uint8]:
        """Raises `gymnasium.error.DependencyNotInstalled` if pygame is missing."""
        _require_pygame()
        return known_looks(self._looks).picture(scene)


def known_looks(looks: Looks | None) -> Looks:
    """Raises `ValueError` for a game of which nobody knows how it looks."""
    if looks is None:
        raise ValueError("this game has no viewer (`sb3_pvp.game.Viewer`): nobody knows how to draw it")
    return looks


class _NoDisplay(Exception):
    pass


def _tiled(images: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    if len(images) == 1:
        return images[0]
    from stable_baselines3.common.vec_env.base_vec_env import tile_images  # here, because it imports torch

    return tile_images(images)


def _require_pygame() -> None:
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        import pygame  # noqa: F401
    except ImportError as error:
        raise DependencyNotInstalled('pictures of fights need pygame: pip install "sb3-pvp[render]"') from error


def _open_window(title: str) -> Window:
    from sb3_pvp.envs.window import Window, has_display

    if not has_display():
        raise _NoDisplay
    return Window(title, RENDER_FPS)
