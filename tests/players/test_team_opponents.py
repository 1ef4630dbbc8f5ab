"""``team:A,B``: an opponent for each agent of a team."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sb3_pvp import PvpPPO
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.matches.rating import play_matches
from sb3_pvp.players.league import League, Player
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
        ("team:chaser,league:somewhere", SOCCER, "a team consists of fighters, which 'league:somewhere' is not"),
        ("team:chaser,baseline", SOCCER, "the fighters of a team act through actions"),
        ("team:chaser,stricker", SOCCER, r"unknown opponent 'stricker' \(did you mean 'striker'\?\)"),
        ("team:noop,noop", "NhEnv", "NhEnv has no teams"),
    ],
)
def test_other_teams_are_refused_in_one_line(opponent: str, game: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        PvpVecEnv(1, game=game, opponent=opponent)
    assert "\n" not in str(refused.value)


def test_a_file_lists_a_team_for_leagues_too(tmp_path: Path) -> None:
    league = League(tmp_path)
    file = league.path(Player("duo")).with_suffix(".team")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("positional\n\npositional\n", "utf-8")
    assert opponent_name(str(file)) == opponent_name(file) == "duo"
    env = PvpVecEnv(1, game=SOCCER, opponent=str(file))
    env.reset()
    assert env.reset_infos[0]["opponent"] == "duo"
    pair = Player("duo"), Player("chaser")
    records = play_matches(league, {pair: 8}, 0, FightSettings(game=SOCCER), jobs=1)
    won = [(record.player_a == pair[0]) == (record.outcome == "won") for record in records]
    assert len(won) == 8 and sum(won) >= 5
    file.write_text(f"{file}\nchaser", "utf-8")
    with pytest.raises(ValueError, match="a team consists of fighters, which '.*duo.team' is not"):
        PvpVecEnv(1, game=SOCCER, opponent=file)
    with pytest.raises(FileNotFoundError, match=r"no team file .*trio\.team"):
        PvpVecEnv(1, game=SOCCER, opponent=file.with_name("trio.team"))


def test_paths_of_a_team_file_are_those_from_its_folder(models: list[Path], tmp_path: Path) -> None:
    (tmp_path / "two.team").write_text("model0.zip\nmodel1.zip\n", "utf-8")
    team = make_opponent(tmp_path / "two.team", CONTRACT, CoinsForTwo())
    assert team is not None and len(team.members) == 2  # type: ignore[attr-defined]


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="nobody.zip"):
        PvpVecEnv(1, game=SOCCER, opponent="team:chaser,nobody.zip")
    assert opponent_name("team:runs/a.zip, b.zip") == "a+b"
