"""The programs of examples/ are short, and each shows what it promises, here with smaller numbers."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch as th

from sb3_pvp.algorithms.dreamer.dreamer import DreamerV3
from sb3_pvp.cli import main
from sb3_pvp.game.contract import load_contract
from tests.paths import ROOT

EXAMPLES = ROOT / "examples"
#: Line limits of programs that are longer; this one also has a viewer.
LONGER = {"tic_tac_toe.py": 120}
PROGRAMS = sorted(EXAMPLES.glob("*.py"))


@pytest.fixture(autouse=True)
def in_a_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Runs each program in a temporary folder."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.chdir(tmp_path)


def run(program: str, *args: Any, **kwargs: Any) -> Any:
    return importlib.import_module(program).main(*args, **kwargs)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_is_short_says_how_it_is_run_and_is_in_the_table(program: Path) -> None:
    source = program.read_text(encoding="utf-8")
    assert len(source.splitlines()) < LONGER.get(program.name, 60)
    assert f"python examples/{program.name}" in (ast.get_docstring(ast.parse(source)) or "")
    assert f"[{program.name}]({program.name})" in (EXAMPLES / "README.md").read_text(encoding="utf-8")


def test_the_table_names_no_others() -> None:
    named = re.findall(r"^\| \[(\w+\.py)\]", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(named) == [program.name for program in PROGRAMS]


@pytest.mark.slow
def test_a_fighter_is_trained_saved_and_met_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    score = run("train_and_evaluate", total_timesteps=128 * 128, episodes=64)
    assert score.decided == 64 and capsys.readouterr().out.startswith("before: win rate ")
    assert 0 <= run("load_elsewhere", "fighter.zip", episodes=2) <= 1
    assert "\nAction from plain arrays: [" in capsys.readouterr().out
    with pytest.raises(SystemExit) as exit_info:
        main(["export", "fighter.zip"])
    assert exit_info.value.code == 0
    assert run("load_fighter", "fighter.fighter") in ("won", "lost", "tied")
    assert capsys.readouterr().out.splitlines()[-1].startswith("fighter.fighter: ")


def test_a_program_that_loads_a_fighter_does_not_import_sb3_pvp() -> None:
    tree = ast.parse((EXAMPLES / "load_elsewhere.py").read_text(encoding="utf-8"))
    at_the_top = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert "sb3_pvp" not in "".join(map(ast.unparse, at_the_top))


@pytest.mark.slow
def test_the_program_with_masks_breaks_no_rule_and_learns(capsys: pytest.CaptureFixture[str]) -> None:
    run("masked_env", total_timesteps=8192)
    before, after = map(float, re.findall(r"(-[\d.]+) (?:before|after)", capsys.readouterr().out))
    assert before < -30 and after > -20


def test_the_fence_refuses_what_breaks_the_rule() -> None:
    fence: gym.Env[Any, Any] = importlib.import_module("masked_env").Fence()
    fence.reset(seed=0)
    with pytest.raises(AssertionError):
        fence.step([1, 1])


@pytest.mark.slow
def test_only_a_critic_that_sees_the_weather_learns_the_crops() -> None:
    shares = run("privileged_critic", total_timesteps=16_384)
    assert shares["informed"] > 0.7 > shares["blind"]


@pytest.mark.slow
def test_against_rock_the_learner_learns_paper() -> None:
    shares = run("rock_paper_scissors", total_timesteps=40_000)
    assert len(shares) == 5 and shares[0][1] > 0.7


@pytest.mark.slow
def test_memory_wins_more_against_hidden_habits() -> None:
    rates = run("memory_simple", total_timesteps=60_000)
    assert rates["with memory"] > rates["without memory"] + 0.04


@pytest.mark.slow
def test_a_world_model_is_trained_and_saved() -> None:
    assert 8 < run("dreamer_simple", total_timesteps=680) <= 500
    # It is trained once four environments have recorded 640 steps.
    assert 4 < DreamerV3.load("dreamer.zip", device="cpu").n_updates < 80


@pytest.mark.slow
def test_a_world_model_learns_to_balance() -> None:
    assert run("dreamer_simple") > 195


def test_connect_four_is_played_to_its_end() -> None:
    assert run("connect_four", total_timesteps=4096).decided == 200


@pytest.mark.slow
def test_self_play_alone_beats_a_random_player() -> None:
    assert run("connect_four").win_rate > 0.75


@pytest.mark.slow
@pytest.mark.parametrize("game", ["tic_tac_toe:TicTacToe", "connect_four:CONNECT_FOUR"])
def test_a_league_is_trained_and_rated(game: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    standings = run("league_training", game, tmp_path / "runs", total_timesteps=4096)
    assert {"main@0", "baseline"} <= {each.player for each in standings}
    assert (tmp_path / "runs" / "model.zip").is_file() and (tmp_path / "runs" / "league" / "leaderboard.csv").is_file()
    assert "95 % interval" in capsys.readouterr().out


@pytest.mark.slow
def test_later_snapshots_are_rated_higher() -> None:
    ratings = {each.player: each.rating for each in run("league_training")}
    assert ratings["main@51200"] > ratings["main@20480"] > ratings["main@0"]


@pytest.mark.slow
def test_an_opponent_by_hand_is_met_and_shown() -> None:
    score = run("scripted_opponent", total_timesteps=8192)
    assert score.decided == 128
    assert "archer" in Path("archer.html").read_text(encoding="utf-8")


def test_the_archer_shoots_and_prays_against_what_it_faces() -> None:
    archer, nh = importlib.import_module("scripted_opponent").Archer(), load_contract("NhEnv")
    observation, masks = [[0.0] * nh.num_observations], [[True] * nh.num_flat_actions]
    observation[0][nh.observation_index("target_using_mage")] = 1.0
    seen, masked = th.tensor(observation).numpy(), th.tensor(masks).numpy()
    actions, _ = archer.predict(seen, archer.initial_state([0]), None, False, masked)
    chosen = {head.actions[entry].id for head, entry in zip(nh.heads, actions[0], strict=True) if entry}
    assert chosen == {"ranged_attack", "basic_ranged_attack", "mage_prayer", "eat_primary_food"}
