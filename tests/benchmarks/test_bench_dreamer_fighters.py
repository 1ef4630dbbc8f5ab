"""Runs of DreamerV3 fighters are made in parts, and become a table and a picture."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from benchmarks import dreamer_fighters
from benchmarks.__main__ import main
from benchmarks.dreamer_fighters import LINES, TRIALS, Trial, read_runs, table
from sb3_pvp import DreamerV3

TINY = {"batch_size": 2, "batch_length": 4, "train_ratio": 1.0, "rollout_steps": 10, "policy_kwargs": {"size": "debug"}}


def call(*arguments: object) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["dreamer_fighters", *map(str, arguments)])
    assert ended.value.code == 0


@pytest.mark.slow
def test_a_run_goes_on_where_its_last_part_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dreamer_fighters, "EVALUATED", 2)
    trial = Trial(120, 40, 2, TINY)
    monkeypatch.setitem(TRIALS, "dreamer", replace(trial, ticks=60))
    call("run", "dreamer:0", "--out", tmp_path)
    monkeypatch.setitem(TRIALS, "dreamer", trial)
    call("run", "dreamer:0", "--out", tmp_path)
    (lines,) = read_runs(tmp_path).values()
    assert [line["ticks"] for line in lines] == [0, 40, 80]
    assert [line["updates"] > 0 for line in lines] == [False, True, True]
    assert 0 <= lines[-1]["world_model/illegal"] <= 1 and lines[-1]["updates"] > lines[1]["updates"]
    monkeypatch.setitem(TRIALS, "change-recent", Trial(40, 20, 2, {"recent": 0.25}, then="scripted"))
    call("run", "change-recent:0", "--out", tmp_path)
    (lines, _) = read_runs(tmp_path).values()
    assert [line["ticks"] for line in lines] == [80, 100]
    assert all(line["baseline"][1] >= 2 <= line["scripted"][1] and "scripted/return" in line for line in lines)
    model = DreamerV3.load(tmp_path / "change-recent-0/model.zip")
    assert (model.recent, model.replay_folder) == (0.25, str(tmp_path / "change-recent-0/replay"))
    call("draw", tmp_path, "--out", tmp_path / "curves.png")
    assert "| change-recent, 0 |" in capsys.readouterr().out and imread(tmp_path / "curves.png").std() > 0
    call("legal", tmp_path / "change-recent-0/model.zip", "--decisions", "6400")
    assert "0 of 6,400 actions were illegal" in capsys.readouterr().out
    monkeypatch.setattr(DreamerV3, "predict", lambda self, seen, *others, **more: (np.ones((64, 12), np.int64), None))
    call("legal", tmp_path / "change-recent-0/model.zip", "--decisions", "128")
    assert "128 of 128 actions were illegal" in capsys.readouterr().out


def test_levels_are_reached_at_the_first_evaluation_with_so_many_wins(tmp_path: Path) -> None:
    common = {"trial": "dreamer", "seed": 1, "cpu_s": 3.0, "updates": 7}
    wins = {0: 20, 10: 51, 20: 49, 30: 85}
    texts = [json.dumps({**common, "ticks": ticks, "baseline": [count, 100]}) for ticks, count in wins.items()]
    (tmp_path / LINES).write_text("\n".join([*texts, texts[1]]) + "\n")
    assert "| dreamer, 1 | 10 | 30 | not yet | 85.0% (76.7% to 90.7%) | 30 | 7 | 3 |" in table(read_runs(tmp_path))
