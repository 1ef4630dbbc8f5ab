"""The table of grids: a training that is stopped goes on exactly, and what is there is not made again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.games.lanes.cli import grid_table
from sb3_pvp.policies.files.model_files import load


class Stopped(Exception):
    """Stands for a signal."""


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Makes runs tiny, and steps of the environments the seconds of the clock."""
    counted, step = [0], PvpVecEnv.step_wait

    def count(env: PvpVecEnv) -> Any:
        counted[0] += 1
        return step(env)

    monkeypatch.setattr(PvpVecEnv, "step_wait", count)
    monkeypatch.setattr(grid_table.time, "process_time", lambda: float(counted[0]))
    monkeypatch.setattr(grid_table, "_ROWS", 4)
    monkeypatch.setattr(grid_table, "_KEEP_EVERY", 2)
    small = {"n_steps": 15, "batch_size": 30, "policy_kwargs": {"net_arch": [8]}}
    monkeypatch.setattr(grid_table, "_SETTINGS", grid_table._SETTINGS | small)
    return counted


@pytest.mark.slow
def test_a_stopped_training_of_a_grid_goes_on_exactly(tmp_path: Path, steps: list[int]) -> None:
    def stop(said: str) -> None:
        if "120 steps" in said:  # after two rollouts; it is kept already
            raise Stopped

    asked = [4], 1, 1.5, "guardian", 4
    whole = grid_table.grid_rows(tmp_path / "whole", *asked, None)
    with pytest.raises(Stopped):
        grid_table.grid_rows(tmp_path / "parts", *asked, stop)
    assert grid_table.grid_rows(tmp_path / "parts", *asked, None) == whole
    assert whole[0]["env_steps"] == 360 and whole[0]["cpu_minutes"] == 1.5
    one, two = (load(tmp_path / each / "tile4-seed0-guardian.zip").policy.state_dict() for each in ("whole", "parts"))
    assert one.keys() == two.keys() and all((one[name] == two[name]).all() for name in one)
    before = steps[0]
    assert grid_table.grid_rows(tmp_path / "whole", *asked, None) == whole and steps[0] == before
    grid_table.draw_grids(tmp_path / "grid.png", whole, "guardian")
    assert (tmp_path / "grid.png").stat().st_size > 10_000
