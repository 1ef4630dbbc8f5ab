"""DreamerV3 learns, plays, is saved and loaded as an algorithm of Stable-Baselines3; what it records is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_pvp.algorithms.dreamer.dreamer import DreamerV3
from sb3_pvp.algorithms.dreamer.signals import ActionSignals, ObservedSignals, Signal
from sb3_pvp.algorithms.dreamer.sizes import ModelSize

TINY = ModelSize(deter=16, hidden=8, units=8, classes=4, depth=2, stoch=4, blocks=4, layers=1, image_blocks=4, bins=41)


class Counting(gym.Env[Any, Any]):
    """Shows how many steps there were in all; episodes take 3 steps and end, then 2 and are cut off, in turn."""

    action_space = spaces.Discrete(100)

    def __init__(self, observation_space: spaces.Space[Any] | None = None) -> None:
        self.observation_space = observation_space or spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.total = self.steps = self.episodes = -1

    def observe(self) -> Any:
        self.total += 1
        if isinstance(self.observation_space, spaces.Box):
            return np.full((1,), self.total, np.float32)
        return self.observation_space.sample()

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        super().reset(**options)
        self.episodes, self.steps = self.episodes + 1, 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        ends = self.episodes % 2 == 0 and self.steps == 3
        return (
            self.observe(),
            float(10 * self.episodes + self.steps),
            ends,
            self.episodes % 2 == 1 and self.steps == 2,
            {},
        )


def dreamer(env: Any, **options: Any) -> DreamerV3:
    defaults: dict[str, Any] = {"batch_size": 2, "batch_length": 4, "train_ratio": 8, "buffer_size": 1000}
    defaults |= {"imagined_steps": 3, "policy_kwargs": {"size": TINY}, "device": "cpu", "seed": 0}
    return DreamerV3("MlpPolicy", env, **(defaults | options))


def test_terminal_observations_are_records_of_their_own() -> None:
    model = dreamer(DummyVecEnv([Counting]), batch_length=64).learn(9)
    records = model.replay_buffer.records[: model.replay_buffer.counts[0]]
    assert records["observation/observation"][:, 0].tolist() == list(range(12))
    # Episodes of 3, 2, 3 and (so far) 1 step; a reset brings no reward, the last step of an episode does.
    assert records["reward"].tolist() == [0, 1, 2, 3, 0, 11, 12, 0, 21, 22, 23, 0]
    assert np.flatnonzero(records["is_first"]).tolist() == [0, 4, 7, 11]
    assert np.flatnonzero(records["is_last"]).tolist() == [3, 6, 10]
    assert np.flatnonzero(records["is_terminal"]).tolist() == [3, 10]
    assert records["action/action"][[3, 6, 10]].tolist() == [[0]] * 3
    # The state is that of the policy. At first, episodes begin with zeros, and nothing follows the last step of one.
    assert np.flatnonzero(~records["deter"].any(-1)).tolist() == [0, 3, 4, 6, 7, 10, 11]


def test_it_learns_at_its_ratio_and_is_loaded_with_all_that_it_knows(tmp_path: Path) -> None:
    env = make_vec_env("CartPole-v1", 2, seed=0)
    model = dreamer(env).learn(60)
    records = int(model.replay_buffer.counts.sum())
    # The first update is made when eight sequences of five can be sampled: after the eighth step of both.
    assert model.n_updates == records - 16 + 1
    model.save(tmp_path / "fighter.zip")
    model.save_replay_buffer(tmp_path / "replay.pkl")
    loaded = DreamerV3.load(tmp_path / "fighter.zip", env=env, device="cpu")
    loaded.load_replay_buffer(tmp_path / "replay.pkl")
    for name, weights in model.policy.state_dict().items():
        assert th.equal(weights, loaded.policy.state_dict()[name]), name
    assert loaded.replay_buffer.size() == model.replay_buffer.size()
    assert loaded.policy.return_scale.high > 0
    with pytest.warns(UserWarning, match="resumes with new episodes"):
        loaded.learn(20, reset_num_timesteps=False)
    # Not a restart: it goes on at once, with the updates that are due.
    assert loaded.n_updates == model.n_updates + int(loaded.replay_buffer.counts.sum()) - records
    assert loaded.policy.optimizer.state_dict()["state"][0]["step"] == loaded.n_updates


def test_predictions_carry_a_state_that_episodes_forget() -> None:
    env = make_vec_env("CartPole-v1", 2, seed=0)
    model = dreamer(env)
    observation = env.reset()
    _, first = model.predict(observation, deterministic=True)
    _, second = model.predict(observation, first, np.array([False, True]), deterministic=True)
    assert first is not None and second is not None
    assert not np.allclose(first[0][0], second[0][0])
    assert np.array_equal(first[0][1], second[0][1])
    alone, _ = model.predict(observation[0], deterministic=True)
    assert np.shape(alone) == ()
    assert evaluate_policy(model, env, 2, deterministic=False)[0] > 5


@pytest.mark.parametrize("id", ["Pendulum-v1", "Dict"])
def test_other_spaces(id: str) -> None:
    space = spaces.Dict(
        {
            "image": spaces.Box(0, 255, (48, 48, 3), np.uint8),
            "many": spaces.MultiDiscrete([2, 5]),
            "keys": spaces.Discrete(3, start=-1),
            "hidden": spaces.Box(-1, 1, (2, 2)),
        }
    )
    env: gym.Env[Any, Any] = Counting(space) if id == "Dict" else gym.make(id)
    size = ModelSize(deter=16, hidden=8, units=8, classes=4, depth=2, stoch=4, blocks=4, layers=1, bins=41)
    kwargs = {"size": size, "mlp_keys": "many|keys"} if id == "Dict" else {"size": size}
    model = DreamerV3(
        "MultiInputPolicy" if id == "Dict" else "MlpPolicy", env, batch_size=2, batch_length=4, train_ratio=2,
        buffer_size=100, imagined_steps=2, policy_kwargs=kwargs, device="cpu", seed=0,
    ).learn(30)  # fmt: skip
    assert model.n_updates > 3
    signals = {"image": Signal(0, image=(48, 48, 3)), "many_0000": Signal(1, 2), "many_0001": Signal(1, 5)}
    if id == "Dict":
        assert model.policy.observed.signals == {**signals, "keys": Signal(1, 3)}
        assert set(np.unique(model.replay_buffer.records["observation/keys"])) == {0, 1, 2}
    else:
        action, _ = model.predict(np.zeros(3, np.float32))
        assert env.action_space.contains(action)


def test_actions_are_clipped_and_mapped_to_their_bounds() -> None:
    actions = ActionSignals(spaces.Box(np.float32([0, -np.inf]), np.float32([10, np.inf])))
    assert actions.to_env({"action": th.tensor([[0.5, 3.0], [-2.0, 0.5]])}).tolist() == [[7.5, 1.0], [0.0, 0.5]]


def test_keys_that_match_nothing_and_other_spaces_are_named() -> None:
    with pytest.raises(ValueError, match="no key of the observation matches mlp_keys 'x'.*: seen"):
        ObservedSignals(spaces.Dict({"seen": spaces.Box(-1, 1, (2,))}), mlp_keys="x")
    with pytest.raises(ValueError, match="does not support seen in Text"):
        ObservedSignals(spaces.Dict({"seen": spaces.Text(3)}))
