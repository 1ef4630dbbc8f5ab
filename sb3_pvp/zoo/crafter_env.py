"""Crafter as an environment of Gymnasium, which its package is not; importing this registers it."""

from __future__ import annotations

from typing import Any

import crafter
import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

ENV_ID = "Crafter-v1"
Observation = dict[str, NDArray[Any]]


class CrafterEnv(gym.Env[Any, Any]):
    """A world of 64 x 64 cells to survive in, seen from above: ``"image"`` is ``(size, size, 3)`` uint8.

    Each of the 22 achievements pays 1 the first time, health lost or won a tenth. An episode ends with death, or is cut
    off after ``length`` steps. ``"log_achievement_NAME"``, for the log only, is how often there was each so far.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, size: int = 64, length: int = 10_000, render_mode: str | None = None) -> None:
        self._given, self.render_mode = {"size": (size, size), "length": length}, render_mode
        self._game = crafter.Env(**self._given)
        counts = {f"log_achievement_{name}": spaces.Box(0, np.inf, (1,), np.float32) for name in self.achievements}
        self.observation_space = spaces.Dict({"image": spaces.Box(0, 255, (size, size, 3), np.uint8), **counts})
        self.action_space = spaces.Discrete(len(self._game.action_names))

    @property
    def achievements(self) -> list[str]:
        """The names of all achievements."""
        return list(crafter.constants.achievements)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins a new world, with a seed always the same one."""
        super().reset(seed=seed)
        if seed is not None:
            self._game = crafter.Env(seed=seed, **self._given)
        return self._seen(self._game.reset(), dict.fromkeys(self.achievements, 0)), {}

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Makes a step; ``info`` has the inventory."""
        image, reward, done, info = self._game.step(int(action))
        is_dead = info["discount"] == 0
        inventory = {"inventory": info["inventory"]}
        return self._seen(image, info["achievements"]), float(reward), is_dead, done and not is_dead, inventory

    def render(self) -> NDArray[np.uint8]:
        """Returns a picture ``(600, 600, 3)``."""
        picture: NDArray[np.uint8] = self._game.render((600, 600))
        return picture

    @staticmethod
    def _seen(image: NDArray[np.uint8], counts: dict[str, int]) -> Observation:
        return {"image": image} | {
            f"log_achievement_{name}": np.array([count], np.float32) for name, count in counts.items()
        }


gym.register(ENV_ID, entry_point="sb3_pvp.zoo.crafter_env:CrafterEnv")
