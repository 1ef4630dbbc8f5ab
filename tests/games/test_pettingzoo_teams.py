"""Games of PettingZoo for a team alone: one of ours, and known ones where they are installed."""

from __future__ import annotations

import pickle
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import PPO

from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.game import Outcome, make_world
from sb3_pvp.game.checks import check_world
from sb3_pvp.games.pettingzoo import PettingZooTeam
from tests.games.pettingzoo_games import Auction, Relay, Thermostat

RELAY = PettingZooTeam(Relay)


def make_known(name: str) -> Any:
    """Returns the maker of a known environment; skips where its package is not installed."""
    module = {"simple_spread_v3": "mpe2", "knights_archers_zombies_v11": "pettingzoo.butterfly"}[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            found = getattr(__import__(module, fromlist=[name]), name)
            found.parallel_env().close()
        except ImportError as error:
            pytest.skip(f"{name} needs a package: {error}")
    return found.parallel_env


def test_each_agent_has_its_part_of_the_first_seat() -> None:
    contract, world = RELAY.contract, make_world(RELAY, "sim", 1)
    assert [(each.id, each.observations, each.heads) for each in contract.agents] == [
        ("runner", (0, 2), (0, 1)),
        ("catcher", (2, 7), (1, 3)),
    ]
    assert contract.head_sizes == (3, 3, 2) and not contract.shared_weights
    world.reset()
    lane = int(world.obs[0, 0, 2])
    assert world.obs[0].tolist() == [[7, 1, lane, 1, 0, 2, 1], [0.0] * 7]
    assert world.masks[0].tolist() == [[True] * 7 + [False], [True, False, False, True, False, False, True, False]]
    world.step([[[2, (lane + 1) % 3, 0], [0, 0, 0]]])
    assert world.report["reward"][0].tolist() == [1.0, 0.0]
    # The runner has left.
    assert world.obs[0, 0].tolist() == [0, 0, 2, 1, 1, 2, 1]
    assert world.masks[0, 0].tolist() == [True, False, False] + [True] * 5
    world.step([[[1, 2, 1], [0, 0, 0]]])
    assert world.report["reward"][0].tolist() == [2.0, 0.0] and not world.outcome.any()
    world.step([[[0, 0, 0], [0, 0, 0]]])
    assert world.report["reward"][0].tolist() == [0.0, 0.0]
    assert world.outcome[0].tolist() == [Outcome.WON, Outcome.LOST]
    assert not world.obs[0, 0].any()


def test_a_state_resumes_exactly() -> None:
    check_world(make_world(RELAY, "sim", 3))
    worlds = [make_world(RELAY, "sim", 3, seed=seed) for seed in (1, 2)]
    worlds[0].reset()
    worlds[0].step(np.ones((3, 2, 3), np.int64))
    worlds[1].set_state(pickle.loads(pickle.dumps(worlds[0].get_state())))
    for world in worlds:
        world.step(np.full((3, 2, 3), 1))
    assert np.array_equal(worlds[0].obs, worlds[1].obs)
    assert np.array_equal(worlds[0].report, worlds[1].report) and worlds[0].report["reward"].any()


def test_an_environment_pays_the_sum() -> None:
    env = PvpVecEnv(2, game=PettingZooTeam(Relay), opponent="noop")
    env.reset()
    paid = [env.step(np.array([[1, 0, 0]] * 2))[1].tolist() for _ in range(3)]
    assert paid[1:] == [[0.0, 0.0]] * 2 and set(paid[0]) <= {1.0, 3.0}


def test_numbers_are_scaled_to_the_bounds_of_their_box() -> None:
    game = PettingZooTeam(Thermostat)
    assert game.contract.head_sizes == (3, 1, 1, 1, 1) and game.contract.numbers.tolist() == [1, 2, 3, 4]
    world = make_world(game, "sim", 2)
    check_world(world, ticks=10)
    world.reset()
    actions = np.zeros((2, 2, 5), np.float32)
    actions[:, 0] = [[1, -1, 1, 1, 0.5], [2, 0.5, -0.25, -4, 7]]
    world.step(actions)
    first, second = (match.env._env.played[-1] for match in world._matches)
    assert first["heater"][0] == 2 and first["heater"][1]["heat"].tolist() == [[10]]
    assert first["heater"][1]["less"] == 0 and first["fan"].tolist() == [1, 2.5]
    assert second["heater"][0] == 3 and second["heater"][1]["heat"].tolist() == [[25]]
    assert second["heater"][1]["less"] == -1.25 and second["fan"].tolist() == [0, 5]
    assert world.report["reward"][0, 0] == pytest.approx(1.5 - (world._matches[0].env._env.wanted[0] - 10) / 20)


def test_a_state_with_numbers_resumes_exactly() -> None:
    game = PettingZooTeam(Thermostat)
    worlds = [make_world(game, "sim", 2, seed=seed) for seed in (1, 2)]
    worlds[0].reset()
    worlds[0].step(np.tile(np.float32([2, 0.1, 0.2, 0.3, 0.4]), (2, 2, 1)))
    worlds[1].set_state(pickle.loads(pickle.dumps(worlds[0].get_state())))
    played = [[match.env._env.played[-1] for match in world._matches] for world in worlds]
    assert repr(played[0]) == repr(played[1]) and worlds[1].report["reward"].any()


@pytest.mark.slow
def test_algorithms_for_boxes_learn_a_game_of_numbers_only() -> None:
    """SB3's own PPO: it cuts its numbers to -1 and 1."""
    env = PvpVecEnv(16, game=PettingZooTeam(partial(Thermostat, only_numbers=True)), opponent="noop")
    assert env.action_space == spaces.Box(-1, 1, (2,))
    model = PPO(
        "MultiInputPolicy", env, n_steps=16, batch_size=64, learning_rate=0.003, gamma=0.0, seed=0, device="cpu"
    )
    model.learn(8_000)
    assert np.mean([episode["r"] for episode in model.ep_info_buffer]) > 0.7


def test_what_is_no_team_is_refused() -> None:
    class Turns:
        possible_agents: tuple[str, ...] = ("one",)

        def agent_iter(self) -> None: ...

    with pytest.raises(ValueError, match="make a ParallelEnv, not Turns"):
        PettingZooTeam(Turns)
    with pytest.raises(ValueError, match="observations need a fixed size"):
        PettingZooTeam(lambda: Auction("nowhere", seen=spaces.Sequence(spaces.Discrete(2))))


@pytest.mark.parametrize("name", ["simple_spread_v3", "knights_archers_zombies_v11"])
def test_known_games_of_teams_are_worlds(name: str) -> None:
    make_env = make_known(name)
    game = PettingZooTeam(make_env)
    assert game.name == game.contract.name == name and game.contract.shared_weights
    world = make_world(game, "sim", 2)
    check_world(world, ticks=60)
    world.reset()
    # The same seed and the same moves, in their environment and in ours.
    env = make_env()
    agents, rng = env.possible_agents, np.random.default_rng(0)
    match = world._matches[0]
    seen, _ = env.reset(seed=match.start[0])
    for _ in range(25):
        shown = world.obs[0, 0].reshape(len(agents), -1)
        for agent, row in zip(agents, shown, strict=True):
            flat = seen[agent].ravel().astype(np.float32) if agent in env.agents else np.zeros(row.size - 1)
            assert row[:-1].tolist() == flat.tolist() and row[-1] == (agent in env.agents)
        if not env.agents:
            break
        choices = rng.integers(0, game.contract.head_sizes)
        seen, rewards, *_ = env.step({agent: int(choices[agents.index(agent)]) for agent in env.agents})
        actions = np.zeros((2, 2, len(agents)), np.int64)
        actions[0, 0] = choices
        world.step(actions)
        assert world.report["reward"][0, 0] == np.float32(sum(rewards.values()))
    env.close()
    world.close()
