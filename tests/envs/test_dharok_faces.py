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
from sb3_pvp.contract import load_contract
from sb3_pvp.envs import NhEnv, NhVecEnv, parallel_env
from sb3_pvp.testing import check_pvp_env
from tests.envs.fake_world import FakeWorld

CONTRACT = load_contract("DharokEnv")
GAME = {"contract": "DharokEnv", "world": FakeWorld}
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
    with pytest.raises(ValueError, match=f"'{opponent}' cannot play DharokEnv; 'baseline' and 'noop' can"):
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


@pytest.mark.parametrize("face", [NhEnv, NhVecEnv, parallel_env])
def test_a_server_is_not_asked_for_what_only_nh_fights_have(face: Any) -> None:
    with pytest.raises(ValueError, match="unknown reset parameter of DharokEnv 'accountBuild'"):
        face(contract="DharokEnv", world="rsps://127.0.0.1:1", reset_params={"accountBuild": "MED"})
    face(contract="DharokEnv", world="rsps://127.0.0.1:1", reset_params={"episodeId": "1"}).close()


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
        with pytest.raises(ValueError, match=r"unknown observation|reaches the observations 0 to 39"):
            NhEnv(**GAME, **wrong)
    with pytest.raises(ValueError, match="unknown sub-action 'mage_attack'"):
        NhEnv(**GAME, action_mask_override={"forbid": ["mage_attack"]})
