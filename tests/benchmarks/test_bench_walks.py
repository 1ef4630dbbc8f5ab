from __future__ import annotations

import json
import subprocess
import sys

import pytest

from benchmarks.walks import LIMITS, is_too_long, walking
from sb3_pvp.common.errors import require_known
from tests.paths import ROOT


@pytest.mark.slow
@pytest.mark.parametrize("more", [["--no-train"], []], ids=["short", "all"])
def test_no_walk_is_longer_than_a_reader_can_follow(more: list[str]) -> None:
    # In a process of its own: there is more to see where nothing has been loaded before.
    command = [sys.executable, "-m", "benchmarks", "walks", "--json", *more]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    rows = json.loads(done.stdout.splitlines()[-1])["rows"]
    assert [row["case"] for row in rows] == [*LIMITS][len(more) :]  # `learn` is the end of the first one
    too_long = [(row["case"], row["files"], row["switches"], row["walked"]) for row in rows if is_too_long(row)]
    assert not too_long
    assert done.returncode == 0
    for row in rows:
        assert row["files"] == len(row["walked"]) <= row["switches"]
        alone = [file for file in row["walked"] if not file.startswith("games/")]
        assert len(alone) >= row["plug-in files"] <= row["plug-in switches"] <= row["switches"]


def test_a_walk_may_be_too_long() -> None:
    row = {"case": "snapshot -> opponent's act", "files": 24, "switches": 120}
    assert not is_too_long(row)
    assert is_too_long(row | {"files": 25}) and is_too_long(row | {"switches": 121})


def test_a_walk_ends_at_the_named_function_and_leaves_out_imports() -> None:
    def stop() -> None:
        raise AssertionError("the walk has ended before")

    with walking(last="stop") as walk:
        require_known("letter", "a", "abc")
        import sb3_pvp.games.osrs.cli.rsps  # noqa: F401

        stop()
    assert walk == (["common/errors.py"], ["common/errors.py"])


def test_what_a_game_calls_is_not_the_plug_in_s() -> None:
    from sb3_pvp.games.osrs.sim import SimWorld

    world = SimWorld(1)
    with walking() as walk:
        world.reset([0])
        require_known("letter", "a", "abc")
    assert {"game/contract/turn.py", "games/osrs/sim/world.py"} < set(walk.files)
    assert walk.plugin == ["common/errors.py"]
