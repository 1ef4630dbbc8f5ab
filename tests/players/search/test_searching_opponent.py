"""``mcts:FIGHTER?simulations=100`` wherever an opponent is named, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pettingzoo.classic import connect_four_v3, tictactoe_v3

from sb3_pvp import PvpPPO
from sb3_pvp.cli.app import main
from sb3_pvp.common.random_words import words_from_seeds
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.game import find_game
from sb3_pvp.games.connect_four import CONNECT_FOUR, ConnectFour, ConnectFourWorld
from sb3_pvp.games.pettingzoo import PettingZooGame
from sb3_pvp.matches.demonstrating import demonstrate
from sb3_pvp.matches.replay import record_fight
from sb3_pvp.players.handicaps import Handicapped
from sb3_pvp.players.league import League, Player
from sb3_pvp.players.opponents import OpponentChoice, kind_of, make_opponent, opponent_name
from sb3_pvp.players.search.opponent import SearchingOpponent
from sb3_pvp.players.search.search import Search
from sb3_pvp.players.search.search_settings import SearchSettings, read_search
from sb3_pvp.players.seats import _AVERSIONS
from sb3_pvp.policies import AutoregressivePolicy
from tests.players.search.small_networks import ignorant

GAME = "ConnectFour-v0"


@pytest.fixture(scope="module")
def fighter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of a model that has learned nothing."""
    env = PvpVecEnv(1, game=GAME, seed=0)
    model = PvpPPO(AutoregressivePolicy, env, n_steps=2, batch_size=2, seed=0, policy_kwargs={"net_arch": [16]})
    path = tmp_path_factory.mktemp("models") / "fighter.zip"
    model.save(path)
    return path


def random_games(opponent: Any, ticks: int, rows: int = 8, **settings: Any) -> tuple[PvpVecEnv, list[str]]:
    """Plays random moves against an opponent; returns the environment and how games ended."""
    env, random = PvpVecEnv(rows, game=GAME, opponent=opponent, seed=0, **settings), np.random.default_rng(0)
    env.reset()
    ends = []
    for _ in range(ticks):
        masks = env.action_masks()
        _, _, dones, infos = env.step((random.random(masks.shape) * masks).argmax(1)[:, np.newaxis])
        ends += [infos[row]["outcome"] for row in np.flatnonzero(dones)]
    return env, ends


@pytest.mark.slow
def test_it_plays_in_an_environment_and_wins(fighter: Path) -> None:
    env, ends = random_games(f"mcts:{fighter}?simulations=40", 60)
    assert env.reset_infos[0]["opponent"] == "fighter?simulations=40"
    assert len(ends) > 10 and ends.count("lost") >= 0.8 * len(ends)


def test_a_restored_environment_goes_on_with_its_searches(fighter: Path) -> None:
    env, _ = random_games(f"mcts:{fighter}?simulations=10", 5)
    state, seen = env.get_state(), []
    for _ in range(2):
        env.set_state(state)
        for _ in range(6):
            env.step(env.action_masks().argmax(1)[:, np.newaxis])
        seen.append(env.fights.world.obs.copy())
    assert np.array_equal(*seen)


def test_names_and_parameters() -> None:
    assert kind_of("mcts:a.zip?simulations=7") == "search"
    assert opponent_name("mcts:runs/a.zip?simulations=7&selection=gumbel") == "a?simulations=7&selection=gumbel"
    assert opponent_name("mcts:a.zip") == "a?simulations=100"
    assert read_search("mcts:a.zip?considered=4") == ("a.zip", SearchSettings(considered=4))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("mcts:", "'mcts:' names no fighter that could search: write mcts:FIGHTER"),
        ("mcts:FILE?simulations=0", "search parameter simulations should be greater than or equal to 1, got '0'"),
        ("mcts:FILE?sims=3", "unknown search parameter 'sims'"),
        ("mcts:FILE?simulations=5&simulations=6", "gives a parameter twice"),
        ("mcts:FILE?simulations", "has parameters that cannot be read: write mcts:FIGHTER"),
        ("mcts:FILE?selection=best", "search parameter selection should be 'puct' or 'gumbel', got 'best'"),
        ("team:mcts:FILE,mcts:FILE", "a team consists of fighters, which 'mcts:"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(name: str, why: str, fighter: Path) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        PvpVecEnv(1, game=GAME, opponent=name.replace("FILE", str(fighter)))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(FileNotFoundError, match=r"There is no model file gone\.zip"):
        PvpVecEnv(1, game=GAME, opponent="mcts:gone.zip")


def test_what_would_hide_something_from_a_search_is_refused(fighter: Path) -> None:
    with pytest.raises(ValueError, match="noise cannot be given for .* a search looks at the world itself"):
        OpponentChoice(f"mcts:{fighter}", noise={"type": "gaussian"})


@pytest.mark.parametrize(
    ("game", "why"),
    [
        ("NhEnv", "it has hidden information, at which a search would look"),
        ("examples.rock_paper_scissors:RockPaperScissors", "both players move at once"),
        ("sb3_pvp.games.gate:Gate", "it asks for several decisions at a time, or for numbers"),
    ],
)
def test_games_in_which_a_search_would_cheat_are_refused(game: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"cannot be searched: (?:{why})"):
        Search(find_game(game), ignorant, SearchSettings())


class _Uncopyable(ConnectFourWorld):
    copy_fights = None  # type: ignore[assignment]


class _UncopyableGame(ConnectFour):
    def make_world(self, where: str, num_fights: int, seed: int, params: Any) -> ConnectFourWorld:
        return _Uncopyable(num_fights, seed)


def test_a_game_has_to_say_that_nothing_is_hidden_and_its_world_to_be_copied() -> None:
    with pytest.raises(ValueError, match="tictactoe_v3 cannot be searched: nothing may be hidden; .* = True in"):
        Search(PettingZooGame(tictactoe_v3.raw_env), ignorant, SearchSettings())
    with pytest.raises(ValueError, match=r"_Uncopyable has no copy_fights\(\), see sb3_pvp.game.Copyable"):
        Search(_UncopyableGame(), ignorant, SearchSettings())


def test_from_observations_alone_it_cannot_play(fighter: Path) -> None:
    opponent = make_opponent(f"mcts:{fighter}", CONNECT_FOUR.contract)
    assert isinstance(opponent, SearchingOpponent)
    seen, masks = np.zeros((1, 126), np.float32), np.ones((1, 8), bool)
    with pytest.raises(ValueError, match=r"fighter\?simulations=100 can only play where it may copy the world"):
        opponent.predict(seen, opponent.initial_state([0]), np.ones(1, bool), True, masks)


@pytest.mark.slow
def test_a_model_is_evaluated_as_it_searches(fighter: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = []
    for model in (f"mcts:{fighter}?simulations=60", str(fighter)):
        with pytest.raises(SystemExit) as ended:
            main(["evaluate", model, "--opponent", "random", "--episodes", "30", "--json"])
        assert ended.value.code == 0
        figures.append(json.loads(capsys.readouterr().out))
    assert figures[0]["model"] == f"mcts:{fighter}?simulations=60" and figures[0]["game"] == GAME
    assert figures[0]["win_rate"] > 0.8 > figures[1]["win_rate"]


@pytest.mark.parametrize("more", [["--safe"], pytest.param(["--jobs", "2"], marks=pytest.mark.slow)])
def test_it_evaluates_alike_in_several_processes_and_without_unpickling(
    more: list[str], fighter: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["evaluate", f"mcts:{fighter}?simulations=5", "--opponent", f"mcts:{fighter}?simulations=2", "--stochastic"]
    found = []
    for flags in (["--jobs", "1"], more):
        with pytest.raises(SystemExit):
            main([*given, "--episodes", "8", "--json", *flags])
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["episodes"] == 8 and found[0] == found[1]


def test_players_of_a_league_search_with_parameters_behind_their_names(
    fighter: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    league = League(tmp_path)
    league.add(Player("main", 8), lambda path: path.write_bytes(fighter.read_bytes()))
    league.set_fights(GAME, {})
    searching = Player("main?simulations=20", 8)
    assert league.opponent(searching) == f"mcts:{league.path(Player('main', 8))}?simulations=20"
    with pytest.raises(SystemExit) as ended:
        main(["league", "play", str(tmp_path), str(searching), "main@8", "--fights", "12", "--json"])
    assert ended.value.code == 0 and json.loads(capsys.readouterr().out)["wins"] >= 9
    with pytest.raises(SystemExit) as ended:
        main(["league", "play", str(tmp_path), "main?sims=20@8", "main@8"])
    assert ended.value.code == 2 and "unknown search parameter 'sims'" in capsys.readouterr().err


def test_games_from_pettingzoo_are_copied_move_by_move() -> None:
    game = PettingZooGame(connect_four_v3.raw_env, perfect_information=True)
    world, copies, random = game.make_world("sim", 2, 0, {}), game.make_world("sim", 2, 1, {}), np.random.default_rng(0)
    world.reset()
    for _ in range(6):
        world.step((random.random(world.masks.shape) * world.masks).argmax(2)[:, :, np.newaxis])
    before = world.obs.copy()
    copies.copy_fights([1], world, [0])
    moves = (random.random(world.masks.shape) * world.masks).argmax(2)[:, :, np.newaxis]
    copies.step(moves[:1], [1])
    assert np.array_equal(world.obs, before) and not np.array_equal(copies.obs[1], before[0])
    world.step(moves)
    assert np.array_equal(copies.obs[1], world.obs[0]) and np.array_equal(copies.masks[1], world.masks[0])
    search = Search(game, ignorant, SearchSettings(simulations=20))
    found = search.look(world, np.array([0]), world.masks[:1].sum(2).argmax(1), [None])
    assert found.policy.sum() == pytest.approx(1)


def test_an_environment_that_cannot_be_copied_is_refused_in_one_line() -> None:
    def make() -> Any:
        env = tictactoe_v3.raw_env()
        env.unwrapped.held = (each for each in ())  # no generator can be copied
        return env

    game = PettingZooGame(make, perfect_information=True)
    world = game.make_world("sim", 1, 0, {})
    world.reset()
    with pytest.raises(ValueError, match=r"matches of tictactoe_v3 cannot be copied: cannot pickle 'generator' object"):
        Search(game, ignorant, SearchSettings()).look(world, np.array([0]), world.masks.sum(2).argmax(1), [None])


def test_its_fights_are_recorded_and_watched(fighter: Path) -> None:
    name = f"mcts:{fighter}?simulations=4"
    fight = record_fight(name, name, game=GAME, seed=1)
    assert fight.outcomes[0] in ("won", "lost", "tied") and len(fight.moments) > 7
    watched = [*demonstrate(make_opponent(name, CONNECT_FOUR.contract), CONNECT_FOUR, 2, "random")]
    assert len(watched) == 2 and all(len(each.actions) > 3 for each in watched)


def test_what_it_sees_can_be_disturbed_but_not_delayed(fighter: Path) -> None:
    opponent, world = make_opponent(f"mcts:{fighter}?simulations=4", CONNECT_FOUR.contract), ConnectFourWorld(1)
    assert isinstance(opponent, SearchingOpponent)
    world.reset()
    player = Handicapped(opponent, CONNECT_FOUR.contract, randomness=0.5)
    player.watch(world, np.array([0]), 0)
    asked = world.obs[:, 0], player.initial_state([0]), np.ones(1, bool), True, world.masks[:, 0]
    assert player.predict(*asked)[0].shape == (1, 1)
    with pytest.raises(ValueError, match="a search looks at the world itself: nothing can be shown to it later"):
        Handicapped(opponent, CONNECT_FOUR.contract, delay=1)


def test_its_chance_is_not_that_of_aversions(fighter: Path) -> None:
    opponent, (aversions,) = make_opponent(f"mcts:{fighter}", CONNECT_FOUR.contract), words_from_seeds([3], _AVERSIONS)
    assert isinstance(opponent, SearchingOpponent) and opponent.initial_state([3])[0] != aversions
