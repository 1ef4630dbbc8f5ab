"""Fighters with memory for tests: their settings, and small models of them."""

from __future__ import annotations

from typing import Any

import pytest

from sb3_pvp import PvpPPO
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy

KINDS: dict[str, dict[str, Any]] = {
    "gru": {"kind": "gru", "size": 16},
    "lstm": {"kind": "lstm", "size": 16, "length": 16},
    "attention": {"kind": "attention", "size": 16, "ticks": 6, "heads": 2, "length": 16},
}
#: Of a test that takes seconds, all but one are slow.
ONE_KIND = [pytest.param(kind, marks=() if kind == "gru" else pytest.mark.slow) for kind in KINDS]


def remembering_model(kind: str, n_envs: int = 8, seed: int = 3, critic: bool = True, **settings: Any) -> PvpPPO:
    """A small model that has learned nothing yet, whose both seats learn."""
    memory = {**KINDS[kind], "critic": critic}
    given: dict[str, Any] = {"n_steps": 32, "batch_size": 128, "seed": 1, "device": "cpu", **settings}
    kwargs = {"memory": memory, "net_arch": [32]}
    env = NhVecEnv(n_envs, opponent="self", seed=seed, max_episode_ticks=20)
    return PvpPPO(AutoregressivePolicy, env, policy_kwargs=kwargs, **given)


def rollouts(model: PvpPPO, number: int) -> PvpPPO:
    """Learns from so many rollouts."""
    assert model.env is not None
    return model.learn(number * model.n_steps * model.env.num_envs, reset_num_timesteps=model.num_timesteps == 0)
