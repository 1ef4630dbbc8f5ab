"""Fighters that ship: their names stand wherever a model or an opponent is given."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import sb3_pvp
from sb3_pvp.callbacks import SelfPlayCallback, WinRateEvalCallback
from sb3_pvp.callbacks.exploiters.best_response import BestResponses
from sb3_pvp.cli import main
from sb3_pvp.cli.serve import _place
from sb3_pvp.envs import NhVecEnv, PvpVecEnv
from sb3_pvp.game import find_game
from sb3_pvp.matches.rating import check_players
from sb3_pvp.players.league import League, Player
from sb3_pvp.players.opponents import kind_of, make_opponent, opponent_name
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.files import shipped
from sb3_pvp.policies.files.fighter_files import export_fighter
from sb3_pvp.zoo.front_ends import _initial_model

CARD = {
    "description": "A fighter for tests",
    "game": "NhEnv",
    "default": True,
    "sha256": "",
    "command": "sb3-pvp train",
    "steps": 2,
    "cpu_hours": 0.1,
    "exploitability": [{"lower_bound": 0.25, "responses": []}],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the fighter ``hero``, its card, and ``villain`` without one."""
    folder = tmp_path_factory.mktemp("models")
    model = sb3_pvp.PvpPPO(AutoregressivePolicy, NhVecEnv(1), n_steps=2, batch_size=2, policy_kwargs={"net_arch": [8]})
    export_fighter(model.learn(2), folder / "hero.fighter", onnx=False)
    shutil.copy(folder / "hero.fighter", folder / "villain.fighter")
    (folder / "hero.json").write_text(json.dumps(CARD))
    (folder / "hero.md").write_text("# hero\n")
    return folder


@pytest.fixture(autouse=True)
def place(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Changes to an empty folder, where only the fighters of these tests ship."""
    monkeypatch.setattr(shipped, "shipped_folder", lambda: folder)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    with pytest.raises(SystemExit) as exit_info:
        main([*arguments])
    output = capsys.readouterr()
    assert exit_info.value.code == code, output.err
    return output.err if code else output.out


def test_the_list_and_a_card(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "villain.json").write_text(json.dumps({**CARD, "default": False}))
    try:
        text = run(capsys, "models")
        assert re.search(r"^hero +1 +NhEnv +2 +25.0% +0.1 MB +A fighter for tests$", text, re.M)
        found = json.loads(run(capsys, "models", "--json"))["models"]
    finally:
        (folder / "villain.json").unlink()
    assert [each["name"] for each in found] == ["hero", "villain"] and found[0]["exploitability"] == 0.25
    assert run(capsys, "models", "hero") == "# hero\n"
    assert json.loads(run(capsys, "models", "hero", "--json"))["command"] == "sb3-pvp train"
    assert "did you mean 'hero'?" in run(capsys, "models", "heroo", code=2)


@pytest.mark.slow
def test_commands_take_its_name(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--episodes", "2", "--safe", "--json"]
    figures = json.loads(run(capsys, "evaluate", "hero", "--opponent", "villain", *options))
    assert (figures["opponent"], figures["episodes"]) == ("villain", 2)
    assert json.loads(run(capsys, "record", "hero", "--opponent", "hero", "--json"))["players"] == [
        "hero (1)",
        "hero (2)",
    ]
    run(capsys, "export", "hero", "--no-onnx")
    assert (place / "hero.fighter").is_file()


def test_environments_and_callbacks_take_its_name(tmp_path: Path) -> None:
    assert gym.make("NhEnv", opponent="hero").reset(seed=1)[1]["opponent"] == "hero"
    env = NhVecEnv(2, opponent="hero")
    env.reset()
    assert env.reset_infos[0]["opponent"] == "hero"
    (choice,) = SelfPlayCallback(target=1, targets=["hero"], directory=str(tmp_path))._targets.choices
    assert choice.label == "hero" and WinRateEvalCallback(["hero"])._labels == {"hero": "hero"}
    check_players(League(tmp_path / "league"), [Player("hero")])


def test_responses_and_servers_find_its_file(folder: Path, place: Path) -> None:
    measurement = BestResponses("hero", place / "exploit", steps=64, seeds=1)
    assert measurement.name == "hero" and (place / "exploit" / "fighter.zip").is_file()
    assert _place(Path("hero")) == folder / "hero.fighter" and _place(Path("nobody")) == Path("nobody")
    (place / "models").mkdir()
    assert _place(None) == Path("models")


def test_training_begins_with_a_zip_of_it(place: Path) -> None:
    made = _initial_model("hero", place / "logs")
    assert made == str(place / "logs" / "hero.zip") and sb3_pvp.PvpPPO.load(made).num_timesteps == 2


def test_a_file_that_exists_comes_first(place: Path) -> None:
    model = sb3_pvp.PvpPPO(AutoregressivePolicy, NhVecEnv(1), n_steps=2, batch_size=2, policy_kwargs={"net_arch": [4]})
    model.save(place / "hero.zip")
    assert sb3_pvp.load("hero").policy_kwargs == {"net_arch": [4]}
    assert sb3_pvp.load("villain").policy_kwargs != {"net_arch": [4]}


def test_a_script_of_the_game_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    game = find_game("NhEnv")
    monkeypatch.setitem(game.scripts, "hero", game.scripts["scripted"])  # type: ignore[arg-type]
    assert type(make_opponent("hero", game.contract, game)).__name__ == "ScriptedOpponent"
    assert kind_of("hero", game) == "script" and kind_of("hero") == "file"
    assert opponent_name("hero") == "hero"


def test_unknown_names_are_compared_with_those_that_ship() -> None:
    with pytest.raises(ValueError, match=r"unknown opponent 'heroo' \(did you mean 'hero'\?\)"):
        PvpVecEnv(1, game="NhEnv", opponent="heroo")
    with pytest.raises(FileNotFoundError, match=r"There is no model file heroo \(did you mean 'hero'\?\)"):
        sb3_pvp.load("heroo")


def test_without_fighters_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shipped, "shipped_folder", lambda: None)
    assert "no fighters ship" in run(capsys, "models")
    assert shipped.default_fighter("NhEnv") is None and shipped.shipped_file("hero") is None


@pytest.fixture
def renewed(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which another ``hero`` has come, and the first one is kept."""
    newer = tmp_path / "renewed"
    shutil.copytree(folder, newer)
    for suffix in (".fighter", ".json", ".md"):
        (newer / f"hero{suffix}").rename(newer / f"hero@1{suffix}")
    model = sb3_pvp.PvpPPO(AutoregressivePolicy, NhVecEnv(1), n_steps=2, batch_size=2, policy_kwargs={"net_arch": [4]})
    export_fighter(model, newer / "hero.fighter", onnx=False)
    for name in ("hero", "villain"):
        (newer / f"{name}.json").write_text(json.dumps({**CARD, "default": name == "hero"}))
    monkeypatch.setattr(shipped, "shipped_folder", lambda: newer)
    return newer


def test_a_version_is_the_same_file_whatever_comes_later(folder: Path, request: pytest.FixtureRequest) -> None:
    assert shipped.shipped_file("hero@1") == folder / "hero.fighter"
    before = sb3_pvp.load("hero@1", safe=True).policy_kwargs
    newer = request.getfixturevalue("renewed")
    assert sb3_pvp.load("hero@1", safe=True).policy_kwargs == before
    assert sb3_pvp.load("hero").policy_kwargs == sb3_pvp.load("hero@2").policy_kwargs != before
    assert shipped.shipped_file("hero@1") == newer / "hero@1.fighter"
    assert [shipped.shipped_version(name) for name in ("hero", "hero@1", "villain")] == [2, 1, 1]
    assert shipped.default_fighter("NhEnv") == "hero"
    assert [shipped.shipped_file(name) for name in ("nobody@1", "runs/hero@9", "hero@one")] == [None] * 3


def test_a_version_stands_wherever_a_name_does(renewed: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    env = NhVecEnv(2, opponent="hero@1")
    env.reset()
    assert env.reset_infos[0]["opponent"] == "hero@1"
    assert WinRateEvalCallback(["hero", "hero@1"])._labels == {"hero": "hero", "hero@1": "hero_1"}
    (choice,) = SelfPlayCallback(target=1, targets=["hero@1"], directory=str(place))._targets.choices
    assert choice.label == "hero@1"
    check_players(League(place / "league"), [Player("hero", 1), Player("hero", 2)])
    assert BestResponses("hero@1", place / "exploit", steps=64, seeds=1).name == "hero@1"
    told = json.loads(run(capsys, "models", "--json"))["models"][:2]
    assert [(each["name"], each["version"]) for each in told] == [("hero", 2), ("hero@1", 1)]
    assert json.loads(run(capsys, "models", "hero@1", "--json"))["version"] == 1
    given = "--opponent", "hero@1", "--episodes", "2", "--json"
    assert json.loads(run(capsys, "evaluate", "hero@2", *given))["opponent"] == "hero@1"


def test_a_version_that_does_not_exist_is_one_line(renewed: Path, place: Path, capsys: Any) -> None:
    told = "the fighter hero has no version 3: it has 1 to 2"
    for arguments in (["evaluate", "hero@3"], ["evaluate", "hero", "--opponent", "hero@3"], ["models", "hero@3"]):
        assert told in run(capsys, *arguments, code=2)
    for use in (sb3_pvp.load, kind_of, lambda name: check_players(League(place / "league"), [Player.parse(name)])):
        with pytest.raises(FileNotFoundError, match=f"^{told}$"):
            use("hero@3")
    with pytest.raises(FileNotFoundError, match="^the fighter villain has no version 2: it has 1$"):
        sb3_pvp.load("villain@2")
