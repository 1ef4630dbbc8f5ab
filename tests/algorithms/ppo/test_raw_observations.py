"""A model sees raw observations and masks in training, as everywhere else; `VecNormalize` may do rewards only."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecEnvWrapper, VecMonitor, VecNormalize

from sb3_pvp import PvpPPO
from sb3_pvp.algorithms.ppo import actor_choice
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from tests.policies.guessing_game import GuessingGame


def learner(env: VecEnv, **arguments: Any) -> PvpPPO:
    settings: dict[str, Any] = {"n_steps": 8, "batch_size": 16, "seed": 0, "device": "cpu", **arguments}
    return PvpPPO(AutoregressivePolicy, env, policy_kwargs={"net_arch": [4]}, **settings)


class Rescaled(VecEnvWrapper):
    """Doubles everything in observations."""

    def reset(self) -> Any:
        return {key: 2 * part for key, part in self.venv.reset().items()}  # type: ignore[union-attr]

    def step_wait(self) -> Any:
        seen, *rest = self.venv.step_wait()
        return {key: 2 * part for key, part in seen.items()}, *rest  # type: ignore[union-attr]


def gym_envs() -> VecEnv:
    return DummyVecEnv([lambda: gym.make("NhEnv")] * 2)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (lambda: VecNormalize(NhVecEnv(2)), "VecNormalize would show this model other observations"),
        (lambda: VecNormalize(NhVecEnv(2), norm_obs_keys=["observation"]), "VecNormalize would show"),
        (lambda: VecMonitor(VecNormalize(gym_envs())), "VecNormalize would show"),
        (lambda: Rescaled(NhVecEnv(2)), "an action mask is 0 or 1, but this one has 2: some wrapper rescales it"),
        (lambda: Rescaled(DummyVecEnv([GuessingGame] * 2)), "an action mask is 0 or 1"),
        (lambda: VecNormalize(DummyVecEnv([GuessingGame] * 2)), "an action mask is 0 or 1"),
    ],
)
def test_a_wrapper_that_changes_observations_is_refused(env: Any, message: str) -> None:
    model = learner(env())
    with pytest.raises(ValueError, match=message) as refusal:
        model.learn(16)
    assert "\n" not in str(refusal.value) and model.num_timesteps == 0


def test_a_model_that_gets_one_later_is_refused_as_well() -> None:
    model = learner(NhVecEnv(2)).learn(16)
    model.set_env(VecNormalize(NhVecEnv(2)))
    with pytest.raises(ValueError, match="VecNormalize would show"):
        model.learn(16)


def test_rewards_may_be_normalised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actor_choice, "num_cores", lambda: 4)
    env = VecNormalize(NhVecEnv(32), norm_obs=False)
    model = learner(env, actors="auto").learn(600_000, callback=lambda seen, _: seen["self"].num_timesteps < 64)
    assert env.ret_rms.count > 32, "played here: actors would miss the wrapper"
    seen = env.reset()
    assert isinstance(seen, dict) and set(np.unique(seen["action_mask"])) <= {0, 1}
    model.predict(seen)


def test_games_of_others_may_normalise_what_is_no_mask() -> None:
    env = VecNormalize(DummyVecEnv([GuessingGame] * 2), norm_obs_keys=["observation"])
    assert learner(env).learn(32).num_timesteps == 32
