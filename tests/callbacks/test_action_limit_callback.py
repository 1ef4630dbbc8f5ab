"""The penalty for many actions in a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from duel import duels
from logged import remember
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import ActionLimitCallback
from sb3_pvp.policies import AutoregressivePolicy

SMALL = {"n_steps": 16, "batch_size": 32, "n_epochs": 1, "seed": 0, "device": "cpu"}


class Steps(BaseCallback):
    """Keeps rewards and actions of every step."""

    def __init__(self) -> None:
        super().__init__()
        self.rewards: list[Any] = []
        self.actions: list[Any] = []

    def _on_step(self) -> bool:
        self.rewards.append(self.locals["rewards"].copy())
        self.actions.append(self.locals["actions"].copy())
        return True


def test_each_action_above_the_limit_costs_the_penalty() -> None:
    model = PvpPPO(AutoregressivePolicy, duels(), **SMALL)
    logged, before, after = remember(model), Steps(), Steps()
    falling = {"type": "linear", "initial_value": 0.5, "final_value": 0.0, "change_over_time_steps": 2}
    model.learn(2 * 16 * model.n_envs, callback=[before, ActionLimitCallback(1, falling), after])
    counts = (np.stack(after.actions) != 0).sum(-1)
    assert (counts > 1).any() and (counts <= 1).any()
    expected = np.repeat([0.5, 0.25], 16)[:, None] * np.maximum(counts - 1, 0)
    np.testing.assert_allclose(np.stack(before.rewards) - np.stack(after.rewards), expected, atol=1e-6)
    for half, dump in enumerate(logged.dumps[:2]):
        own = counts[16 * half : 16 * (half + 1)]
        assert dump["rollout/actions_mean"] == pytest.approx(own.mean())
        assert dump["rollout/actions_over_limit"] == pytest.approx((own > 1).mean())


def test_it_needs_heads() -> None:
    model = PvpPPO("MlpPolicy", make_vec_env("CartPole-v1"), **SMALL)
    with pytest.raises(ValueError, match="several action heads"):
        model.learn(16, callback=ActionLimitCallback(1, 0.5))
    with pytest.raises(ValueError, match="penalty"):
        ActionLimitCallback(1, -0.5)
