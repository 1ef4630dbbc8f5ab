"""`NhVecEnv`: the same fights as single environments, SB3's conventions, and lists of environment functions."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.wrappers import TimeLimit, TransformReward
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import SubprocVecEnv, VecNormalize

import sb3_pvp  # noqa: F401  (registers NhEnv)
from sb3_pvp.envs import NhEnv, NhVecEnv
from sb3_pvp.game import Outcome
from tests.envs.fake_world import FakeWorld, ending

NOTHING = np.zeros((3, 12), np.int64)
STAB = np.tile([3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], (3, 1))
RANDOM_FIGHTS = {"randomizeGear": True, "randomizeBuild": True, "randomizeFightType": True}


def env_function(**kwargs: Any) -> Callable[[], gym.Env[Any, Any]]:
    return lambda: NhEnv(**kwargs)


@pytest.mark.parametrize("opponent", ["baseline", "scripted"])
@pytest.mark.parametrize("frame_ages", [(0,), (0, 2)])
def test_fight_i_is_the_single_env_seeded_with_seed_plus_i(opponent: str, frame_ages: tuple[int, ...]) -> None:
    settings: dict[str, Any] = {
        "opponent": opponent,
        "reset_params": RANDOM_FIGHTS,
        "frame_ages": frame_ages,
        "max_episode_ticks": 60,  # so that episodes end several times
    }
    vec, singles = NhVecEnv(3, seed=40, **settings), [NhEnv(**settings) for _ in range(3)]
    rng = np.random.default_rng(0)
    together = vec.reset()
    alone = [env.reset(seed=40 + i) for i, env in enumerate(singles)]
    assert vec.reset_infos == [info for _, info in alone]
    for _ in range(200):
        assert_rows_equal(together, [observation for observation, _ in alone])
        assert np.array_equal(get_action_masks(vec), [env.action_masks() for env in singles])
        actions = vec.fights.contract.random_action(vec.action_masks(), rng)
        together, rewards, dones, infos = vec.step(actions)
        for i, env in enumerate(singles):
            observation, reward, terminated, truncated, info = env.step(actions[i])
            assert (reward, terminated or truncated) == (rewards[i], dones[i])
            alone[i] = (observation, info)
            if dones[i]:
                assert_rows_equal(
                    {key: [value] for key, value in infos[i]["terminal_observation"].items()}, [observation]
                )
                assert info.items() <= infos[i].items()
                alone[i] = env.reset()


def assert_rows_equal(together: Any, rows: list[Any]) -> None:
    for key, values in together.items():
        for value, row in zip(values, rows, strict=True):
            assert np.array_equal(value, row[key]), key


def test_the_end_of_a_fight_is_reported_under_sb3_s_keys() -> None:
    env = NhVecEnv(3, opponent="noop", world=ending((Outcome.LOST, Outcome.WON), tick=2))
    env.reset()
    _, _, dones, infos = env.step(NOTHING)
    assert (dones.tolist(), infos) == ([False] * 3, [{}, {}, {}])
    observation, rewards, dones, infos = env.step(NOTHING)
    assert (dones.tolist(), rewards.tolist()) == ([True] * 3, [-1.0] * 3)
    for i, info in enumerate(infos):
        assert (info["episode"]["r"], info["episode"]["l"]) == (-1.0, 2)
        assert info["episode"]["t"] >= 0
        assert (info["outcome"], info["is_success"], info["TimeLimit.truncated"]) == ("lost", False, False)
        assert (info["opponent"], info["build"], info["episode_ticks"]) == ("noop", "PURE", 2)
        assert not np.array_equal(info["terminal_observation"]["observation"], observation["observation"][i])
    assert (env.fights.world.outcome == Outcome.RUNNING).all()
    assert env.step(NOTHING)[2].tolist() == [False] * 3


@pytest.mark.parametrize("end", [(Outcome.DESYNC, Outcome.DESYNC), (Outcome.TARGET_LOST, Outcome.DESYNC)])
def test_broken_fights_are_truncated(end: tuple[Outcome, Outcome]) -> None:
    env = NhVecEnv(3, opponent="noop", world=ending(end, tick=1))
    env.reset()
    infos = env.step(NOTHING)[3]
    assert [info["TimeLimit.truncated"] for info in infos] == [True] * 3
    assert all("is_success" not in info for info in infos)


def test_a_truncation_by_time_is_reported() -> None:
    env = NhVecEnv(3, opponent="noop", world=FakeWorld, max_episode_ticks=2)
    env.reset()
    env.step(NOTHING)
    _, _, dones, infos = env.step(NOTHING)
    assert dones.all()
    assert [(info["outcome"], info["TimeLimit.truncated"]) for info in infos] == [("timeout", True)] * 3


def test_only_finished_fights_are_reset() -> None:
    env = NhVecEnv(3, opponent="noop", world=FakeWorld)
    env.reset()
    env.fights.world.hitpoints[1, 1] = 1
    while True:
        _, _, dones, _ = env.step(STAB)
        if dones.any():
            break
    assert dones.tolist() == [False, True, False]
    assert env.fights.length.tolist()[1] == 0
    assert env.fights.world.hitpoints[1].tolist() == [99, 99]
    assert env.fights.length[0] > 0
    assert env.fights.episode_return[1] == 0


def test_seeding_determines_the_next_reset_only() -> None:
    env = NhVecEnv(2, seed=7, reset_params=RANDOM_FIGHTS)
    first, second = env.reset()["observation"], env.reset()["observation"]
    assert not np.array_equal(first, second)
    assert env.seed(7) == [7, 8]
    assert np.array_equal(env.reset()["observation"], first)
    assert np.array_equal(env.reset()["observation"], second)
    for seed in (-1, float("nan"), 1.5):
        with pytest.raises(ValueError, match="a seed must be"):
            env.seed(seed)


def test_options_count_for_the_next_reset_only() -> None:
    env = NhVecEnv(2)
    env.set_options([{"reset_params": {"accountBuild": "MED"}}, {}])
    env.reset()
    assert [info["build"] for info in env.reset_infos] == ["MED", "PURE"]
    env.reset()
    assert [info["build"] for info in env.reset_infos] == ["PURE", "PURE"]


def test_results_are_new_objects() -> None:
    env = NhVecEnv(3, opponent="noop", world=FakeWorld)
    first = env.reset()
    kept = {key: value.copy() for key, value in first.items()}
    _, rewards, dones, _ = env.step(STAB)
    kept_rewards, masks = rewards.copy(), env.action_masks()
    kept_masks = masks.copy()
    env.step(STAB * 0)
    assert all(np.array_equal(first[key], kept[key]) for key in kept)
    assert np.array_equal(rewards, kept_rewards)
    assert np.array_equal(masks, kept_masks)
    assert not dones.any()


def test_wrong_actions_are_refused_and_change_nothing() -> None:
    env = NhVecEnv(3, world=FakeWorld)
    with pytest.raises(ResetNeeded):
        env.step(NOTHING)
    env.reset()
    for actions in (NOTHING[:2], NOTHING.astype(np.float32), NOTHING - 1, NOTHING + 9):
        with pytest.raises(ValueError, match=r"actions|head"):
            env.step(actions)
    assert env.fights.length.tolist() == [0, 0, 0]
    env.step(NOTHING)


@pytest.mark.parametrize("num_envs", [0, -1, 2.0, "3", True, []])
def test_wrong_numbers_of_fights_are_refused(num_envs: Any) -> None:
    with pytest.raises(ValueError, match=r"num_envs|at least one environment function|list of functions"):
        NhVecEnv(num_envs)


def test_attributes_and_methods_of_single_fights() -> None:
    env = NhVecEnv(3, opponent="noop", world=FakeWorld, render_mode="ansi")
    env.reset()
    assert is_masking_supported(env)
    assert [len(mask) for mask in env.env_method("action_masks", indices=[0, 2])] == [45, 45]
    assert env.env_method("action_masks", indices=1)[0].dtype == bool
    assert env.get_attr("render_mode") == ["ansi"] * 3
    assert env.get_attr("index", [2, 0]) == [2, 0]
    assert "noop" in env.env_method("render", indices=0)[0]
    env.set_attr("note", "hello", indices=[1])
    assert (env.has_attr("note"), env.get_attr("note", 1)) == (False, ["hello"])
    with pytest.raises(AttributeError):
        env.set_attr("settings", None)
    with pytest.raises(AttributeError):
        env.env_method("no_such_method")
    assert env.env_is_wrapped(Monitor) == [True] * 3
    assert env.env_is_wrapped(TimeLimit, indices=[0]) == [False]


def test_make_vec_env_builds_one_world(tmp_path: Path) -> None:
    env = make_vec_env(
        "NhEnv",
        n_envs=2,
        seed=11,
        monitor_dir=str(tmp_path),
        env_kwargs={"opponent": "noop", "world": ending((Outcome.WON, Outcome.LOST), tick=2)},
        vec_env_cls=NhVecEnv,
        monitor_kwargs={"info_keywords": ("outcome",)},
    )
    assert isinstance(env, NhVecEnv)
    assert env.fights.world.num_fights == 2
    env.reset()
    assert [options["seed"] for options in env.fights.world.options] == [11, 12]
    env.step(NOTHING[:2])
    infos = env.step(NOTHING[:2])[3]
    assert infos[1]["episode"]["outcome"] == "won"
    env.close()
    for rank in range(2):
        rows = list(csv.DictReader((tmp_path / f"{rank}.monitor.csv").read_text().splitlines()[1:]))
        assert [(row["r"], row["l"], row["outcome"]) for row in rows] == [("1.0", "2", "won")]


def test_env_functions_pass_their_settings_on() -> None:
    functions = [lambda: TimeLimit(NhEnv(opponent="scripted", frame_ages=(0, 1)), 50) for _ in range(2)]
    env = NhVecEnv(functions)
    assert env.observation_space["observation"].shape == (2, 176)
    assert (env.fights.opponents.current[0].name, env.fights.settings.max_episode_ticks) == ("scripted", 50)


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ([env_function(), env_function(opponent="noop")], "but opponent is 'baseline' and 'noop'"),
        ([env_function(), env_function(rewards={"win": 2.0})], "rewards is"),
        ([lambda: TransformReward(NhEnv(), lambda reward: 2 * reward)], "cannot apply the wrapper TransformReward"),
        ([lambda: gym.make("CartPole-v1")], "functions that make a PvpEnv, got CartPoleEnv"),
    ],
)
def test_functions_that_cannot_share_a_world_are_refused(functions: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NhVecEnv(functions)


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown argument of an environment 'oponent' \(did you mean 'opponent'\?\)"):
        NhVecEnv(1, oponent="x")
    with pytest.raises(ValueError, match=r"'sed' \(did you mean 'seed'\?\).*max_episode_ticks.*num_envs.*render_mode"):
        NhVecEnv(1, sed=3)
    with pytest.raises(ValueError, match="'rendermode' .did you mean 'render_mode'"):
        NhEnv(rendermode="ansi")
    with pytest.raises(ValueError, match="unknown opponent"):
        NhVecEnv(1, opponent="self-made")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"game": 3}, "cannot load game 3: .*expected a name or module:object"),
        ({"contract": 3}, "a contract is a name, the path of a file or a Contract, got 3"),
        ({"world": 3}, "3"),
        ({"opponent": 3}, "an opponent must be a name, a path, an Opponent or a model, got 3"),
        ({"rewards": 3}, "3"),
        ({"render_mode": 3}, "unknown render_mode 3"),
    ],
)
def test_values_of_a_wrong_kind_are_refused_in_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message) as refusal:
        NhVecEnv(4, **arguments)
    assert "\n" not in str(refusal.value)


def test_unknown_rows_are_refused() -> None:
    env = NhVecEnv(2, world=FakeWorld)
    for method in ("action_masks", "render"):
        with pytest.raises(IndexError, match="no row 7: this environment has the rows 0 to 1"):
            env.env_method(method, indices=[7])


def test_maskable_ppo_learns_and_evaluates_on_it() -> None:
    env = VecNormalize(NhVecEnv(4, max_episode_ticks=20), norm_obs_keys=["observation", "privileged"])
    model = MaskablePPO("MultiInputPolicy", env, n_steps=32, batch_size=64, n_epochs=1, seed=3, device="cpu")
    model.learn(128)
    assert len(model.ep_info_buffer) >= 4
    action, _ = model.predict(env.reset(), action_masks=get_action_masks(env))
    assert action.shape == (4, 12)


def test_single_environments_work_in_worker_processes() -> None:
    env = SubprocVecEnv([env_function(world=FakeWorld), env_function(world=FakeWorld)], start_method="fork")
    try:
        env.seed(1)
        env.reset()
        assert get_action_masks(env).shape == (2, 45)
        assert env.step(STAB[:2])[1].shape == (2,)
    finally:
        env.close()
