"""A small environment for tests of callbacks: who will win can be seen, and is reported as in `NhEnv`."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import DummyVecEnv

HEADS = (2, 3)


class Duel(gym.Env[Any, Any]):
    """Episodes of five to eight steps; the first feature of the newest of two frames is positive if they will be won.

    The other two features are noise of size 10, and the number of the step; the critic also sees minus the first.
    """

    def __init__(self, tied: float = 0.0, outcomes: bool = True) -> None:
        self.observation_space = spaces.Dict(
            {
                "observation": spaces.Box(-np.inf, np.inf, (2, 3), np.float32),
                "privileged": spaces.Box(-np.inf, np.inf, (2, 1), np.float32),
                "action_mask": spaces.Box(0, 1, (sum(HEADS),), np.int8),
            }
        )
        self.action_space = spaces.MultiDiscrete(HEADS)
        self.tied, self.outcomes = tied, outcomes
        self.older = np.zeros(3, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps, self.length = 0, int(self.np_random.integers(5, 9))
        self.sign = float(self.np_random.choice([-1.0, 1.0]))
        self.newest = np.zeros(3, np.float32)
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        over = self.steps == self.length
        info: dict[str, Any] = {}
        if over and self.outcomes:
            tied = self.np_random.random() < self.tied
            info["outcome"] = "tied" if tied else "won" if self.sign > 0 else "lost"
        return self.observe(), float(action[0]), over, False, info

    def observe(self) -> dict[str, NDArray[Any]]:
        older = self.newest
        noise = self.np_random.normal(0, 10)
        self.newest = np.array([self.sign * self.np_random.uniform(0.5, 1.5), noise, self.steps], np.float32)
        frames = np.stack([self.newest, older])
        return {"observation": frames, "privileged": -frames[:, :1], "action_mask": self.action_masks().astype(np.int8)}

    def action_masks(self) -> NDArray[np.bool_]:
        return np.array([True, True, True, self.steps % 2 == 0, False])


class ResumableDuels(DummyVecEnv):
    """A vectorised environment of them that can be put back."""

    _state = ("envs", "buf_obs", "buf_dones", "buf_rews", "buf_infos")

    def get_state(self) -> dict[str, Any]:
        return copy.deepcopy({name: getattr(self, name) for name in self._state})

    def set_state(self, state: dict[str, Any]) -> None:
        vars(self).update(copy.deepcopy(state))


def duels(number: int = 4, **kwargs: Any) -> DummyVecEnv:
    """A vectorised environment of them."""
    return DummyVecEnv([lambda: Duel(**kwargs)] * number)
