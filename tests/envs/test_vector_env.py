"""Gymnasium's ``make_vec`` makes one batched world, whose rows are single environments."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics

from sb3_pvp.envs import PvpEnv, PvpVectorEnv
from sb3_pvp.game import find_game
from tests.envs.planes_game import PLANES_GAME
from tests.paths import ROOT

ROWS = 3
SHORT = {"max_episode_ticks": 40, "episode_statistics": True}


@pytest.mark.parametrize("game", ["DharokEnv", "NhEnv", "SoccerTwos-v0"])
def test_rows_are_single_environments(game: str) -> None:
    batched = gym.make_vec(game, ROWS, max_episode_ticks=40, episode_statistics=True)
    single = SyncVectorEnv([lambda: gym.make(game, **SHORT)] * ROWS, autoreset_mode=AutoresetMode.SAME_STEP)
    assert isinstance(batched.unwrapped, PvpVectorEnv) and batched.spec.id == game
    for name in ("observation_space", "action_space", "single_observation_space", "single_action_space", "num_envs"):
        assert getattr(batched, name) == getattr(single, name)
    assert batched.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    single.action_space.seed(0)
    assert data_equivalence(batched.reset(seed=7), single.reset(seed=7))
    listed, ended = DictInfoToList(batched), 0
    for _ in range(90):
        actions = single.action_space.sample()
        *moved, infos = batched.step(actions)
        *expected, others = single.step(actions)
        expected[1] = expected[1].astype(np.float32)
        assert data_equivalence(tuple(moved), tuple(expected))
        assert batched.observation_space.contains(moved[0]) and len(moved[0]["action_mask"]) == ROWS
        over = moved[2] | moved[3]
        ended += over.sum()
        assert bool(infos) == over.any()
        for row in np.flatnonzero(over):
            assert data_equivalence(infos["final_obs"][row], others["final_obs"][row])
            ours, theirs = (listed._convert_info_to_list(each)[row] for each in (infos, others))
            assert ours["final_info"] == theirs["final_info"] and ours["opponent"] == theirs["opponent"]
    assert ended >= 2 * ROWS
    batched.close()
    single.close()


def test_gymnasium_s_wrappers_and_module_names_work() -> None:
    assert gym.make("sb3_pvp:DharokEnv").unwrapped.settings.game.name == "DharokEnv"
    env = RecordEpisodeStatistics(gym.make_vec("sb3_pvp:DharokEnv", 2, max_episode_steps=5, render_mode="ansi"))
    env.reset(seed=[3, 4])
    for _ in range(5):
        *_, infos = env.step(env.action_space.sample())
    assert infos["final_info"]["outcome"].tolist() == ["timeout"] * 2 and infos["episode"]["l"].tolist() == [5, 5]
    base: Any = env.unwrapped
    assert [len(each) > 100 for each in base.render()] == [True, True]
    base.call("set_opponent", "noop")
    env.reset()
    assert base.get_attr("opponent_name") == ("noop", "noop")
    assert base.action_masks().shape == (2, 17)
    env.close()


def test_the_first_reset_without_a_seed_is_random_and_later_ones_go_on() -> None:
    env = gym.make_vec("DharokEnv", 2)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(env.action_space.sample())
    _, infos = env.reset()
    assert len({*infos["seed"]}) == 2
    _, infos = env.reset()
    assert "seed" not in infos


@pytest.mark.parametrize("batched", [True, False])
def test_rows_may_start_anew_one_by_one(batched: bool) -> None:
    env: Any = (
        PvpVectorEnv(ROWS, game=PLANES_GAME) if batched else SyncVectorEnv([lambda: PvpEnv(game=PLANES_GAME)] * ROWS)
    )
    env.reset(seed=1)
    random, ends = np.random.default_rng(0), np.zeros(ROWS, int)
    for _ in range(30):  # of a match of tic-tac-toe, which takes five to nine
        masks = np.array(env.call("action_masks"))
        _, _, over, _, _ = env.step((random.random(masks.shape) * masks).argmax(1)[:, np.newaxis])
        ends += over
    assert (ends > 1).all()
    _, infos = env.reset(seed=[1, None, 3])
    assert infos["seed"][[0, 2]].tolist() == [1, 3] and infos["_seed"].tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_envs": 0}, "num_envs"),
        ({"num_envs": 2, "oponent": "noop"}, "did you mean 'opponent'"),
        ({"num_envs": 2, "max_episode_steps": -1}, "max_episode_steps"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PvpVectorEnv(game="DharokEnv", **arguments)
    env = PvpVectorEnv(2, game="DharokEnv")
    for seed, said in ((-1, "seed"), ([1], "one for each row"), ([1, -1], "seed")):
        with pytest.raises(ValueError, match=said):
            env.reset(seed=seed)  # type: ignore[arg-type]


def test_our_games_have_ids_with_the_version_of_their_rules() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Gymnasium warns where it takes another version than was asked for
        plain, versioned = gym.make("NhEnv"), gym.make("NhEnv-v0")
    assert plain.spec.id == "NhEnv" and versioned.spec.id == "NhEnv-v0"
    assert "\nVersion 0: " in (ROOT / "docs/spec/README.md").read_text(encoding="utf-8")
    assert plain.unwrapped.settings == versioned.unwrapped.settings and type(plain.unwrapped) is type(
        versioned.unwrapped
    )
    assert find_game("NhEnv-v0") is find_game("NhEnv") and find_game("SoccerTwos-v0").name == "SoccerTwos-v0"
    with pytest.raises(gym.error.VersionNotFound):
        gym.make("SoccerTwos-v1")
    with pytest.raises(ValueError, match="unknown game 'Nothing-v0'"):
        find_game("Nothing-v0")
