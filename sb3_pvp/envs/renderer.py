"""Rendering of an environment's fights in Gymnasium's render modes: as text, as images, or in a window."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium.error import DependencyNotInstalled, ResetNeeded
from numpy.typing import NDArray

from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import Outcome, PlainViewer, World
from sb3_pvp.game.contract import Contract

if TYPE_CHECKING:
    from sb3_pvp.envs.window import Window

RENDER_MODES = ("ansi", "human", "rgb_array")
RENDER_FPS = 2  #: Ticks shown per second.
#: What `render` returns: text, an image uint8 ``(height, width, 3)``, or nothing.
Frame: TypeAlias = str | NDArray[np.uint8] | None


def check_render_mode(render_mode: str | None) -> str | None:
    """Returns the mode; `TypeError` for others, on which SB3's ``make_vec_env`` tries again without ``"rgb_array"``."""
    if render_mode is not None and render_mode not in RENDER_MODES:
        raise TypeError(f"unknown render_mode {render_mode!r} (known: None, {', '.join(map(repr, RENDER_MODES))})")
    return render_mode


class ShownFights(Protocol):
    """What is shown of fights, as in `sb3_pvp.envs.fights.Fights`; N rows."""

    settings: FightSettings
    contract: Contract
    world: World
    length: NDArray[np.int64]  #: Ticks so far, ``(N,)``.
    terminated: NDArray[np.bool_]  #: ``(N,)``.
    truncated: NDArray[np.bool_]  #: ``(N,)``.

    def seat_masks(self) -> NDArray[np.bool_]:
        """Returns copies of the masks of all seats by the number of the fight, bool ``(fights, 2, A)``."""

    def describe_seats(self, row: int) -> tuple[int, tuple[str, str], Sequence[NDArray[np.int64] | None]]:
        """Returns the number of the row's fight in the world, and by seat the players' names and last actions."""


class FightRenderer:
    """Renders the last tick of each fight with the masks it was played with; also the end of a fight that was reset.

    Unused rendering is free: masks are copied and final scenes kept only for the tick after a rendered one. So the
    first frame after a pause has no masks. pygame is imported, and the window opened, on first use.
    """

    def __init__(self, fights: ShownFights) -> None:
        self._fights = fights
        self.names: tuple[str, str] | None = None  #: Names of the players, if not those of `Fights.describe_seats`.
        self._window: Window | None = None
        self._no_display = self._started = self._was_rendered = False
        self._masks: NDArray[np.bool_] | None = None  #: Of the tick that is played or was played last.
        self._final_scenes: dict[int, Any] = {}  #: Of the rows whose fight ended in the last tick.
        self._rendered_rows: set[int] = set()  #: Since the last tick.

    def start_tick(self) -> None:
        """Call it before a tick."""
        self._final_scenes.clear()
        self._rendered_rows.clear()
        self._masks = self._fights.seat_masks() if self._was_rendered else None
        self._was_rendered = False

    def end_tick(self) -> None:
        """Call it after a tick."""
        if self._masks is not None:
            over = self._fights.terminated | self._fights.truncated
            self._final_scenes = {row: self._new_scene(row) for row in np.flatnonzero(over).tolist()}

    def start_episodes(self, keep_final_scenes: bool = False) -> None:
        """Call it when fights were reset.

        Vectorized environments reset inside ``step``, so the end of a fight could never be rendered after it. With
        ``keep_final_scenes``, the next frame of such a row is its last fight's end, unless that was rendered already.
        """
        self._started = True
        unseen = {row: scene for row, scene in self._final_scenes.items() if row not in self._rendered_rows}
        self._final_scenes = unseen if keep_final_scenes else {}
        self._masks = None

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
        scenes = [self._scene(row) for row in rows]
        images = [] if self._no_display else [self._picture(scene) for scene in scenes]
        if images and self._window is None:
            from sb3_pvp.envs.window import Window, has_display

            if has_display():
                self._window = Window(self._fights.contract.name, RENDER_FPS)
            else:
                self._no_display = True
                gym.logger.warn("no display to open a window on: fights are printed as text")
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
    def _game_viewer(self) -> Any:
        return self._fights.settings.game.viewer or PlainViewer(self._fights.contract)

    def _scene(self, row: int) -> Any:
        if not self._started:
            raise ResetNeeded("no fight to render: call reset() first")
        self._was_rendered = True
        self._rendered_rows.add(row)
        return self._final_scenes.get(row) or self._new_scene(row)

    def _new_scene(self, row: int) -> Any:
        fights = self._fights
        number, names, actions = fights.describe_seats(row)
        masks: Sequence[NDArray[np.bool_] | None] = (None, None)
        if self._masks is not None and fights.length[row] > 0:  # before the first tick there was no choice
            masks = self._masks[number]
        scene = self._game_viewer.scene(fights.world, number, self.names or names, actions, masks)
        # The tick limit is the environment's: for the world, the fight still runs.
        timeout = bool(fights.truncated[row]) and scene.outcome == Outcome.RUNNING.name.lower()
        return replace(scene, outcome="timeout") if timeout else scene

    def _text(self, scene: Any) -> str:
        return str(self._game_viewer.text(scene, color="NO_COLOR" not in os.environ))

    def _picture(self, scene: Any) -> NDArray[np.uint8]:
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        try:
            import pygame  # noqa: F401
        except ImportError as error:
            raise DependencyNotInstalled('pictures of fights need pygame: pip install "sb3-pvp[render]"') from error
        picture: NDArray[np.uint8] = self._game_viewer.picture(scene)
        return picture
