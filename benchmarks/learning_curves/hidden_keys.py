"""A wrapper that hides parts of the observation from the learner."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper

from sb3_pvp.common.errors import require_all_known
from sb3_pvp.players.seats import Observation


class HiddenKeys(VecEnvWrapper):
    """Removes keys from Dict observations; without ``"privileged"`` the critic sees only what the actor sees.

    Raises:
        ValueError: if the environment has no Dict observations or lacks one of the keys.
    """

    def __init__(self, venv: VecEnv, keys: tuple[str, ...] = ("privileged",)) -> None:
        if not isinstance(venv.observation_space, spaces.Dict):
            raise ValueError(f"HiddenKeys needs Dict observations, not {venv.observation_space}")
        require_all_known("observation key", keys, venv.observation_space.spaces)
        self._keys = frozenset(keys)
        super().__init__(venv, observation_space=spaces.Dict(self._visible(venv.observation_space.spaces)))

    def reset(self) -> Observation:
        """Resets all environments; returns their observations without the hidden keys."""
        return self._visible(self.venv.reset())  # type: ignore[arg-type]

    def step_wait(self) -> tuple[Observation, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Plays one step; removes the hidden keys from all observations, including terminal ones."""
        observations, rewards, dones, infos = self.venv.step_wait()
        # Algorithms bootstrap from terminal observations, which must fit the same space.
        for index in np.flatnonzero(dones):
            infos[index]["terminal_observation"] = self._visible(infos[index]["terminal_observation"])
        return self._visible(observations), rewards, dones, infos  # type: ignore[arg-type]

    def _visible(self, parts: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in parts.items() if key not in self._keys}
