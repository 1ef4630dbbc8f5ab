"""The environments in a remote world: our own server with the embedded world."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.vec_env import SubprocVecEnv

from sb3_pvp.envs import NhEnv, NhVecEnv, parallel_env
from sb3_pvp.envs.pettingzoo_env import AGENTS
from sb3_pvp.game import Outcome
from sb3_pvp.games.osrs.meta_fields import META_DTYPE
from sb3_pvp.games.osrs.remote import RemoteError, RemoteWorld
from sb3_pvp.games.osrs.sim import SimWorld
from tests.games.osrs.remote.served import logged_in, world_server

LMS = {"randomizeBuild": True, "randomizeGear": True, "randomBuildOptions": ["LMS_PURE", "LMS_MED", "MED"]}
PARAMS = {"NhEnv": LMS, "DharokEnv": {}}
OPPONENTS = [("NhEnv", "baseline"), ("NhEnv", "scripted"), ("DharokEnv", "baseline"), ("DharokEnv", "noop")]
#: What is the same in the embedded world and in the remote one; fields without a value hold anything.
ALWAYS = [name for name in META_DTYPE.names or () if "_present" in name or "health" in name or "food_count" in name]


class Served:
    def __init__(self) -> None:
        self.worlds: list[SimWorld] = []
        self.port = 0

    def make_world(self, num_fights: int, seed: int, *, contract: str) -> SimWorld:
        self.worlds.append(SimWorld(num_fights, seed, contract=contract))
        return self.worlds[-1]

    @property
    def address(self) -> str:
        return f"rsps://127.0.0.1:{self.port}?step_timeout=20&restart_timeout=0.2&backoff=0.05"


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    with world_server(served.make_world) as served.port:
        yield served


@pytest.mark.parametrize("contract", sorted(PARAMS))
@pytest.mark.parametrize("against_bot", [True, False], ids=["bot", "pair"])
def test_a_remote_fight_is_the_fight_on_the_server(served: Served, against_bot: bool, contract: str) -> None:
    world, rng = RemoteWorld(served.address, contract=contract), np.random.default_rng(0)
    for _ in range(2):
        world.reset(options={"bots": (None, "baseline" if against_bot else None), "reset_params": PARAMS[contract]})
        (sim,) = (each for each in served.worlds if each.contract is world.contract)
        same = next(seat for seat in range(2) if np.array_equal(world.obs[0, 0], sim.obs[0, seat]))
        seats = [0, 1] if same == 0 else [1, 0]
        last_outcome = world.outcome[0]
        while not world.outcome.any():
            actions = world.contract.random_action(world.masks, rng)
            world.step(actions)
            if not world.outcome.any():
                assert np.array_equal(world.obs[0], sim.obs[0, seats])
                assert np.array_equal(world.masks[0], sim.masks[0, seats])
                known = seats[:1] if against_bot else seats
                for name in ALWAYS if against_bot else META_DTYPE.names or ():
                    assert np.array_equal(world.meta[name][0, : len(known)], sim.meta[name][0, known]), name
            last_outcome = sim.outcome[0, seats]
        assert world.outcome[0].tolist() == last_outcome.tolist()
        assert set(world.outcome[0]) <= {Outcome.WON, Outcome.LOST}
    world.close()
    assert logged_in(served.port) == []


@pytest.mark.parametrize(("game", "opponent"), OPPONENTS)
def test_one_environment(served: Served, game: str, opponent: str) -> None:
    env: gym.Env[Any, Any] = gym.make(game, world=served.address, opponent=opponent, reset_params=PARAMS[game])
    observation, info = env.reset(seed=1)
    rng, ended = np.random.default_rng(0), False
    assert observation["privileged"].any()
    assert info["opponent"] == opponent
    contract = env.get_wrapper_attr("contract")
    assert contract.name == game
    while not ended:
        observation, reward, ended, broken, info = env.step(contract.random_action(observation["action_mask"] > 0, rng))
        assert not broken and np.isfinite(float(reward))
    assert info["outcome"] in ("won", "lost")
    assert info["is_success"] == (info["outcome"] == "won")
    env.close()
    assert logged_in(served.port) == []


@pytest.mark.parametrize(("game", "opponent"), OPPONENTS)
def test_many_fights_of_one_vectorised_environment(served: Served, game: str, opponent: str) -> None:
    env = NhVecEnv(8, opponent, served.address, reset_params=PARAMS[game], contract=game)
    observation, rng, ended = env.reset(), np.random.default_rng(0), []
    assert len(logged_in(served.port)) == (8 if opponent == "baseline" else 16)
    while len(ended) < 3:
        masks = observation["action_mask"] > 0
        observation, _, dones, infos = env.step(env.fights.contract.random_action(masks, rng))
        ended += [infos[index] for index in np.flatnonzero(dones)]
    assert all(info["outcome"] in ("won", "lost") and not info["TimeLimit.truncated"] for info in ended)
    env.close()
    assert logged_in(served.port) == []


def test_both_seats_are_agents(served: Served) -> None:
    env = parallel_env(world=served.address, reset_params=LMS)
    outcomes = []
    for _ in range(2):
        observations, _ = env.reset()
        assert len(logged_in(served.port)) == 2
        while env.agents:
            seen = [observations[agent]["privileged"] for agent in AGENTS]
            assert all(view.any() for view in seen)
            actions = {agent: env.action_space(agent).sample(observations[agent]["action_mask"]) for agent in AGENTS}
            observations, rewards, terminated, truncated, infos = env.step(actions)
            assert all(np.isfinite(list(rewards.values())))
        assert set(terminated.values()) == {True} and set(truncated.values()) == {False}
        outcomes.append({infos[agent]["outcome"] for agent in AGENTS})
    assert outcomes == [{"won", "lost"}] * 2
    env.close()
    assert logged_in(served.port) == []


def test_an_agent_of_two_whose_server_goes_away_leaves_together_with_the_other() -> None:
    served = Served()
    with world_server(served.make_world) as served.port:
        env = parallel_env(world=served.address)
        env.reset()
    none = {agent: np.zeros(12, np.int64) for agent in AGENTS}
    _, rewards, terminated, truncated, infos = env.step(none)
    assert env.agents == []
    assert set(terminated.values()) == {False} and set(truncated.values()) == {True}
    assert {infos[agent]["outcome"] for agent in AGENTS} == {"desync"} and not any(rewards.values())
    env.close()


def test_a_server_that_goes_away_truncates_the_fights_and_then_is_an_error() -> None:
    served = Served()
    with world_server(served.make_world) as served.port:
        env = NhVecEnv(2, "baseline", served.address)
        env.reset()
        env.step(np.zeros((2, 12), np.int64))
    with pytest.raises(RemoteError, match="no server can be reached"):
        env.step(np.zeros((2, 12), np.int64))
    # The fights themselves had broken off before new ones were asked for.
    assert env.fights.truncated.all() and not env.fights.terminated.any() and not env.fights.reward.any()


def test_an_unknown_world_is_told_what_there_is() -> None:
    with pytest.raises(ValueError, match="rsps://host:port"):
        NhEnv(world="smi")
    with pytest.raises(ValueError, match="did you mean 'step_timeout'"):
        NhEnv(world="rsps://localhost?step_timout=3")


@pytest.mark.slow
def test_worker_processes_that_die_leave_nobody_behind(served: Served) -> None:
    address = served.address
    env = SubprocVecEnv([lambda: NhEnv(world=address)] * 2, start_method="forkserver")
    env.reset()
    for _ in range(20):
        _, _, dones, _ = env.step(np.zeros((2, 12), np.int64))
        assert not dones.any()
    assert len(logged_in(served.port)) == 2
    for left, process in ((1, env.processes[0]), (0, env.processes[1])):
        process.kill()
        deadline = time.monotonic() + 30
        while len(logged_in(served.port)) > left and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(logged_in(served.port)) == left
