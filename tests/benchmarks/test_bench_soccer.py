from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import main


def bench(capsys: pytest.CaptureFixture[str], *options: str, code: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as exit_info:
        main(["soccer", "--pitches", "1,3", "--seconds", "0.05", *options])
    output = capsys.readouterr()
    assert exit_info.value.code == code, output.err
    return output.out, output.err


@pytest.mark.slow
def test_json_has_speeds_and_all_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(bench(capsys, "--games", "3", "--json")[0])["rows"]
    assert [row["n"] for row in rows[:2]] == [1, 3]
    for row in rows[:2]:
        assert row["agent_steps"] % (4 * row["n"]) == 0 and row["agent_steps_per_core_s"] > 0
    assert len(rows[2:]) == 6 and rows[2]["case"] == "positional against striker"
    for row in rows[2:]:
        assert row["won"] + row["lost"] + row["time_limit"] == row["n"] == 3


@pytest.mark.slow
def test_a_player_of_one_s_own_plays_all_others(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(bench(capsys, "--seconds", "0", "--games", "1", "--player", "noop", "--json")[0])["rows"]
    assert len([row for row in rows if row["case"].startswith("noop against")]) == 4


def test_other_libraries_that_are_not_there_are_left_out_in_a_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out, err = bench(capsys, "--games", "0", "--peers", str(tmp_path / "python"))
    assert "mpe2 is left out: " in err and "vmas is left out: " in err and err.count("\n") == 2
    assert "3 pitches" in out


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_other_libraries_are_rows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    python = tmp_path / "python"
    found = {"case": "theirs", "n": 7, "agent_steps": 70, "cpu": 0.5, "wall": 0.6}
    python.write_text(f"#!/bin/sh\necho '{json.dumps(found)}'\n")
    python.chmod(0o755)
    rows = json.loads(bench(capsys, "--games", "0", "--peers", str(python), "--json")[0])["rows"]
    assert [row["agent_steps_per_core_s"] for row in rows if row["case"] == "theirs"] == [140.0, 140.0]
