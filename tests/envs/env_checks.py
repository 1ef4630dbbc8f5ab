"""What every environment of ours must pass."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray

from sb3_pvp.game.checks import assert_value_error, wrong_actions
from sb3_pvp.game.contract import Contract


def check_pvp_env(env: gym.Env[Any, Any], ticks: int = 300, seed: int = 0) -> None:
    """Checks that an environment is usable by Gymnasium, SB3 and maskable algorithms.

    It must pass Gymnasium's checker, have a ``contract``, show in every observation under ``"action_mask"`` what
    ``action_masks()`` returns, accept every action that is legal under it, refuse malformed actions and seeds with
    `ValueError` and stay usable.

    Args:
        env: the environment, wrapped or not.
        ticks: how long to play.
        seed: of the fight and of the actions.

    Raises:
        AssertionError: with the promise that is broken.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check_env(env.unwrapped, skip_render_check=True)
        except Exception as error:
            raise AssertionError(f"Gymnasium's checker says: {error}") from error
    contract: Contract = env.get_wrapper_attr("contract")
    rng = np.random.default_rng(seed)
    observation, _ = env.reset(seed=seed)
    for _ in range(ticks):
        mask = _check_mask(env, contract, observation)
        observation, reward, terminated, truncated, _ = env.step(contract.random_action(mask, rng))
        assert np.isfinite(float(reward)), f"the reward must be finite, got {reward}"
        if terminated or truncated:
            observation, _ = env.reset()
    wrongs: tuple[Any, ...] = (-1, 1.5, float("nan"))
    for wrong in wrongs:
        assert_value_error(partial(env.reset, seed=wrong), f"reset with seed {wrong!r}")
    env.reset(seed=1)
    for action, fault in wrong_actions((), contract):
        assert_value_error(partial(env.step, action), f"step with {fault}")
    env.step(contract.random_action(env.get_wrapper_attr("action_masks")(), np.random.default_rng(0)))


def _check_mask(env: gym.Env[Any, Any], contract: Contract, observation: Any) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = env.get_wrapper_attr("action_masks")()
    assert mask.shape == (contract.num_flat_actions,), f"action_masks() must be flat, has shape {mask.shape}"
    assert mask.dtype == np.bool_, f"action_masks() must be bool, is {mask.dtype}"
    shown = observation["action_mask"]
    assert np.array_equal(shown, mask), 'the observation\'s "action_mask" must equal action_masks()'
    return mask
