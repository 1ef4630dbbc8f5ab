"""Trials of a sweep as tasks of a Ray cluster."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState

from sb3_pvp.zoo.sweeps.ray_tasks import RayTasks
from tests.zoo.sweeps.tiny_sweeps import run_sweep, study_in


@pytest.mark.slow
def test_trials_run_in_the_cluster_on_one_study(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder_of_the_nodes = Path.cwd()
    monkeypatch.chdir(tmp_path)  # a relative path is that of the learner
    given = ["--storage", "sweep.log", "--seed", "5", "--pruner", "none", "--distribute"]
    run_sweep(tmp_path, 4, *given)
    assert "Trials in 2 processes" in capsys.readouterr().out
    trials = study_in(tmp_path / "sweep.log").trials
    assert [trial.state for trial in trials] == [TrialState.COMPLETE] * 4
    assert len({str(trial.params) for trial in trials}) == 4
    assert not (folder_of_the_nodes / "sweep.log").exists()
    monkeypatch.setattr(RayTasks, "num_machines", lambda self: 2)
    with pytest.raises(SystemExit, match="2"):
        run_sweep(tmp_path, 5, *given)
    assert "trials on several machines need a study in a database" in capsys.readouterr().err


def test_a_task_that_is_killed_is_begun_anew(cluster: Any, tmp_path: Path) -> None:
    def count(number: int) -> Iterator[int]:
        first = tmp_path / f"{number}"
        yield number
        if not first.exists():
            first.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield number + 10

    tasks = RayTasks(0.5)
    assert {*tasks.stream(count, [(1,), (2,)])} == {1, 2, 11, 12}
    tasks.close()
