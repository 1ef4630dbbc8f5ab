"""The bonus for novel states, against training.md §6.2 (a) written out."""

from typing import Any

import numpy as np
import pytest
import torch as th
from duel import duels
from logged import remember
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import NoveltyRewardCallback
from sb3_pvp.callbacks.novelty import novelty, varying_features
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.networks import FrameStatistics

SMALL = {"n_steps": 16, "batch_size": 32, "n_epochs": 1, "seed": 0, "device": "cpu"}
FALLING = {"type": "linear", "initial_value": 1.0, "final_value": 0.0, "change_over_time_steps": 4}


class Buffers(BaseCallback):
    """Keeps, for each rollout, buffered rewards and observations, plain rewards and the statistics in force."""

    def __init__(self) -> None:
        super().__init__()
        self.rollouts: list[dict[str, Any]] = []

    def _on_rollout_start(self) -> None:
        normalizer = self.model.policy.observation_normalizer
        self.plain: list[Any] = []
        self.statistics = (normalizer.mean.numpy().copy(), normalizer.variance.numpy().copy(), float(normalizer.count))

    def _on_step(self) -> bool:
        self.plain.append(self.locals["rewards"].copy())
        return True

    def _on_rollout_end(self) -> None:
        buffer = self.model.rollout_buffer  # type: ignore[attr-defined]
        observations = buffer.observations["observation"].copy()
        rollout = {"rewards": buffer.rewards.copy(), "observations": observations, "plain": np.stack(self.plain)}
        self.rollouts.append(rollout | {"statistics": self.statistics})


def expected_novelty(rollout: dict[str, Any], varying: Any = slice(None)) -> Any:
    mean, variance, _ = rollout["statistics"]
    newest = rollout["observations"][:, :, 0]
    width = newest.shape[-1]
    scaled = np.clip((newest - mean[:width]) / np.sqrt(np.where(variance > 1e-6, variance, 1)[:width]), -5, 5)
    return np.maximum(np.abs(scaled) - 1, 0)[..., varying].sum(-1)


@pytest.mark.parametrize("algorithm", [PvpPPO, MaskablePPO])
def test_the_bonus_reaches_the_buffer(algorithm: Any) -> None:
    model = algorithm(AutoregressivePolicy, duels(), **SMALL)
    memory, buffers = remember(model), Buffers()
    model.learn(5 * 16 * 4, callback=[buffers, NoveltyRewardCallback(FALLING)])
    for number, rollout in enumerate(buffers.rollouts):
        scale = max(1 - number / 4, 0) if number else 0
        bonus = rollout["rewards"] - rollout["plain"]
        np.testing.assert_allclose(bonus, scale * expected_novelty(rollout), atol=1e-4)
    assert buffers.rollouts[1]["rewards"].max() > 1.5
    assert [dump["rollout/novelty_reward_scale"] for dump in memory.dumps] == [1.0, 0.75, 0.5, 0.25, 0.0]
    assert "rollout/novelty_mean" not in memory.dumps[0]
    seen = expected_novelty(buffers.rollouts[2])
    for statistic in ("mean", "std", "min", "max"):
        assert memory.dumps[2][f"rollout/novelty_{statistic}"] == pytest.approx(getattr(seen, statistic)(), abs=1e-4)
    assert "rollout/novelty" not in memory.dumps[2]


def test_only_own_observations_that_vary_count() -> None:
    env = NhVecEnv(4, max_episode_ticks=50)
    model = PvpPPO(AutoregressivePolicy, env, **SMALL)  # type: ignore[arg-type]
    remember(model)
    buffers = Buffers()
    model.learn(2 * 16 * 4, callback=[buffers, NoveltyRewardCallback(1.0)])
    contract = env.fights.contract
    constant = set(contract.constant_indices.tolist())
    varying = [index for index in range(contract.num_observations) if index not in constant]
    assert constant and varying_features(model).tolist() == [float(i not in constant) for i in range(176)]
    rollout = buffers.rollouts[1]
    bonus = rollout["rewards"] - rollout["plain"]
    np.testing.assert_allclose(bonus, expected_novelty(rollout, varying), rtol=1e-3, atol=2e-3)
    assert not np.allclose(bonus, expected_novelty(rollout))


def test_a_feature_counts_four_at_most() -> None:
    statistics = FrameStatistics(np.array([1.0, 0, 0, 0], "f4"), np.array([0.5, 1, 1, 1], "f4"), 5.0)
    seen = np.array([[1.0, 1.0, -1.0, 0.5], [7.0, -2.0, 100.0, -100.0]], np.float32)
    assert novelty(seen, statistics, np.ones(4, np.float32)).tolist() == [0.0, 2 + 1 + 4 + 4]
    assert novelty(seen, statistics, np.array([1, 1, 1, 0], np.float32)).tolist() == [0.0, 2 + 1 + 4]


def test_the_histogram_is_logged_if_enabled() -> None:
    model = PvpPPO(AutoregressivePolicy, duels(), **SMALL)  # type: ignore[arg-type]
    memory = remember(model)
    model.learn(2 * 16 * 4, callback=NoveltyRewardCallback(0.1, histogram=True))
    assert isinstance(memory.dumps[1]["rollout/novelty"], th.Tensor) and len(memory.dumps[1]["rollout/novelty"]) == 64
    assert "rollout/novelty" not in memory.printed[1]


def test_a_policy_without_statistics_is_refused() -> None:
    model = MaskablePPO("MultiInputPolicy", duels(), **SMALL)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="AutoregressivePolicy"):
        model.learn(64, callback=NoveltyRewardCallback(0.1))


@pytest.mark.parametrize(
    ("scale", "message"), [({"type": "linaer"}, "linaer"), ("a", "scale must be a finite number, got 'a'")]
)
def test_a_bad_scale_is_refused_at_once(scale: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NoveltyRewardCallback(scale)
