"""Zips, leagues and commands know what they play, also if it is a user's own game."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from coins import Coins, Dice, Loaded
from sb3_contrib import MaskablePPO

from sb3_pvp import PvpPPO, load
from sb3_pvp.callbacks import LeagueCallback
from sb3_pvp.cli import main
from sb3_pvp.envs import NhVecEnv, PvpVecEnv
from sb3_pvp.game import find_game, game_reference
from sb3_pvp.matches.replay import load_fight
from sb3_pvp.players.league import League
from sb3_pvp.policies import AutoregressivePolicy
from tests.common.test_user_modules import lay_traps, ran

SMALL: dict[str, Any] = {"n_steps": 4, "batch_size": 8, "policy_kwargs": {"net_arch": [4]}, "seed": 0}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in an own game: its model and its league."""
    folder = tmp_path_factory.mktemp("run")
    model = PvpPPO(AutoregressivePolicy, PvpVecEnv(4, game="coins:Coins"), **SMALL)
    model.learn(32, callback=LeagueCallback(directory=folder / "league"))
    model.save(folder / "own.zip")
    MaskablePPO(AutoregressivePolicy, PvpVecEnv(4, game="coins:Coins"), **SMALL).save(folder / "stock.zip")
    MaskablePPO(AutoregressivePolicy, NhVecEnv(1), **SMALL).save(folder / "fighter.zip")
    return folder


def command(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    with pytest.raises(SystemExit) as exit_info:
        main(list(map(str, arguments)))
    output = capsys.readouterr()
    assert exit_info.value.code == code, output.err
    assert code == 0 or output.err.count("\n") == 1
    return output.err if code else output.out


@pytest.mark.parametrize(
    ("game", "name"),
    [
        ("coins:Coins", "coins:Coins"),
        (Dice(), "coins:Dice"),
        (find_game("NhEnv"), "NhEnv"),
        (Loaded(1), "Loaded"),  # cannot be made without this object
    ],
)
def test_games_have_names_for_files(game: Any, name: str, tmp_path: Path) -> None:
    assert game_reference(find_game(game)) == name
    env = PvpVecEnv(2, game=game)
    PvpPPO(AutoregressivePolicy, env, **SMALL).save(tmp_path / "model.zip")
    assert load(tmp_path / "model.zip").game == name  # type: ignore[attr-defined]
    assert PvpPPO.load(tmp_path / "model.zip", env=env).game == name


def test_a_class_inside_a_function_has_no_name_for_files() -> None:
    class Hidden(Coins):
        pass

    assert game_reference(Hidden()) == "Hidden"


def test_a_model_is_evaluated_in_its_game(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(command(capsys, "evaluate", run / "own.zip", "--episodes", 20, "--json"))
    assert found["wins"] + found["losses"] + found["ties"] == 20 and found["mean_ticks"] == 1
    for option in ("--game", "--env"):
        stock = command(capsys, "evaluate", run / "stock.zip", "--episodes", 20, option, "coins:Coins", "--json")
        assert json.loads(stock)["episodes"] == 20
    refused = command(capsys, "evaluate", run / "stock.zip", code=2)
    assert "does not name its game" in refused and "--game module:object" in refused
    assert "coins:Coin" in command(capsys, "evaluate", run / "own.zip", "--game", "coins:Coin", code=2)
    assert "has no builds" in command(capsys, "evaluate", run / "own.zip", "--build", "MED", code=2)


def test_models_of_another_game_are_no_opponents(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = command(capsys, "evaluate", run / "own.zip", "--opponent", run / "fighter.zip", code=2)
    assert "NhEnv" in refused and "Coins" in refused
    refused = command(capsys, "evaluate", run / "fighter.zip", "--opponent", run / "own.zip", code=2)
    assert "coins:Coins" in refused and "NhEnv" in refused


def test_a_game_that_is_gone_is_one_line(run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    env = PvpVecEnv(2, game=Loaded(1))
    PvpPPO(AutoregressivePolicy, env, **SMALL).save(tmp_path / "loaded.zip")
    refused = command(capsys, "evaluate", tmp_path / "loaded.zip", code=2)
    assert "Loaded" in refused and "--game module:object" in refused


def test_the_league_of_an_own_game(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shutil.copytree(run / "league", tmp_path / "league")
    assert League.existing(folder).fights == {"game": "coins:Coins", "reset_params": {}}
    assert "main@0" in command(capsys, "league", "show", folder)
    played = command(capsys, "league", "play", folder, "main@0", "main@16", "--fights", 6, "--json")
    assert sum(json.loads(played)[name] for name in ("wins", "ties", "losses")) == 6
    with pytest.raises(SystemExit):
        main(["league", "rate", str(folder), "--until", "500", "--max-fights", "64"])
    assert "fights of coins:Coins with the default start" in capsys.readouterr().err
    for option in ("--game", "--contract"):
        refused = command(capsys, "league", "play", folder, "main@0", "main@16", option, "coins:Dice", code=2)
        assert "coins:Coins" in refused and "Dice" in refused


def test_a_league_without_a_record_uses_its_models(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(run / "league", tmp_path / "league")
    settings = json.loads((folder / "league.json").read_text())
    (folder / "league.json").write_text(json.dumps({**settings, "fights": {}}))
    command(capsys, "league", "play", folder, "main@0", "main@16", "--fights", 2)


def test_a_game_without_a_viewer_is_recorded_as_text(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fight = tmp_path / "fight.json.gz"
    command(capsys, "record", run / "own.zip", "-o", fight)
    recorded = load_fight(fight, game="coins:Coins")
    assert all("tick" in moment.scene.text for moment in recorded.moments)
    command(capsys, "replay", fight, "--game", "coins:Coins", "-o", tmp_path / "fight.html")
    assert "scene.picture" in (tmp_path / "fight.html").read_text()


def test_no_module_is_imported_for_a_model_that_is_only_loaded(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "coins")
    load(run / "own.zip")
    assert "coins" not in sys.modules


@pytest.mark.slow
def test_a_game_in_the_working_directory_is_found_and_nothing_else_there_runs(run: Path, tmp_path: Path) -> None:
    lay_traps(tmp_path)
    shutil.copy(Path(__file__).with_name("coins.py"), tmp_path / "my_coins.py")
    script = tmp_path / "bin" / "sb3-pvp"  # like a console script, whose own folder Python looks into
    script.parent.mkdir()
    script.write_text("from sb3_pvp.cli import main\nmain()\n")
    options = ["--game", "my_coins:Coins", "--episodes", "4"]
    done = subprocess.run(
        [sys.executable, str(script), "evaluate", str(run / "stock.zip"), *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "win rate" in done.stdout, done.stderr
    assert ran(tmp_path) == []


@pytest.mark.slow
def test_worker_processes_import_the_game(tmp_path: Path) -> None:
    code = (
        "from stable_baselines3.common.vec_env import SubprocVecEnv\n"
        "from sb3_pvp import PvpPPO\n"
        "from sb3_pvp.envs import PvpEnv\n"
        "from sb3_pvp.policies import AutoregressivePolicy\n"
        "if __name__ == '__main__':\n"
        "    env = SubprocVecEnv([lambda: PvpEnv(game='coins:Coins')], start_method='forkserver')\n"
        "    model = PvpPPO(AutoregressivePolicy, env, n_steps=4, batch_size=4)\n"
        "    model.learn(4)\n"
        "    print(model.game)\n"
        "    env.close()\n"
    )
    (tmp_path / "train.py").write_text(code)
    shutil.copy(Path(__file__).with_name("coins.py"), tmp_path)
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "coins:Coins\n", done.stderr
