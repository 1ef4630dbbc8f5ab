"""Speed as a ratio: what one vectorised environment saves over the same fights one by one."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from sb3_pvp.envs import NhEnv, NhVecEnv
from sb3_pvp.game.contract import load_contract

FIGHTS, TICKS = 64, 20
NO_OP = np.zeros((FIGHTS, load_contract("NhEnv").num_heads), np.int64)


def _cpu_seconds(play: Callable[[], None]) -> float:
    start = time.process_time()
    play()
    return time.process_time() - start


def test_a_vec_env_costs_a_fraction_of_single_environments() -> None:
    vec_env = NhVecEnv(FIGHTS, opponent="baseline", seed=0)
    envs = [NhEnv(opponent="baseline") for _ in range(FIGHTS)]
    vec_env.reset()
    for k, env in enumerate(envs):
        env.reset(seed=k)

    def together() -> None:
        for _ in range(TICKS):
            vec_env.step(NO_OP)

    def one_by_one() -> None:
        for _ in range(TICKS):
            for k, env in enumerate(envs):
                env.step(NO_OP[k])

    together(), one_by_one()
    assert 10 * _cpu_seconds(together) < _cpu_seconds(one_by_one)
