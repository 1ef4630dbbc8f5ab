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
        alone = [file for file in row["walked"] if not file.startswith("games/")]
        assert len(alone) >= row["plug-in files"] <= row["plug-in switches"] < row["switches"]
        assert "envs/vec_env.py" in row["walked"]


def test_a_walk_ends_at_the_named_function_and_leaves_out_imports() -> None:
    def stop() -> None:
        raise AssertionError("the walk has ended before")

    with walking(last="stop") as walk:
        require_known("letter", "a", "abc")
        import sb3_pvp.games.osrs.cli.rsps  # noqa: F401

        stop()
    assert walk == (["common/names.py"], ["common/names.py"])


def test_what_a_game_calls_is_not_the_plug_in_s() -> None:
    from sb3_pvp.games.osrs.sim import SimWorld

    world = SimWorld(1)
    with walking() as walk:
        world.reset([0])
        require_known("letter", "a", "abc")
    assert {"game/contract/turn.py", "games/osrs/sim/world.py"} < set(walk.files)
    assert walk.plugin == ["common/names.py"]
