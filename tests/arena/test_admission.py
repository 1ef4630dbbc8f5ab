"""Who gets into an arena: challenges, fighters of strangers, the hub, and what is refused."""

from __future__ import annotations

import json
import pickle
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from sb3_pvp import PvpPPO, zoo
from sb3_pvp.arena import admission
from sb3_pvp.arena import arena as arena_module
from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.challenge import FILE, Challenge, Season, load_challenge, refusal_of, save_challenge
from sb3_pvp.cli import main
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.files.fighter_files import export_fighter
from tests.arena.duel import GAME
from tests.arena.kept_workers import kept
from tests.hub_stand_in import Hub, hub_stand_in  # noqa: F401  (a fixture)
from tests.policies.export.hostile_graphs import READING, SECRET

TICKS = 20


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a fighter, its zip, and a younger one."""
    folder = tmp_path_factory.mktemp("models")
    for number, name in enumerate(("archer", "younger")):
        env = NhVecEnv(1, reset_params={"accountBuild": "MED"})
        model = PvpPPO(AutoregressivePolicy, env, n_steps=2, batch_size=2, policy_kwargs={"net_arch": [8]}, seed=number)
        model.num_timesteps = 1000
        export_fighter(model, folder / f"{name}.fighter", onnx=False)
        if not number:
            model.save(folder / "archer.zip")
    return folder


@pytest.fixture
def arena(tmp_path: Path) -> Any:
    made = Arena.create(tmp_path / "arena", Challenge(name="small", game="NhEnv", max_ticks=TICKS), None)
    made.workers = kept(made.challenge)
    yield made
    made.close()


def test_a_challenge_is_a_file(tmp_path: Path) -> None:
    challenge = Challenge(name="duel", game=GAME, fights_per_match=6, anchors={"level-1": 1000.0})
    save_challenge(challenge, tmp_path / FILE)
    loaded = load_challenge(tmp_path)
    assert loaded.fingerprint == challenge.played.contract.fingerprint
    assert loaded.model_copy(update={"fingerprint": None}) == challenge
    assert "decision" not in yaml.safe_load((tmp_path / FILE).read_text()), "what is as by default is left out"
    for change, words in (
        ({"fights_per_mach": 2}, "did you mean 'fights_per_match'"),
        ({"fights_per_match": 3}, "multiple of 2"),
        ({"game": "NhEnvv"}, "did you mean 'NhEnv'"),
        ({"name": "a/b"}, "name"),
        ({"fingerprint": "0"}, "have changed since the challenge duel was made"),
        ({"scripts": ["level-99"]}, "unknown script 'level-99'"),
        ({"anchors": {"level-1": 1e9}}, "anchor"),
        ({"game": "NhEnv", "fingerprint": None, "reset_params": {"accountBild": "MED"}}, "accountBuild"),
    ):
        plain = {**yaml.safe_load((tmp_path / FILE).read_text()), **change}
        (tmp_path / "other.yaml").write_text(yaml.safe_dump(plain))
        with pytest.raises(ValueError, match=words) as error:
            load_challenge(tmp_path / "other.yaml")
        assert "\n" not in str(error.value)


def test_seasons() -> None:
    season = Season(start=datetime(2026, 1, 1, tzinfo=UTC), end=datetime(2026, 4, 30, tzinfo=UTC))
    states = [season.state(datetime(year, 3, 1, tzinfo=UTC)) for year in (2025, 2026, 2027)]
    assert states == ["before", "running", "over"] and Season().state() == "running"
    with pytest.raises(ValidationError, match="before it starts"):
        Season(start=season.end, end=season.start)
    with pytest.raises(ValidationError, match="timezone"):
        Season(end="2026-04-30T00:00:00")  # type: ignore[arg-type]


def test_who_may_enter() -> None:
    entry: Any = {"kinds": ["fighter", "script"], "algorithms": ["maskable_ppo"], "budget": 100, "tags": ["nh"]}
    challenge = Challenge(name="c", game=GAME, entry=entry)
    assert refusal_of(challenge, "fighter", "maskable_ppo", 100, ["nh", "x"]) == ""
    assert "kind 'onnx' may not enter" in refusal_of(challenge, "onnx", None, None, ["nh"])
    assert "algorithm is dqn" in refusal_of(challenge, "fighter", "dqn", 1, ["nh"])
    assert "trained for 101 steps" in refusal_of(challenge, "fighter", "maskable_ppo", 101, ["nh"])
    assert "unknown number of steps" in refusal_of(challenge, "fighter", "maskable_ppo", None, ["nh"])
    assert "lacks the tag 'nh'" in refusal_of(challenge, "fighter", "maskable_ppo", 1, [])


def test_a_strangers_fighter_enters_and_its_twins_do_not(arena: Arena, models: Path) -> None:
    (report,) = arena.check(str(models / "archer.fighter"))
    assert report.refusal == "" and arena.players == []
    assert [name for name, _ in report.checks] == ["file", "model", "entry", "twins", "test fights", "decisions"]
    assert "algorithm maskable_ppo, steps 1000" in str(report)
    (report,) = arena.add(str(models / "archer.fighter"), owner="ann")
    assert report.player == "ann+archer" and not report.refusal
    assert arena.add(str(models / "archer.fighter")) == [], "a file that is there is not looked at again"
    (report,) = arena.add(str(models / "archer.zip"))
    assert "SB3 zip is unpickled" in report.refusal
    (report,) = arena.add(str(models / "archer.zip"), owner="bob", trusted=True)
    assert report.refusal == "it has the same weights as ann+archer"
    reports = arena.add(str(models))
    assert {each.player for each in reports if not each.refusal} == {"younger"}
    assert {each.name: each.state for each in arena.players}["ann+archer"] == "active"


def test_of_a_models_forms_in_a_folder_the_best_one_enters(tmp_path: Path, models: Path) -> None:
    """As a run of MAPOCA leaves them: they are one player, though their weights do not tell."""
    for name in ("a.fighter", "a.zip", "a.onnx", "b.zip", "b.onnx", ".c.zip"):
        (tmp_path / name).write_bytes(name.encode())

    def found(trusted: bool, kinds: tuple[str, ...]) -> list[str]:
        made = admission.candidates(str(tmp_path), "", trusted, (), (), kinds)
        return [each.path.name for each in made if isinstance(each, admission.Candidate) and each.path is not None]

    every = ("fighter", "onnx", "zip", "script")
    assert found(True, every) == ["a.fighter", "b.zip"]
    assert found(False, every) == ["a.fighter", "b.onnx"]
    assert found(True, ("fighter", "onnx")) == ["a.fighter", "b.onnx"]
    assert found(True, ("zip",)) == ["a.zip", "b.zip"]


def test_another_version_of_a_file_is_another_player(arena: Arena, models: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "best.fighter").write_bytes((models / "archer.fighter").read_bytes())
    arena.add(str(folder))
    (folder / "best.fighter").write_bytes((models / "younger.fighter").read_bytes())
    (report,) = arena.refresh()
    assert not report.refusal and report.player.startswith("best+")
    assert len(arena.store.players("active")) == 2
    folder.rename(tmp_path / "gone")
    (report,) = arena.refresh()
    assert "cannot be read" in report.refusal


def test_what_is_no_fighter_is_refused_in_one_line(arena: Arena, models: Path, tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "exploded",))

    with zipfile.ZipFile(tmp_path / "bomb.zip", "w") as archive:
        archive.writestr("data", json.dumps({"policy_class": {":serialized:": pickle.dumps(Bomb()).hex()}}))
        archive.writestr("policy.pth", pickle.dumps(Bomb()))
    (tmp_path / "bomb.fighter").write_bytes((tmp_path / "bomb.zip").read_bytes())
    (tmp_path / "cut.fighter").write_bytes((models / "archer.fighter").read_bytes()[:-100])
    (tmp_path / "text.onnx").write_bytes(b"no graph")
    (tmp_path / SECRET).write_text("sixteen letters!")
    for name, graph in READING.items():
        (tmp_path / f"{name.replace(' ', '-')}.onnx").write_bytes(graph)
    names = [each.name for each in sorted(tmp_path.iterdir()) if each.suffix in (".zip", ".fighter", ".onnx")]
    assert len(names) >= 5
    for name in names:
        (report,) = arena.add(str(tmp_path / name))
        assert report.refusal and "\n" not in report.refusal, name
    assert not (tmp_path / "exploded").exists()
    assert {each.state for each in arena.players} == {"refused"} and all(each.reason for each in arena.players)
    with pytest.raises(FileNotFoundError, match="no file, folder or script"):
        arena.add("nothing/here.fighter")
    with pytest.raises(ValueError, match="is no model file"):
        arena.add(str(Path(__file__)))


def test_a_file_that_is_refused_is_not_kept_and_keeps_nobody_out(
    arena: Arena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    for name, size in {"a": 9, "b@1": 9, "c": 99}.items():
        (folder / f"{name}.onnx").write_bytes(b"x" * size)
    monkeypatch.setattr(admission, "MOST_UNTRUSTED", 20)
    (read,) = [each for each in arena.add(str(folder)) if each.player == "a"]
    assert "cannot be loaded" in read.refusal and [each.name for each in arena.players] == ["a"]
    with pytest.raises(ValueError, match="its file is gone"):
        arena.store.file(arena.players[0].version)
    reports = {each.player: each.refusal for each in arena.refresh()}
    assert reports.keys() == {"b@1.onnx", "c.onnx"}, "the folder is known"
    assert "got 'b@1'" in reports["b@1.onnx"] and "it has 99 bytes" in reports["c.onnx"]
    assert {each.player for each in arena.check(str(folder))} == {"a", "b@1.onnx", "c.onnx"}


@pytest.mark.slow
def test_a_fighter_of_another_game_is_refused(models: Path, tmp_path: Path) -> None:
    made = Arena.create(tmp_path / "duel", Challenge(name="duel", game=GAME))
    (report,) = made.add(str(models / "archer.fighter"))
    made.close()
    assert "was trained in another game" in report.refusal


def test_strangers_stay_out_where_walls_are_missing(
    arena: Arena, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "missing_walls", lambda: ("take away its network",))
    (report,) = arena.add(str(models / "archer.fighter"))
    assert "files of strangers are not played here" in report.refusal and "network" in report.refusal
    (report,) = arena.add(str(models / "younger.fighter"), trusted=True)
    assert not report.refusal
    monkeypatch.undo()
    assert not arena.add(str(models / "archer.fighter"))[0].refusal
    monkeypatch.setattr(arena_module, "missing_walls", lambda: ("take away its network",))
    with pytest.raises(ValueError, match="archer is a stranger's file"):
        arena.run_once()


@pytest.mark.slow
def test_the_hub_by_tag(hub: Hub, models: Path, tmp_path: Path) -> None:
    entry: Any = {"tags": ["nh-open"]}
    made = Arena.create(tmp_path / "arena", Challenge(name="nh", game="NhEnv", max_ticks=TICKS, entry=entry))
    with pytest.raises(SystemExit) as exit_info:
        main(["arena", "push", str(made.folder), str(models / "archer.fighter"), "ann/archer"])
    assert exit_info.value.code in (0, None)
    card = b"---\ntags:\n- nh-open\n---\n"
    hub.add("bob/two", {"a.fighter": b"1", "b.fighter": b"2", "README.md": card})
    hub.add("eve/zip", {"a.zip": b"PK", "README.md": card})
    hub.add("eve/other", {"a.fighter": (models / "younger.fighter").read_bytes(), "README.md": b""})
    (report,) = made.add("hub:nh-open")
    assert not report.refusal and report.player.startswith("ann+archer+")
    assert made.refresh() == [], "a commit that is known is not loaded again"
    hub.repositories["ann/archer"].branches["main"]["archer.fighter"] = (models / "younger.fighter").read_bytes()
    (report,) = made.refresh()
    assert not report.refusal and len(made.store.players("active")) == 2, "every commit is a player of its own"
    hub.failing["/api/models"] = 500
    (report,) = made.refresh()
    assert "cannot be read" in report.refusal
    made.close()


@pytest.mark.slow
def test_a_run_is_trained_for_a_challenge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    entry: Any = {"algorithms": ["maskable_ppo"], "budget": 512}
    start: Any = {"accountBuild": "MED"}
    made = Arena.create("arena", Challenge(name="c", game="NhEnv", max_ticks=TICKS, entry=entry, reset_params=start))
    tiny = ["-params", "n_envs:4", "n_steps:64", "batch_size:64", "n_epochs:1", "--eval-freq", "-1"]
    zoo.train(["--challenge", "arena", "--seed", "1", *tiny])
    run = Path("logs/maskable_ppo/NhEnv_1")
    (report,) = made.add(str(run / "NhEnv.zip"), owner="ann", trusted=True)
    assert not report.refusal
    (player,) = made.players
    assert player.facts["steps"] == 512 and player.facts["hyperparameters"]["n_steps"] == 64
    for arguments, words in (
        (["--env", "DharokEnv"], "is played in NhEnv"),
        (["-n", "1024"], "more than the budget"),
        (["--algo", "ppo"], "may not enter"),
    ):
        with pytest.raises(SystemExit):
            zoo.train(["--challenge", "arena", *arguments, *tiny])
        assert words in capsys.readouterr().err
    made.close()


def test_a_name_is_no_folder(arena: Arena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scripted").mkdir()
    (report,) = arena.add("scripted")
    assert report.player == "scripted" and not report.refusal
    assert arena.add("./scripted") == []


@pytest.mark.slow
def test_a_game_in_the_working_directory_is_found_behind_the_walls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_duel.py").write_text((Path(__file__).parent / "duel.py").read_text())
    made = Arena.create(tmp_path / "arena", Challenge(name="own", game="own_duel:Duel", scripts=("level-3", "level-9")))
    assert {each.state for each in made.players} == {"active"}
    made.close()
    sys.modules.pop("own_duel")
