"""Training on the second game in any kind of environment; stock MaskablePPO loads its models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sb3_contrib import MaskablePPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp import PvpPPO
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy

ENVIRONMENTS: dict[str, Callable[[], VecEnv]] = {
    "one by one": lambda: make_vec_env("DharokEnv", 2, seed=0),
    "one world": lambda: NhVecEnv(2, contract="DharokEnv"),
    "one world of functions": lambda: make_vec_env("DharokEnv", 2, seed=0, vec_env_cls=NhVecEnv),
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_it_trains_and_stock_maskable_ppo_loads_it(name: str, tmp_path: Path) -> None:
    env = ENVIRONMENTS[name]()
    model = PvpPPO(AutoregressivePolicy, env, n_steps=64, batch_size=64, device="cpu", seed=0)
    before = model.policy.value_net.weight.detach().numpy().copy()
    model.learn(3 * 2 * 64)
    assert not np.array_equal(model.policy.value_net.weight.detach().numpy(), before)
    model.save(tmp_path / "fighter.zip")
    stock = MaskablePPO.load(tmp_path / "fighter.zip", device="cpu")
    assert stock.policy.contract.name == "DharokEnv"
    observation = env.reset()
    choices, _ = stock.predict(observation, deterministic=True)
    assert np.array_equal(choices, model.predict(observation, deterministic=True)[0])
    only_whip = np.ones(17, bool)
    only_whip[[0, 2, 3]] = False
    choice, _ = stock.predict(np.zeros(40, np.float32), action_masks=only_whip)
    assert choice.shape == (6,)
    assert choice[0] == 1
