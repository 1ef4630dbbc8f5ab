from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch as th

from sb3_pvp import import_upstream, load
from sb3_pvp.cli import main
from tests.paths import DATA
from tests.zoo.imports.upstream_files import Original

CHECKPOINT = DATA / "upstream" / "small.zip"


def run(*arguments: str | Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit_info:
        main([*map(str, arguments)])
    printed = capsys.readouterr()
    return int(exit_info.value.code or 0), printed.out, printed.err


def test_an_imported_fighter_plays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fighter = tmp_path / "fighter.zip"
    code, out, _ = run("import-upstream", CHECKPOINT, "-o", fighter, capsys=capsys)
    assert code == 0 and "a fighter for NhEnv, trained for 3,840 steps" in out
    assert f"sb3-pvp evaluate {fighter}" in out and "note" not in out
    code, out, _ = run("evaluate", fighter, "--opponent", "noop", "--episodes", 4, "--json", capsys=capsys)
    result: Any = json.loads(out)
    assert code == 0 and (result["wins"], result["game"]) == (4, "NhEnv")
    assert result["start"]["randomizeGear"] is True


def test_the_result_may_be_a_fighter_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fighter = tmp_path / "fighter.fighter"
    assert run("import-upstream", CHECKPOINT, "-o", fighter, capsys=capsys)[0] == 0
    imported, loaded = import_upstream(CHECKPOINT), load(fighter)
    for name, part in imported.policy.state_dict().items():
        assert th.equal(part, loaded.policy.state_dict()[name])


def test_notes_say_what_is_different(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = Original(frames=2).save(tmp_path / "checkpoint.zip", extensions=[{"name": "memory", "params": {}}])
    arguments = ("import-upstream", checkpoint, "-o", tmp_path / "fighter.zip", "--json")
    code, out, _ = run(*arguments, capsys=capsys)
    result = json.loads(out)
    assert code == 0 and (result["game"], result["steps"], result["frame_ages"]) == ("DharokEnv", 1280, [0, 1])
    mixed, left_out = result["notes"]
    assert "mixed up the features" in mixed and "'memory' is left out" in left_out


def test_what_cannot_be_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "missing.zip"
    for output, message in (
        ("fighter.zip", f"There is no model file {missing}"),
        ("fighter", "must end in .zip or .fighter"),
    ):
        code, _, error = run("import-upstream", missing, "-o", tmp_path / output, capsys=capsys)
        assert code == 2 and message in error and "may be a bug" not in error
    (tmp_path / "text.zip").write_text("no zip")
    code, _, error = run("import-upstream", tmp_path / "text.zip", "-o", tmp_path / "fighter.zip", capsys=capsys)
    assert code == 2 and "is not a zip" in error and not (tmp_path / "fighter.zip").exists()
