"""With default arguments PvpPPO is MaskablePPO."""

from typing import Any

import numpy as np
import pytest
import torch as th
from ppo_games import GuessingGame
from sb3_contrib import MaskablePPO
from sb3_contrib.common.envs import InvalidActionEnvDiscrete
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from sb3_pvp import PvpPPO

SMALL: dict[str, Any] = {"n_steps": 16, "batch_size": 24, "n_epochs": 3, "seed": 3, "device": "cpu"}


def weights(cls: type[MaskablePPO], policy: str, env: Any, steps: int = 200, **kwargs: Any) -> dict[str, th.Tensor]:
    model = cls(policy, env, **(SMALL | kwargs))
    model.learn(steps)
    return model.policy.state_dict()


def assert_equal(ours: dict[str, th.Tensor], stock: dict[str, th.Tensor], **tolerance: float) -> None:
    assert ours.keys() == stock.keys()
    for name in ours:
        th.testing.assert_close(ours[name], stock[name], **(tolerance or {"rtol": 0, "atol": 0}))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"clip_range_vf": 0.2, "ent_coef": 0.01, "normalize_advantage": False},
        {"target_kl": 1e-5, "learning_rate": 0.01},
        {"batch_size": None},
        {"learning_rate": lambda progress: 1e-3 * progress, "clip_range": lambda progress: 0.1 + 0.1 * progress},
    ],
)
def test_same_weights_bit_for_bit(options: dict[str, Any]) -> None:
    games = [GuessingGame(truncate=False) for _ in range(2)]
    ours = weights(PvpPPO, "MultiInputPolicy", games[0], **options)
    stock = weights(MaskablePPO, "MultiInputPolicy", games[1], **options)
    assert_equal(ours, stock)


def test_same_weights_with_truncations_up_to_rounding() -> None:
    # Stock SB3 evaluates truncated episodes one by one, we evaluate all of a step in one batch.
    ours = weights(PvpPPO, "MultiInputPolicy", GuessingGame())
    stock = weights(MaskablePPO, "MultiInputPolicy", GuessingGame())
    assert_equal(ours, stock, rtol=1e-3, atol=1e-5)
    without = weights(PvpPPO, "MultiInputPolicy", GuessingGame(truncate=False))
    assert any(not th.allclose(ours[name], without[name], rtol=1e-3, atol=1e-5) for name in ours)


def test_same_weights_with_discrete_actions_in_wrapped_environments() -> None:
    def env() -> VecNormalize:
        return VecNormalize(make_vec_env(InvalidActionEnvDiscrete, 3, seed=5, env_kwargs={"dim": 6}), norm_obs=False)

    ours, stock = (weights(cls, "MlpPolicy", env()) for cls in (PvpPPO, MaskablePPO))
    assert_equal(ours, stock)


def test_same_metrics() -> None:
    logged = []
    for cls in (PvpPPO, MaskablePPO):
        model = cls("MultiInputPolicy", GuessingGame(truncate=False), **SMALL)
        model.learn(2 * 64)
        logged.append(dict(model.logger.name_to_value))
    ours, stock = logged
    assert stock
    for tag in stock.keys() - {"train/loss", "time/fps"}:  # we log the mean loss, SB3 the last one
        np.testing.assert_allclose(ours[tag], stock[tag], rtol=1e-5, err_msg=tag)
