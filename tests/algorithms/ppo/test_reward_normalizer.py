"""Reward normalisation against its definition (training.md §4, §6.2)."""

import numpy as np
import pytest
import torch as th
from hypothesis import given
from hypothesis import strategies as st
from ppo_games import GuessingGame

from sb3_pvp import PvpPPO
from sb3_pvp.algorithms.ppo import RewardNormalizer
from sb3_pvp.algorithms.ppo.reward_normalizer import returns_to_go


@given(st.lists(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20), min_size=1, max_size=5))
def test_statistics_are_those_of_everything_seen(batches: list[list[float]]) -> None:
    normalizer = RewardNormalizer()
    for batch in batches:
        normalizer.update(np.array(batch))
    everything = np.concatenate([[0.0], *batches])
    # The fresh statistics are a sample with mean 0, variance 1 and hardly any weight.
    weights = np.concatenate([[1e-4], np.ones(len(everything) - 1)])
    mean = np.average(everything, weights=weights)
    variance = np.average((everything - mean) ** 2, weights=weights) + 1e-4 / weights.sum()
    assert normalizer.count == pytest.approx(weights.sum())
    assert normalizer.mean == pytest.approx(mean, abs=1e-6)
    assert normalizer.variance == pytest.approx(variance, rel=1e-6, abs=1e-6)


@given(st.data())
def test_returns_to_go_are_discounted_sums_up_to_the_end_of_the_episode(data: st.DataObject) -> None:
    steps, envs, gamma = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 3)), data.draw(st.floats(0, 1))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    rewards = rng.normal(size=(steps, envs)).astype(np.float32)
    starts = (rng.random((steps + 1, envs)) < 0.3).astype(np.float32)  # row `steps`: whether the last step was one
    last_values = rng.normal(size=envs).astype(np.float32)
    returns = returns_to_go(rewards, starts[:-1], last_values, starts[-1].astype(bool), gamma)
    for env in range(envs):
        for step in range(steps):
            expected, discount, now = 0.0, 1.0, step
            while True:
                expected += discount * rewards[now, env]
                discount *= gamma
                now += 1
                if starts[now, env]:
                    break
                if now == steps:
                    expected += discount * last_values[env]
                    break
            assert returns[step, env] == pytest.approx(expected, abs=1e-4)


def test_divides_by_the_spread_and_clips_but_does_not_centre() -> None:
    normalizer = RewardNormalizer(mean=7.0, variance=4.0, count=100.0)
    np.testing.assert_allclose(normalizer(np.array([2.0, -3.0, 50.0, -50.0], np.float32)), [1.0, -1.5, 10.0, -10.0])


class LastRollout(GuessingGame):
    """Records all steps since the last reset, with raw rewards."""

    def reset(self) -> dict[str, np.ndarray]:
        self.steps: list[tuple] = []
        return super().reset()

    def step_wait(self) -> tuple:
        result = super().step_wait()
        observation, rewards, dones, infos = result
        self.steps.append((observation, rewards.copy(), dones, infos))
        return result


@pytest.mark.parametrize("normalize_reward", [False, True])
def test_every_truncation_is_bootstrapped_on_the_scale_of_the_rewards(normalize_reward: bool) -> None:
    env = LastRollout(num_envs=8, reward_scale=20.0)
    model = PvpPPO("MultiInputPolicy", env, n_steps=32, n_epochs=0, normalize_reward=normalize_reward, seed=0)
    if normalize_reward:
        model.reward_normalizer = RewardNormalizer(mean=50.0, variance=400.0, count=1e12)  # hardly moves any more
    model.learn(8 * 32)
    scale = 20.0 if normalize_reward else 1.0
    expected = np.stack([rewards for _, rewards, _, _ in env.steps]) / scale
    truncated = 0
    for step, (_, _, dones, infos) in enumerate(env.steps):
        for index in np.flatnonzero(dones):
            if infos[index]["TimeLimit.truncated"]:
                last = model.policy.obs_to_tensor(infos[index]["terminal_observation"])[0]
                # On the normalised scale the value counts as it is, whatever the scale of the rewards.
                expected[step, index] += model.gamma * model.policy.predict_values(last).item()
                truncated += 1
    assert truncated > 3
    # train() has flattened nothing: the buffer still is (steps, envs).
    np.testing.assert_allclose(model.rollout_buffer.rewards, expected, rtol=1e-5, atol=1e-5)


def test_statistics_see_raw_returns_and_values_on_their_scale() -> None:
    env = LastRollout(num_envs=4, truncate=False, reward_scale=100.0)
    model = PvpPPO("MultiInputPolicy", env, n_steps=8, n_epochs=0, normalize_reward=True, seed=0)
    model.reward_normalizer = before = RewardNormalizer(mean=0.0, variance=1e4, count=10.0)
    model.learn(4 * 8)
    rewards = np.stack([rewards for _, rewards, _, _ in env.steps])
    observation, _, dones, _ = env.steps[-1]
    with th.no_grad():
        values = model.policy.predict_values(model.policy.obs_to_tensor(observation)[0]).numpy().flatten()
    starts = np.stack([np.ones(4, bool), *(dones for _, _, dones, _ in env.steps[:-1])]).astype(np.float32)
    expected = RewardNormalizer(mean=0.0, variance=1e4, count=10.0)
    expected.update(returns_to_go(rewards, starts, values * 100.0, dones, model.gamma))
    assert before.mean == pytest.approx(expected.mean, rel=1e-5)
    assert before.variance == pytest.approx(expected.variance, rel=1e-5)
