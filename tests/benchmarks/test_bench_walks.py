from __future__ import annotations

import json

import pytest

from benchmarks.__main__ import main
from benchmarks.walks import walking
from sb3_pvp.common.names import require_known


def test_walks_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["walks", "--no-train", "--json"])
    assert exit_info.value.code == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["case"] for row in rows] == ["snapshot -> opponent's act", "step_async -> observation"]
    for row in rows:
        assert row["files"] == len(row["walked"]) <= row["switches"]
        assert "envs/vec_env.py" in row["walked"]


def test_a_walk_ends_where_it_is_told_to_and_imports_are_no_part_of_it() -> None:
    def stop() -> None:
        raise AssertionError("nobody comes here")

    with walking(last="stop") as files:
        require_known("letter", "a", "abc")
        import sb3_pvp.games.osrs.cli.rsps  # noqa: F401

        stop()
    assert files == ["common/names.py"]
