"""`parallel_env` of team games: each agent acts for itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pettingzoo")

from pettingzoo.test import parallel_api_test, parallel_seed_test

from sb3_pvp.envs import parallel_env
from tests.game.team_game import CONTRACT, SEEN, CoinsForTwo, CoinsForTwoWorld

SOCCER = {
    "SoccerTwos-v0": [f"team_{seat}_agent{number}" for seat in (0, 1) for number in (0, 1)],
    "StrikersVsGoalie-v0": ["team_0_striker0", "team_0_striker1", "team_1_goalie"],
}


@pytest.mark.parametrize("game", [*SOCCER, CoinsForTwo], ids=str)
def test_team_games_pass_pettingzoo_s_tests(game: Any) -> None:
    parallel_api_test(parallel_env(game=game), num_cycles=100)
    parallel_seed_test(lambda: parallel_env(game=game), num_cycles=20)


@pytest.mark.parametrize("game", SOCCER)
def test_all_agents_of_soccer_act_for_themselves(game: str) -> None:
    env = parallel_env(game=game)
    observations, _ = env.reset(seed=2)
    assert env.agents == env.possible_agents == SOCCER[game]
    world, contract = env.fights.world, env.contract
    for name in env.agents:
        player = env._players[name]
        agent = contract.agents[player.number]
        seen = world.obs[0, player.seat, slice(*agent.observations)]
        assert np.array_equal(observations[name]["observation"][0], seen)
        assert env.observation_space(name).contains(observations[name])
        assert env.action_space(name).nvec.tolist() == [3, 3, 3]
    before = world.yaws.copy()
    env.step({name: np.array([0, 0, 2 if name == env.agents[1] else 0]) for name in env.agents})
    assert np.flatnonzero(world.yaws[0] != before[0]).tolist() == [1]


def test_an_agent_that_sits_out_is_not_there() -> None:
    env = parallel_env(game=CoinsForTwo)
    assert env.possible_agents == ["team_0_first", "team_0_second", "team_1_first", "team_1_second"]
    seen = set()
    for seed in range(20):
        env.reset(seed=seed)
        seen.add(len(env.agents))
        acting = list(env.agents)
        _, rewards, terminated, _, _ = env.step({name: np.zeros(1, np.int64) for name in acting})
        assert list(terminated) == acting and all(terminated.values()) and env.agents == []
        for name in acting:
            assert rewards[name] == rewards[f"{name[:6]}_first"]
    assert len(seen) > 1


@pytest.mark.parametrize("wrong", [np.zeros(2, np.int64), np.full(3, 3), np.zeros(3)])
def test_a_wrong_action_of_one_agent_is_refused(wrong: Any) -> None:
    env = parallel_env(game="SoccerTwos-v0")
    env.reset(seed=0)
    actions: dict[str, Any] = {name: np.zeros(3, np.int64) for name in env.agents}
    with pytest.raises(ValueError, match=r"actions|head"):
        env.step({**actions, "team_1_agent0": wrong})
    with pytest.raises(ValueError, match="step needs actions of team_0_agent0"):
        env.step({"team_0_agent0": np.zeros(3, np.int64)})
    assert env.fights.world.ticks[0] == 0


class Hidden(CoinsForTwo):
    """Nobody sees the coins of the other team."""

    name = "hidden_coins"
    contract = replace(CONTRACT, name=name, observations=tuple(replace(each, partial=True) for each in SEEN))

    def make_world(self, *given: Any) -> CoinsForTwoWorld:
        world = super().make_world(*given)
        world.contract = self.contract
        return world


def test_what_is_hidden_is_in_no_agent_s_space() -> None:
    env = parallel_env(game=Hidden())
    observations, _ = env.reset(seed=0)
    assert all(env.observation_space(name).contains(seen) for name, seen in observations.items())
    assert env.metadata["name"] == "hidden_coins"
