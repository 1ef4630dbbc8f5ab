"""``sb3-pvp demonstrate``, ``imitate`` and ``likeness``: one command from a folder to a fighter."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from benchmarks.matrix_games import WITH_A_WELL
from sb3_pvp import load
from sb3_pvp.cli import main

GAME = ["--game", "benchmarks.matrix_games:WITH_A_WELL"]


def command(capsys: pytest.CaptureFixture[str], *arguments: Any, code: int = 0) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    output = capsys.readouterr()
    assert ended.value.code == code, output.err
    return output.err if code else output.out


@pytest.mark.slow
def test_from_a_folder_to_a_fighter_to_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown, clone = tmp_path / "shown", tmp_path / "clone.zip"
    command(capsys, "demonstrate", "champion", "-o", shown, "--fights", 400, "--opponent", "champion", *GAME)
    assert len([*shown.glob("*.npz")]) == 400
    (shown / "broken.npz").write_bytes(b"none")
    options = "--opponent", "champion", "--epochs", 3, *GAME
    kwargs = "--policy-kwargs", '{"net_arch": [16]}'
    found = json.loads(command(capsys, "imitate", shown, "-o", clone, *options, *kwargs, "--json"))
    assert found["fights"] == 400 and len(found["refused"]) == 1 and "broken.npz" in found["refused"][0]
    assert found["after"]["log_likelihood"] > found["before"]["log_likelihood"]
    assert load(clone).policy.action_net is not None
    picture = tmp_path / "likeness.png"
    text = command(capsys, "likeness", clone, shown, "--picture", picture, "--opponent", "champion", *GAME)
    assert "told apart in" in text and picture.read_bytes().startswith(b"\x89PNG")
    assert "left out: " in text and WITH_A_WELL.name


@pytest.mark.parametrize(("script", "game"), [("scripted", []), ("champion", GAME)])
def test_the_clone_may_be_a_fighter_file(
    script: str, game: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = tmp_path / "shown"
    text = command(capsys, "demonstrate", script, "-o", shown, "--fights", 4, *game)
    assert shlex.join(["sb3-pvp", "imitate", str(shown), *game]) in text
    clone, small = tmp_path / "clone.fighter", ("--policy-kwargs", '{"net_arch": [16]}', "--epochs", 1)
    text = command(capsys, "imitate", shown, "-o", clone, *small, *game)
    assert shlex.join(["sb3-pvp", "likeness", str(clone), str(shown), *game]) in text
    assert load(clone, safe=True).policy.action_net is not None
    picture = tmp_path / "likeness.png"
    text = command(capsys, "likeness", clone, shown, "--picture", picture, *game)
    assert "of what is surprising in the demonstrations is foretold" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["imitate", "EMPTY"], "holds no demonstrations"),
        (["imitate", "EMPTY", "-o", "clone.onnx"], "--output must end in .zip or .fighter, such as clone.zip"),
        (["imitate", "nobody.zip"], "There is no model file nobody.zip"),
        (["likeness", "generalist", "EMPTY"], "holds no demonstrations"),
        (["demonstrate", "baseline"], "nobody knows what baseline sees"),
        (["imitate", "scripted", "--policy-kwargs", "3"], "--policy-kwargs must be a JSON object"),
    ],
)
def test_what_is_impossible_is_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "EMPTY").mkdir()
    assert message in command(capsys, *arguments, code=2)
