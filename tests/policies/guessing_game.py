"""An environment with the spaces of NhEnv that raises on every illegal action."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from sb3_pvp.game.contract import load_contract

NH = load_contract("NhEnv")
NUM_PRIVILEGED = len(NH.partial_indices)
SPACE = spaces.Dict(
    {
        "observation": spaces.Box(-np.inf, np.inf, (1, NH.num_observations), np.float32),
        "privileged": spaces.Box(-np.inf, np.inf, (1, NUM_PRIVILEGED), np.float32),
        "action_mask": spaces.Box(0, 1, (NH.num_flat_actions,), np.int8),
    }
)


class GuessingGame(gym.Env[dict[str, Any], np.ndarray]):
    """Rewards eating when observation 0 is high; raises on actions that masks or rules forbid."""

    observation_space, action_space = SPACE, NH.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.ticks = 0
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        assert not breaks_a_rule(self.mask[None], action[None]).any(), f"{action} is not legal"
        food = NH.head_index("food")
        reward = float(action[food] == (self.value > 50))
        self.ticks += 1
        return self._observe(), reward, self.ticks == 20, False, {}

    def action_masks(self) -> np.ndarray:
        return self.mask

    def _observe(self) -> dict[str, Any]:
        self.value = self.np_random.uniform(0, 100)
        self.mask = self.np_random.random(NH.num_flat_actions) < 0.7
        food = NH.flat_offset("food")
        self.mask[food : food + 2] = True
        observation = np.full((1, NH.num_observations), self.value, np.float32)
        privileged = np.zeros((1, NUM_PRIVILEGED), np.float32)
        return {"observation": observation, "privileged": privileged, "action_mask": self.mask.astype(np.int8)}


def breaks_a_rule(masks: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Returns which joint actions of NhEnv have an illegal entry in a head that has a legal one; vectorised."""
    chosen = np.zeros_like(masks)
    np.put_along_axis(chosen, actions + NH.head_offsets[:-1], True, axis=1)
    allowed = masks & NH.dependencies.satisfied(chosen)
    nothing = np.logical_or.reduceat(allowed, NH.head_offsets[:-1], axis=1) == 0
    allowed[:, NH.head_offsets[:-1]] |= nothing
    return (chosen & ~allowed).any(1)
