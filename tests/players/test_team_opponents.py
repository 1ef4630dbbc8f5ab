"""``team:A,B``: an opponent for each agent of a team."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sb3_pvp import PvpPPO
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.players.opponents import make_opponent, opponent_name
from sb3_pvp.policies import AutoregressivePolicy
from tests.game.team_game import CONTRACT, CoinsForTwo

SOCCER = "SoccerTwos-v0"


@pytest.fixture
def models(tmp_path: Path) -> list[Path]:
    paths = []
    for seed in range(2):
        env = PvpVecEnv(4, game=CoinsForTwo)
        model = PvpPPO(AutoregressivePolicy, env, n_steps=4, batch_size=8, seed=seed, policy_kwargs={"net_arch": [4]})
        paths.append(tmp_path / f"model{seed}.zip")
        model.save(paths[-1])
    return paths


def test_each_agent_does_what_its_fighter_decides(models: list[Path]) -> None:
    game = CoinsForTwo()
    team = make_opponent(f"team:{models[0]}, {models[1]}", CONTRACT, game)
    assert team is not None and team.name == "model0+model1"  # type: ignore[attr-defined]
    world = game.make_world("sim", 32, 0, {})
    world.reset()
    seeds, seen, masks = list(range(32)), world.obs[:, 1], world.masks[:, 1]
    flags = np.ones(32, bool), False, masks
    actions, following = team.predict(seen[:, None], team.initial_state(seeds), *flags)
    for number, path in enumerate(models):
        member = make_opponent(path, CONTRACT, game)
        assert member is not None
        state = member.initial_state([seed + (number << 40) for seed in seeds])
        own, _ = member.predict(seen[:, None], state, *flags)
        assert np.array_equal(actions[:, number], own[:, number])
    assert following is not None and following.shape == team.initial_state(seeds).shape
    assert not np.array_equal(following, team.initial_state(seeds))


def test_a_team_plays_in_environments_and_resumes() -> None:
    env, other = (PvpVecEnv(3, game=SOCCER, opponent="team:chaser,positional", max_episode_ticks=15) for _ in range(2))
    env.reset()
    assert env.reset_infos[0]["opponent"] == "chaser+positional"
    actions = np.random.default_rng(0).integers(0, 3, (40, 3, 6))
    for each in actions[:12]:
        env.step(each)
    other.set_state(env.get_state())
    for each in actions[12:]:
        assert env.step(each)[0]["observation"].tobytes() == other.step(each)[0]["observation"].tobytes()


@pytest.mark.parametrize(
    ("opponent", "game", "said"),
    [
        ("team:chaser", SOCCER, r"a team of SoccerTwos-v0 has 2 fighters \(agent0, agent1\), got 1"),
        ("team:chaser,chaser,chaser", SOCCER, "got 3"),
        ("team:chaser,baseline", SOCCER, "the fighters of a team act through actions"),
        ("team:chaser,stricker", SOCCER, r"unknown opponent 'stricker' \(did you mean 'striker'\?\)"),
        ("team:noop,noop", "NhEnv", "NhEnv has no teams"),
    ],
)
def test_other_teams_are_refused_in_one_line(opponent: str, game: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        PvpVecEnv(1, game=game, opponent=opponent)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="nobody.zip"):
        PvpVecEnv(1, game=SOCCER, opponent="team:chaser,nobody.zip")
    assert opponent_name("team:runs/a.zip, b.zip") == "a+b"
