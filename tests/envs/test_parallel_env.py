"""`parallel_env`: PettingZoo's tests, both seats, and wrong input."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pettingzoo")

from pettingzoo.test import parallel_api_test, parallel_seed_test

import sb3_pvp.envs
from sb3_pvp.envs import NhEnv, parallel_env
from sb3_pvp.game import Outcome
from tests.envs.fake_world import FakeWorld, ending

NORMAL = {"type": "expression", "expression": "normal(0, 1)"}
NOTHING = np.zeros(12, np.int64)
STAB = np.array([3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])


def both(first: Any, second: Any) -> dict[str, Any]:
    return {"fighter_0": first, "fighter_1": second}


def test_it_passes_pettingzoo_s_tests() -> None:
    parallel_api_test(parallel_env(), num_cycles=400)
    parallel_seed_test(parallel_env, num_cycles=100)


def test_a_seed_is_for_both_agents() -> None:
    env = parallel_env(noise={"adders": [{"indices": ["0:10"], "value": NORMAL}]})
    seen = [env.reset(seed=seed)[0] for seed in (3, 3)]
    for agent in env.agents:
        assert np.array_equal(seen[0][agent]["observation"], seen[1][agent]["observation"])


def test_an_agent_sees_what_a_single_environment_shows() -> None:
    single, pair = NhEnv(opponent="noop"), parallel_env()
    observation, _ = single.reset(seed=3)
    observations, _ = pair.reset(seed=3)
    for _ in range(20):
        for key, value in observation.items():
            assert np.array_equal(observations["fighter_0"][key], value)
        assert np.array_equal(pair.action_masks("fighter_0"), single.action_masks())
        observation, reward, *_ = single.step(STAB)
        observations, rewards, *_ = pair.step(both(STAB, NOTHING))
        assert rewards["fighter_0"] == reward


def test_each_seat_gets_its_own_rewards_and_outcome() -> None:
    env = parallel_env(world=FakeWorld)
    env.reset(seed=0)
    _, rewards, _, _, infos = env.step(both(STAB, NOTHING))
    assert rewards["fighter_0"] == pytest.approx(-rewards["fighter_1"])
    assert rewards["fighter_0"] > 0
    while env.agents:
        _, rewards, terminated, truncated, infos = env.step(both(STAB, NOTHING))
    assert (terminated, truncated) == (both(True, True), both(False, False))
    assert (infos["fighter_0"]["outcome"], infos["fighter_1"]["outcome"]) == ("won", "lost")
    assert env.step({}) == ({}, {}, {}, {}, {})


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ({"world": FakeWorld, "max_episode_ticks": 1}, "timeout"),
        ({"world": ending((Outcome.TARGET_LOST, Outcome.DESYNC), tick=1)}, "target_lost"),
    ],
)
def test_both_agents_leave_together(arguments: dict[str, Any], outcome: str) -> None:
    env = parallel_env(**arguments)
    env.reset(seed=0)
    _, _, terminated, truncated, infos = env.step(both(NOTHING, NOTHING))
    assert (terminated, truncated, env.agents) == (both(False, False), both(True, True), [])
    assert infos["fighter_0"]["outcome"] == outcome


def test_sampling_with_the_mask_of_an_observation_is_legal() -> None:
    env = parallel_env()
    observations, _ = env.reset(seed=1)
    for agent, observation in observations.items():
        action = env.action_space(agent).sample(mask=observation["action_mask"])
        for head in range(12):
            allowed = env.contract.conditional_mask(env.action_masks(agent), action[:head])
            assert allowed[action[head]]


@pytest.mark.parametrize(
    "actions", [{}, {"fighter_0": NOTHING}, both(NOTHING, NOTHING + 9), both(NOTHING, NOTHING.astype(float))]
)
def test_wrong_actions_are_refused(actions: dict[str, Any]) -> None:
    env = parallel_env(world=FakeWorld)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"actions|head"):
        env.step(actions)
    assert env.fights.world.meta["episode_ticks"][0, 0] == 0


def test_it_renders() -> None:
    env = parallel_env(world=FakeWorld, render_mode="ansi")
    env.reset(seed=0)
    env.step(both(STAB, NOTHING))
    assert "melee_attack" in env.render()
    assert "does nothing" in env.render()


def test_an_opponent_is_refused() -> None:
    with pytest.raises(ValueError, match="parallel_env has no opponent"):
        parallel_env(opponent="noop")


def test_without_pettingzoo_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    monkeypatch.delitem(sys.modules, "sb3_pvp.envs.pettingzoo_env", raising=False)
    with pytest.raises(ImportError, match=r'pip install "sb3-pvp\[pettingzoo\]"'):
        _ = sb3_pvp.envs.parallel_env
