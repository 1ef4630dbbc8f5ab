"""Soccer in environments: by name, with its time limit, resumed, and as recorded games."""

from __future__ import annotations

import json

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.env_checker import check_env

import sb3_pvp  # noqa: F401
from sb3_pvp.envs import PvpVecEnv
from tests.games.soccer.golden import GAMES as RECORDED
from tests.games.soccer.golden import course

GAMES = ["SoccerTwos-v0", "StrikersVsGoalie-v0"]


@pytest.mark.filterwarnings("ignore:.*unconventional shape")
@pytest.mark.parametrize("name", GAMES)
def test_gymnasium_makes_them_by_name(name: str) -> None:
    env = gym.make(name, opponent="chaser").unwrapped
    assert env.observation_space["observation"].shape == (1, 672 if name == GAMES[0] else 1329)  # type: ignore[index]
    assert env.action_space.nvec.tolist() == [3] * (6 if name == GAMES[0] else 9)  # type: ignore[attr-defined]
    check_env(env)


def test_a_match_without_a_goal_is_truncated_after_unity_s_time() -> None:
    env = PvpVecEnv(1, game=GAMES[0], opponent="noop")
    assert env.fights.settings.max_episode_ticks == 1000
    assert PvpVecEnv(1, game=GAMES[0], max_episode_ticks=None).fights.settings.max_episode_ticks is None
    assert PvpVecEnv(1, game="NhEnv").fights.settings.max_episode_ticks == 2000
    env.reset()
    for tick in range(1000):
        _, rewards, dones, infos = env.step(np.zeros((1, 6), np.int64))
        assert dones[0] == (tick == 999)
    assert infos[0]["outcome"] == "timeout" and infos[0]["TimeLimit.truncated"] and rewards[0] == 0.0


@pytest.mark.parametrize("name", GAMES)
def test_an_environment_resumes_exactly(name: str) -> None:
    env, other = (PvpVecEnv(3, game=name, opponent="positional", max_episode_ticks=20) for _ in range(2))
    env.reset()
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 3, (40, 3, env.action_space.nvec.size))  # type: ignore[attr-defined]
    for each in actions[:10]:
        env.step(each)
    other.set_state(env.get_state())
    for each in actions[10:]:
        (seen, rewards, dones, _), (its, its_rewards, its_dones, _) = env.step(each), other.step(each)
        assert seen["observation"].tobytes() == its["observation"].tobytes()
        assert np.array_equal(rewards, its_rewards) and np.array_equal(dones, its_dones)


@pytest.mark.parametrize("number", range(3))
def test_recorded_games_are_played_again(number: int) -> None:
    match = json.loads(RECORDED.read_text("utf-8"))[number]
    found = course(match)
    first = next(
        (tick for tick, pair in enumerate(zip(found["seen"], match["seen"], strict=False)) if pair[0] != pair[1]), None
    )
    assert first is None, f"what is seen differs from tick {first} on"
    assert (found["outcome"], found["steps"]) == (match["outcome"], match["steps"])
