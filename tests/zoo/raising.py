"""A callback and environments that raise, for tests of what becomes of their errors."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp.game import WorldError

ERRORS = {error.__name__: error for error in (ValueError, FileNotFoundError, TypeError)}


class Raising(BaseCallback):
    """Raises this error at this moment: ``init``, ``rollout`` or ``step``; and another one whenever it cleans up."""

    def __init__(self, error: str, at: str) -> None:
        super().__init__()
        self.error, self.at = error, at

    def reach(self, moment: str) -> None:
        if moment == self.at:
            raise ERRORS[self.error](f"wrong\nat {moment}")

    def _init_callback(self) -> None:
        self.reach("init")

    def _on_rollout_start(self) -> None:
        self.reach("rollout")

    def _on_step(self) -> bool:
        self.reach("step")
        return True

    def _on_training_end(self) -> None:
        raise AttributeError("never set up")


class RaisingEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Raises in its fifth step if its first seed is odd: in the second of two environments, by an even seed."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.steps_left = 5 if seed % 2 else -1
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.steps_left -= 1
        if not self.steps_left:
            raise ValueError("wrong")
        return self.env.step(action)


class LostWorld(gym.Wrapper[Any, Any, Any, Any]):
    """Loses its world at this moment: ``make``, ``reset`` or ``step``, there in the third one of an odd first seed."""

    def __init__(self, env: gym.Env[Any, Any], at: str, error: str = "WorldError") -> None:
        super().__init__(env)
        self.at, self.steps = at, 0
        if at == "make":
            raise ERRORS.get(error, WorldError)("the world\nis gone")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if self.at == "reset":
            raise WorldError("the world\nis gone")
        self.is_odd = seed % 2 == 1 if seed is not None else self.is_odd
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.steps += 1
        if self.at == "step" and self.steps == 3 and self.is_odd:
            raise WorldError("the world\nis gone")
        return self.env.step(action)
