"""Tiny games for PvpPPO: a vectorised guessing game with get_state() and set_state(), and helpers for it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp import PvpPPO

# Networks as small as these only lose by more threads.
th.set_num_threads(1)

HEAD_SIZES = (3, 2)


class GuessingGame(VecEnv):
    """Guess which of three entries of the observation is the highest, and whether the fourth is positive.

    Entry 0 of the first head is forbidden now and then. Episodes have 5 to 9 steps; with `truncate`, some are cut off.
    Everything random comes from one generator, so that the game can be put back to any moment.
    """

    render_mode = None

    def __init__(self, num_envs: int = 4, seed: int = 0, truncate: bool = True, reward_scale: float = 1.0) -> None:
        observation_space = spaces.Dict({"observation": spaces.Box(-np.inf, np.inf, (4,), np.float32)})
        super().__init__(num_envs, observation_space, spaces.MultiDiscrete(HEAD_SIZES))
        self.rng = np.random.default_rng(seed)
        self.truncate, self.reward_scale = truncate, reward_scale
        self.trained_rollouts: list[int] = []
        self.state: dict[str, np.ndarray] = {}

    def reset(self) -> dict[str, np.ndarray]:
        n = self.num_envs
        self.state = {"left": self.rng.integers(5, 10, n), "length": np.zeros(n, int), "total": np.zeros(n)}
        self._deal()
        return self._observation()

    def step_async(self, actions: np.ndarray) -> None:
        assert self.action_masks()[np.arange(self.num_envs), actions[:, 0]].all(), "a forbidden guess"
        self.actions = actions

    def step_wait(self) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, list[dict[str, Any]]]:
        seen, state = self.state["seen"], self.state
        allowed = np.where(self.action_masks()[:, :3], seen[:, :3], -np.inf)
        rewards = (self.actions[:, 0] == allowed.argmax(1)) + 0.5 * (self.actions[:, 1] == (seen[:, 3] > 0))
        rewards = (self.reward_scale * rewards).astype(np.float32)
        state["left"] -= 1
        state["length"] += 1
        state["total"] += rewards
        dones = state["left"] == 0
        self._deal()
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for index in np.flatnonzero(dones):
            infos[index] = self._finish(index)
        return self._observation(), rewards, dones, infos

    def action_masks(self) -> np.ndarray:
        masks = np.ones((self.num_envs, sum(HEAD_SIZES)), bool)
        masks[:, 0] = self.state["seen"][:, 3] < 0.5
        return masks

    def set_trained_rollouts(self, trained_rollouts: int) -> None:
        self.trained_rollouts.append(trained_rollouts)

    def get_state(self) -> dict[str, Any]:
        return copy.deepcopy({"rng": self.rng.bit_generator.state, **self.state})

    def set_state(self, state: dict[str, Any]) -> None:
        self.state = copy.deepcopy(state)
        self.rng.bit_generator.state = self.state.pop("rng")

    def _deal(self) -> None:
        self.state["seen"] = self.rng.normal(size=(self.num_envs, 4)).astype(np.float32)

    def _observation(self) -> dict[str, np.ndarray]:
        return {"observation": self.state["seen"].copy()}

    def _finish(self, index: int) -> dict[str, Any]:
        state = self.state
        total = float(state["total"][index])
        info = {
            "terminal_observation": {"observation": state["seen"][index].copy()},
            "TimeLimit.truncated": self.truncate and bool(self.rng.random() < 0.3),
            "episode": {"r": total, "l": int(state["length"][index]), "t": 0.0},
            "is_success": total > 4 * self.reward_scale,
        }
        state["left"][index], state["length"][index], state["total"][index] = self.rng.integers(5, 10), 0, 0.0
        return info

    def close(self) -> None:
        pass

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        result = getattr(self, method_name)(*args, **kwargs)
        return list(result) if method_name == "action_masks" else [result]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


def mean_reward(model: PvpPPO) -> float:
    """What a model wins per step with its most likely actions: by chance 0.6, at best 1.5."""
    env = GuessingGame(num_envs=64, seed=9)
    observation, rewards = env.reset(), []
    for _ in range(20):
        actions, _ = model.predict(observation, action_masks=env.action_masks(), deterministic=True)
        observation, reward, _, _ = env.step(actions)
        rewards.append(reward.mean())
    return float(np.mean(rewards))
