"""Sweeps in several processes, of which some die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState

from sb3_pvp.common.errors import Refusal
from sb3_pvp.common.worker_pool import WorkerDied, WorkerPool
from sb3_pvp.zoo.sweeps.study import SEED, best_configuration
from tests.paths import ROOT
from tests.zoo.sweeps.postgres_server import postgres_server, require_postgres
from tests.zoo.sweeps.tiny_sweeps import STEPS, arguments, retrain, run_sweep, study_in

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
FILES = {"journal": "{}/sweep.log", "sqlite": "sqlite:///{}/sweep.db"}


def test_a_sweep_ends_in_one_line_if_workers_die(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def die(*args: Any) -> Iterator[str]:
        yield "Trial 0: 0.5"
        raise WorkerDied("a worker process has died")

    monkeypatch.setattr(WorkerPool, "stream", die)
    monkeypatch.setattr("sb3_pvp.zoo.sweeps.sweep.num_cores", lambda: 3)
    with pytest.raises(SystemExit, match="1"):
        run_sweep(tmp_path, 2)
    output = capsys.readouterr()
    assert output.err == "train: error: a worker process has died\n"
    assert "Trials in 2 processes" in output.out, "by default one for each core"


def wait_until(condition: Callable[[], bool], processes: list[Any]) -> None:
    deadline = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < deadline
        assert any(process.poll() is None for process in processes)
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["journal", "sqlite", "postgresql"])
def test_a_sweep_survives_the_death_of_a_process(kind: str, tmp_path: Path) -> None:
    if kind == "postgresql":
        require_postgres()
        with postgres_server() as url:
            sweep_of_which_one_process_dies(url, tmp_path)
    else:
        sweep_of_which_one_process_dies(FILES[kind].format(tmp_path), tmp_path)


def sweep_of_which_one_process_dies(name: str, tmp_path: Path) -> None:
    # One trial at a time in each process, and long enough for both to take part.
    given = ["--storage", name, "--seed", "3", "--num-threads", "1", "--n-jobs", "1", "-n", str(20 * STEPS)]
    command = [sys.executable, str(ROOT / "scripts/train.py"), *arguments(tmp_path, 20, *given)]

    def start() -> Any:
        return subprocess.Popen(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)})

    def states() -> list[TrialState]:
        try:
            return [trial.state for trial in study_in(name).trials]
        except Refusal:  # it does not exist yet
            return []

    processes = [start(), start()]
    wait_until(lambda: sum(state in FINISHED for state in states()) >= 5, processes)
    wait_until(lambda: states().count(TrialState.RUNNING) == 2, processes)
    processes[0].send_signal(signal.SIGKILL)
    processes[0].wait()
    processes[0] = start()
    assert [process.wait(600) for process in processes] == [0, 0]
    study = study_in(name)
    finished = [trial for trial in study.trials if trial.state in FINISHED]
    assert len(finished) == 20
    assert len({str(sorted(trial.params.items())) for trial in finished}) == 20
    failed = [trial for trial in study.trials if trial.state is TrialState.FAIL]
    assert len(failed) == len(study.trials) - 20 <= 1
    assert all(any(trial.params.items() <= other.params.items() for other in finished) for trial in failed)
    for number in (0, study.best_trial.number):
        trial = study.trials[number]
        (file := tmp_path / f"trial_{number}.yml").write_text(best_configuration(study, number, STEPS)[1])
        again = ["-conf", str(file), "--seed", str(trial.user_attrs[SEED])]
        _, config = retrain(tmp_path / f"again_{number}", *again)
        assert config["n_steps"] == trial.params["n_steps"]
