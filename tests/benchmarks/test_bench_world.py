from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import world as bench_world
from benchmarks.__main__ import main

KEYS = {"case", "n", "agent_steps", "cpu_s", "wall_s", "agent_steps_per_core_s"}


def bench(*options: str) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["world", "--fights", "1,3", "--seconds", "0.05", *options])
    assert exit_info.value.code == 0


def test_json_has_the_promised_keys(capsys: pytest.CaptureFixture[str]) -> None:
    bench("--no-start", "--json")
    result = json.loads(capsys.readouterr().out)
    assert result["bench"] == "world"
    assert {"sb3_pvp", "numba", "numpy", "python"} <= result["versions"].keys()
    assert [row["n"] for row in result["rows"]] == [1, 3, 3, 3]
    assert result["rows"][3]["control"] == result["rows"][2]["case"] == "NhVecEnv" and result["rows"][3]["ratio"] > 0
    for row in result["rows"][:2]:
        assert row.keys() >= KEYS | {"bytes_per_fight"}
        assert row["agent_steps"] % (2 * row["n"]) == 0
        assert row["agent_steps_per_core_s"] == pytest.approx(row["agent_steps"] / row["cpu_s"])
        assert row["cpu_s"] >= 0.05
        assert row["bytes_per_fight"] > 1000


def test_start_up_is_measured_in_fresh_processes_that_share_an_empty_cache(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # In place of the real program, which compiles for most of a minute.
    program = (
        "import os, pathlib\n"
        "cached = pathlib.Path(os.environ['NUMBA_CACHE_DIR'], 'machine_code')\n"
        f"print('warm' if cached.exists() else 'cold', file=open({str(tmp_path / 'log')!r}, 'a'))\n"
        "cached.touch()\n"
    )
    monkeypatch.setattr(bench_world, "_FIRST_TICK", program)
    bench("--json")
    rows = json.loads(capsys.readouterr().out)["rows"][4:]
    assert [row["case"] for row in rows] == ["cold start", "warm start"]
    assert all(row.keys() >= KEYS and row["cpu_s"] > 0 for row in rows)
    assert (tmp_path / "log").read_text().split() == ["cold", "warm"]


def test_the_table_has_a_line_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    bench("--no-start")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["case", "n"]
    assert len(lines) == 5
