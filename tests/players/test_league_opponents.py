"""``opponent="league:FOLDER"``: in each episode another player of the league, drawn by chance."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sb3_pvp.envs import NhEnv, NhVecEnv, OpponentChoice
from sb3_pvp.players.league import League, Player
from tests.envs.test_env_state import play
from tests.players.opponent_models import random_model

NAMES = ["main@0", "main@64", "main@128"]


@pytest.fixture(scope="module")
def league(tmp_path_factory: pytest.TempPathFactory) -> League:
    made = League(tmp_path_factory.mktemp("run") / "league")
    for seed, name in enumerate(NAMES):
        made.add(Player.parse(name), random_model(seed).save)
    return made


def opponents(env: NhEnv, count: int) -> list[str]:
    return [str(env.reset()[1]["opponent"]) for _ in range(count)]


def test_each_episode_has_another_player_which_the_seed_determines(league: League) -> None:
    env = NhEnv(opponent=f"league:{league.folder}")
    drawn = [[str(env.reset(seed=seed)[1]["opponent"]), *opponents(env, 60)] for seed in (3, 3, 4)]
    assert drawn[0] == drawn[1] != drawn[2]
    counts = Counter(drawn[0])
    assert counts.keys() == set(NAMES)
    assert min(counts.values()) > 8


def test_the_folder_of_a_run_will_do_and_rows_draw_on_their_own(league: League) -> None:
    env = NhVecEnv(32, opponent=f"league:{league.folder.parent}", max_episode_ticks=5)
    env.reset()
    assert {info["opponent"] for info in env.reset_infos} == set(NAMES)
    before = [info["opponent"] for info in env.reset_infos]
    play(env, 5)
    assert [info["opponent"] for info in env.reset_infos] != before


def test_a_league_may_be_chosen_and_left_again(league: League) -> None:
    env = NhEnv(opponent="noop")
    env.set_opponent(OpponentChoice(f"league:{league.folder}", deterministic=True))
    assert set(opponents(env, 40)) == set(NAMES)
    env.set_opponent("baseline")
    assert opponents(env, 2) == ["baseline", "baseline"]


def test_a_restored_environment_meets_the_same_players(league: League) -> None:
    env, other = (NhVecEnv(4, opponent=f"league:{league.folder}", max_episode_ticks=10, seed=seed) for seed in (0, 9))
    env.reset()
    play(env, 12)
    state = env.get_state()
    expected = play(env, 40), [info["opponent"] for info in env.reset_infos]
    other.set_state(state)
    assert (play(other, 40), [info["opponent"] for info in other.reset_infos]) == expected


def test_new_players_are_met(league: League, tmp_path: Path) -> None:
    growing = League(tmp_path)
    growing.add(Player("main", 0), random_model(0).save)
    env = NhEnv(opponent=f"league:{tmp_path}")
    assert set(opponents(env, 5)) == {"main@0"}
    growing.add(Player("main", 64), random_model(1).save)
    assert set(opponents(env, 20)) == {"main@0", "main@64"}


def test_where_nobody_is_nobody_is_met(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no league"):
        NhEnv(opponent=f"league:{tmp_path / 'none'}")
    League(tmp_path)
    with pytest.raises(ValueError, match="has no players"):
        NhEnv(opponent=f"league:{tmp_path}")
