from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv

from benchmarks.learning_curves.hidden_keys import HiddenKeys
from sb3_pvp.envs import NhVecEnv

SHOWN = {"observation", "action_mask"}


def test_hidden_keys_are_gone_everywhere_and_nothing_else_changes() -> None:
    hidden, plain = HiddenKeys(NhVecEnv(2, max_episode_ticks=3)), NhVecEnv(2, max_episode_ticks=3)
    assert set(hidden.observation_space.spaces) == SHOWN  # type: ignore[attr-defined]
    seen, expected = hidden.reset(), plain.reset()
    for tick in range(4):
        assert set(seen) == SHOWN
        assert np.array_equal(seen["observation"], expected["observation"])
        actions = np.zeros((2, len(plain.action_space.nvec)), np.int64)  # type: ignore[attr-defined]
        (seen, _, dones, infos), (expected, _, _, plain_infos) = hidden.step(actions), plain.step(actions)
        assert dones.all() == (tick == 2)
        if tick == 2:
            assert set(infos[1]["terminal_observation"]) == SHOWN
            assert set(plain_infos[1]["terminal_observation"]) == {*SHOWN, "privileged"}
    assert np.array_equal(hidden.env_method("action_masks"), plain.action_masks())


def test_what_is_not_there_cannot_be_hidden() -> None:
    with pytest.raises(ValueError, match="did you mean 'privileged'"):
        HiddenKeys(NhVecEnv(1), ("priviledged",))
    with pytest.raises(ValueError, match="Dict"):
        HiddenKeys(DummyVecEnv([lambda: gym.make("CartPole-v1")]))
