"""The faces of the second game: spaces, names, and what refuses it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from pettingzoo.test import parallel_api_test
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env

import sb3_pvp  # noqa: F401  (registers the environments)
from sb3_pvp.envs import NhEnv, NhVecEnv, parallel_env
from sb3_pvp.game.contract import load_contract
from tests.envs.env_checks import check_pvp_env
from tests.envs.fake_world import FakeWorld

CONTRACT = load_contract("DharokEnv")
GAME: dict[str, Any] = {"contract": "DharokEnv", "world": FakeWorld}
SHAPES = {"observation": (1, 40), "privileged": (1, 15), "action_mask": (17,)}


def shapes(space: Any) -> dict[str, tuple[int, ...]]:
    return {key: part.shape for key, part in space.spaces.items()}


def test_gymnasium_knows_it_by_the_name_of_its_contract() -> None:
    env = gym.make("DharokEnv", opponent="noop", world=FakeWorld)
    assert env.get_wrapper_attr("contract") is CONTRACT
    assert shapes(env.observation_space) == SHAPES
    assert env.action_space.nvec.tolist() == [4, 4, 2, 2, 2, 3]


def test_frames_are_stacked() -> None:
    env = NhEnv(**GAME, frame_ages=(0, 2))
    assert shapes(env.observation_space) == {"observation": (2, 40), "privileged": (2, 15), "action_mask": (17,)}


def test_it_passes_the_checkers() -> None:
    check_pvp_env(NhEnv(opponent="noop", **GAME), ticks=60)
    check_env(NhEnv(opponent="noop", **GAME))
    parallel_api_test(parallel_env(**GAME), num_cycles=60)


def test_it_passes_the_checkers_in_the_embedded_world() -> None:
    check_pvp_env(NhEnv(contract="DharokEnv"), ticks=400)
    parallel_api_test(parallel_env(contract="DharokEnv"), num_cycles=400)


def test_a_fight_of_many_goes_the_way_of_a_single_one() -> None:
    many, rng = NhVecEnv(3, contract="DharokEnv", seed=5, frame_ages=(0, 1)), np.random.default_rng(0)
    single = NhEnv(contract="DharokEnv", frame_ages=(0, 1))
    together, (alone, _) = many.reset(), single.reset(seed=6)
    for _ in range(150):
        assert all(np.array_equal(together[key][1], alone[key]) for key in SHAPES)
        actions = CONTRACT.random_action(many.action_masks(), rng)
        together, rewards, dones, _ = many.step(actions)
        alone, reward, terminated, truncated, _ = single.step(actions[1])
        assert (reward, terminated or truncated) == (pytest.approx(rewards[1]), dones[1])
        if dones[1]:
            break


def test_a_snapshot_resumes_bit_for_bit() -> None:
    envs = [NhVecEnv(2, contract="DharokEnv", seed=seed) for seed in (1, 2)]
    rng = np.random.default_rng(0)
    envs[0].reset()
    for _ in range(40):
        envs[0].step(CONTRACT.random_action(envs[0].action_masks(), rng))
    envs[1].set_state(envs[0].get_state())
    for _ in range(40):
        actions = CONTRACT.random_action(envs[0].action_masks(), rng)
        (one, reward, *_), (other, same_reward, *_) = (env.step(actions) for env in envs)
        assert all(np.array_equal(one[key], other[key]) for key in SHAPES)
        assert np.array_equal(reward, same_reward)


def test_food_that_is_gone_is_a_tie_without_death_match() -> None:
    env = NhVecEnv(8, contract="DharokEnv", death_match=False, rewards={"tie": -0.5})
    env.reset()
    rng, ended = np.random.default_rng(0), []
    for _ in range(400):
        *_, dones, infos = env.step(CONTRACT.random_action(env.action_masks(), rng))
        ended += [infos[fight] for fight in np.flatnonzero(dones)]
    ties = [info for info in ended if info["outcome"] == "tied"]
    assert ties
    assert all(info["episode_rewards"]["tied"] == -0.5 and not info["TimeLimit.truncated"] for info in ties)


def test_what_only_the_opponent_knows_is_privileged() -> None:
    env = NhEnv(opponent="noop", **GAME)
    env.reset(seed=0)
    observation, *_ = env.step(np.zeros(6, int))
    hidden = env.fights.world.obs[0, 1, CONTRACT.partial_indices]
    assert np.array_equal(observation["privileged"][0], hidden)


def test_many_fights_in_one_world() -> None:
    env = NhVecEnv(3, opponent="noop", **GAME)
    assert {key: value.shape for key, value in env.reset().items()} == {key: (3, *SHAPES[key]) for key in SHAPES}
    listed = make_vec_env("DharokEnv", 2, env_kwargs={"world": FakeWorld}, vec_env_cls=NhVecEnv)
    assert listed.fights.contract is CONTRACT


@pytest.mark.parametrize("opponent", ["stayalive", "scripted"])
@pytest.mark.parametrize("face", [NhEnv, NhVecEnv])
def test_scripts_without_rules_for_it_are_refused(face: Any, opponent: str) -> None:
    with pytest.raises(ValueError, match=f"'{opponent}' cannot play DharokEnv, 'baseline' and 'noop' can: "):
        face(opponent=opponent, **GAME)


@pytest.mark.parametrize("face", [NhEnv, NhVecEnv, parallel_env])
def test_a_contract_that_does_not_exist_is_refused(face: Any) -> None:
    with pytest.raises(ValueError, match=r"unknown contract 'Dharok' \(did you mean 'DharokEnv'\?\)"):
        face(contract="Dharok", world=FakeWorld)


def test_a_factory_that_makes_another_game_is_refused() -> None:
    def nh_fights(contract: str, **options: Any) -> FakeWorld:
        return FakeWorld(**options)

    with pytest.raises(ValueError, match="plays NhEnv, but the contract is 'DharokEnv'"):
        NhEnv(contract="DharokEnv", world=nh_fights)


@pytest.mark.parametrize("world", ["sim", "rsps://127.0.0.1:1"])
@pytest.mark.parametrize("face", [NhEnv, NhVecEnv, parallel_env])
def test_no_world_is_asked_for_what_only_nh_fights_have(face: Any, world: str) -> None:
    with pytest.raises(ValueError, match=r"unknown reset parameter .*'accountBuild'.*Known: .*target"):
        face(contract="DharokEnv", world=world, reset_params={"accountBuild": "MED"})
    face(contract="DharokEnv", world=world, reset_params={"episodeId": "1"}).close()


def test_noise_and_forbidden_actions_go_by_its_ids() -> None:
    noise = {"adders": [{"indices": ["brew_doses", "0:2"], "value": 7}]}
    env = NhEnv(opponent="noop", **GAME, noise=noise, action_mask_override={"forbid": ["maul_spec_attack"]})
    observation, _ = env.reset(seed=0)
    assert np.flatnonzero(observation["observation"][0] == 7).tolist() == [
        0,
        1,
        CONTRACT.observation_index("brew_doses"),
    ]
    assert not env.action_masks()[CONTRACT.flat_index("maul_spec_attack")]
    for wrong in (
        {"noise": {"adders": [{"indices": ["magic_level"], "value": 1}]}},
        {"noise": {"adders": [{"indices": [40], "value": 1}]}},
    ):
        with pytest.raises(ValueError, match=r"unknown observation|must be observations 0 to 39, got 40"):
            NhEnv(**GAME, **wrong)
    with pytest.raises(ValueError, match="unknown sub-action 'mage_attack'"):
        NhEnv(**GAME, action_mask_override={"forbid": ["mage_attack"]})
