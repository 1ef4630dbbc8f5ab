"""A critic that sees more than the actor: only the critic gets the observation's "privileged" part.

A farmer sees the soil and sows one of eight crops. The right crop earns 1; the weather, which the farmer cannot see,
adds or takes 20. A critic that sees the weather predicts its share, so that the advantage is due to the crop alone.
Without it the farmer learns from noise. `predict` does not need the privileged part.

python examples/privileged_critic.py    # about 15 s of one core
"""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env

from sb3_pvp import PvpPPO
from sb3_pvp.policies import AutoregressivePolicy

CROPS = np.arange(8)
SOILS = np.eye(len(CROPS), dtype=np.float32)


class Farm(gym.Env[dict[str, Any], np.int64]):  # one crop is an episode
    action_space = spaces.Discrete(len(CROPS))

    def __init__(self, shows_weather: bool) -> None:
        parts = {"observation": spaces.Box(0, 1, (len(CROPS),)), "privileged": spaces.Box(-1, 1, (1,))}
        self.keys = list(parts) if shows_weather else ["observation"]
        self.observation_space = spaces.Dict({key: parts[key] for key in self.keys})

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.soil, self.weather = int(self.np_random.integers(len(CROPS))), int(self.np_random.choice([-1, 1]))
        return self.look(), {}

    def step(self, action: np.int64) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        return self.look(), float(action == self.soil) + 20 * self.weather, True, False, {}

    def look(self) -> dict[str, Any]:
        parts = {"observation": SOILS[self.soil], "privileged": np.array([self.weather], np.float32)}
        return {key: parts[key] for key in self.keys}


def main(total_timesteps: int = 40_000) -> dict[str, float]:
    shares = {}
    for critic in ("blind", "informed"):
        env = make_vec_env(Farm, 32, seed=0, env_kwargs={"shows_weather": critic == "informed"})
        model = PvpPPO(AutoregressivePolicy, env, 1e-3, n_steps=32, batch_size=256, n_epochs=4, seed=0)
        model.learn(total_timesteps, use_masking=False)
        crops, _ = model.predict({"observation": SOILS}, deterministic=True)
        shares[critic] = float(np.mean(crops == CROPS))
        print(f"{critic} critic: the right crop for {shares[critic]:.0%} of the soils")
    return shares


if __name__ == "__main__":
    main()
