"""A seed gives the same initial weights, whatever number of threads PyTorch has."""

from __future__ import annotations

from typing import Any

import pytest
import torch as th

from sb3_pvp import MAPOCA, PvpPPO
from sb3_pvp.algorithms.mapoca import MAPOCAPolicy
from sb3_pvp.envs import NhVecEnv, PvpVecEnv
from sb3_pvp.policies import AutoregressivePolicy


def ours() -> Any:
    return PvpPPO(AutoregressivePolicy, NhVecEnv(2), n_steps=8, batch_size=8, seed=0, policy_kwargs=WIDE)


def plain() -> Any:
    return PvpPPO("MultiInputPolicy", NhVecEnv(2), n_steps=8, batch_size=8, seed=0, policy_kwargs=WIDE)


def team() -> Any:
    env = PvpVecEnv(2, game="SoccerTwos-v0", opponent="self")
    return MAPOCA(MAPOCAPolicy, env, n_steps=8, batch_size=8, seed=0, policy_kwargs=WIDE)


WIDE = {"net_arch": [256, 256]}


@pytest.mark.parametrize("make", [ours, plain, team])
def test_initial_weights_do_not_depend_on_threads(make: Any) -> None:
    before, states = th.get_num_threads(), []
    try:
        for number in (1, 2):
            th.set_num_threads(number)
            states.append(make().policy.state_dict())
            assert th.get_num_threads() == number
    finally:
        th.set_num_threads(before)
    first, second = states
    assert first.keys() == second.keys() and all(th.equal(first[name], second[name]) for name in first)
