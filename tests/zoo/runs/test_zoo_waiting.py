"""A run that waits for its evaluations: the model is saved before, and Ctrl-C ends the wait at once."""

from __future__ import annotations

import csv
import json
import shlex
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from sb3_pvp import PvpPPO, zoo
from sb3_pvp.callbacks import evaluations
from sb3_pvp.cli import main
from sb3_pvp.common.waiting import waiting
from sb3_pvp.zoo.runs.resume import UNFINISHED

ROLLOUT = 8 * 16
PRESET = """
NhEnv:
  import: [NhEnv]
  n_envs: 8
  n_steps: 16
  batch_size: 64
  n_epochs: 1
  policy_kwargs: { net_arch: [8] }
  env_kwargs: { max_episode_ticks: 12 }
  callback:
    - sb3_pvp.callbacks.WinRateEvalCallback: { eval_freq: 2, n_eval_episodes: 4, background: true }
"""


class Pool:
    """In place of worker processes: does its jobs when somebody waits for them."""

    #: What to do when somebody waits.
    when_waited_for: Callable[[], None] = staticmethod(lambda: None)
    jobs: ClassVar[dict[Future[Any], Callable[[], None]]] = {}

    def __init__(self, size: int, kind: str) -> None:
        pass

    def submit(self, function: Any, *args: Any, each: Any) -> Future[Any]:
        future = Future[Any]()

        def work() -> None:
            for item in function(*args):
                each(item)
            future.set_result(None)

        Pool.jobs[future] = work
        return future

    def close(self) -> None:
        pass


def wait_for(future: Future[Any], *_: object) -> None:
    """In place of a wait for a worker process."""
    with waiting():
        Pool.when_waited_for()
        Pool.jobs.pop(future)()


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Pool]]:
    monkeypatch.setattr(evaluations, "WorkerPool", Pool)
    monkeypatch.setattr(Pool, "when_waited_for", lambda: None)
    monkeypatch.setattr(evaluations, "wait_for", wait_for)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
    yield Pool
    signal.signal(signal.SIGINT, before)


def train(folder: Path, rollouts: int, *more: str) -> Path:
    (folder / "run.yml").write_text(PRESET)
    options = ["-f", str(folder), "-n", str(rollouts * ROLLOUT), "--seed", "1", "--eval-freq", "-1", "--verbose", "0"]
    zoo.train(["--preset", str(folder / "run.yml"), *options, *more])
    return folder / "maskable_ppo/NhEnv_1"


def state_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["runs", str(folder), "--json"])
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    return str(run["state"])


def evaluated(run: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((run / "win_rates.csv").read_text().splitlines()))


def weights(file: Path) -> dict[str, Any]:
    return {name: each.numpy() for name, each in PvpPPO.load(file).policy.state_dict().items()}


def stop_at(pool: type[Pool], wait: int, look: Callable[[], None] = lambda: None) -> None:
    """Sends one Ctrl-C during the wait with this number, from 1."""
    waits = 0

    def stop() -> None:
        nonlocal waits
        waits += 1
        if waits == wait:
            look()
            signal.raise_signal(signal.SIGINT)
            pytest.fail("it waits on")

    pool.when_waited_for = staticmethod(stop)


@pytest.mark.parametrize(("wait", "rollouts"), [(1, 2), (2, 4), (3, 5)])
def test_one_ctrl_c_ends_a_wait_and_nothing_is_lost(
    wait: int, rollouts: int, pool: type[Pool], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    whole = train(tmp_path / "whole", 5)
    assert [row["rollouts"] for row in evaluated(whole)] == ["0", "2", "4", "5"]
    stop_at(pool, wait)
    with pytest.raises(SystemExit) as raised:
        train(tmp_path / "cut", 5)
    line = capsys.readouterr().err.splitlines()[-1]
    assert raised.value.code == 130
    assert f"resume after {rollouts * ROLLOUT} steps with" in line
    assert state_of(tmp_path / "cut", capsys) == "resumable"
    pool.when_waited_for = staticmethod(lambda: None)
    zoo.train(shlex.split(line.partition(" with: ")[2])[2:])
    cut = tmp_path / "cut/maskable_ppo/NhEnv_1"
    assert evaluated(cut) == evaluated(whole)
    mine, yours = weights(whole / "NhEnv.zip"), weights(cut / "NhEnv.zip")
    assert all(np.array_equal(mine[name], yours[name]) for name in mine)
    assert state_of(tmp_path / "cut", capsys) == "finished"


def test_one_ctrl_c_also_ends_an_evaluation_in_this_process(
    pool: type[Pool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(f"{__name__}.PRESET", PRESET.replace("background: true", "background: false"))
    fights = 0

    def show(lines: evaluations.ProgressLines, done: int) -> None:
        nonlocal fights
        fights += 1
        if fights == 6:  # of the evaluation after two rollouts
            signal.raise_signal(signal.SIGINT)
            pytest.fail("it fights on")

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(evaluations.ProgressLines, "show", show)
        train(tmp_path, 3)
    assert f"resume after {2 * ROLLOUT} steps with" in capsys.readouterr().err.splitlines()[-1]
    run = train(tmp_path, 3, "--resume")
    assert [row["rollouts"] for row in evaluated(run)] == ["0", "2", "3"]


def test_the_model_is_saved_before_anything_is_waited_for(
    pool: type[Pool], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, seen = tmp_path / "maskable_ppo/NhEnv_1", []

    def look() -> None:
        seen.extend([PvpPPO.load(run / "NhEnv.zip").num_timesteps, (run / UNFINISHED).is_file()])

    stop_at(pool, 2, look)
    with pytest.raises(SystemExit):
        train(tmp_path, 3)
    assert seen == [3 * ROLLOUT, True]


def test_a_run_that_was_killed_while_it_waited_resumes_with_its_evaluation(
    pool: type[Pool], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Killed(BaseException):
        pass

    def kill() -> None:
        raise Killed

    run = tmp_path / "maskable_ppo/NhEnv_1"
    waits = iter([lambda: None, lambda: None, kill])
    pool.when_waited_for = staticmethod(lambda: next(waits)())
    with pytest.raises(Killed):
        train(tmp_path, 3, "--resume")  # which saves checkpoints
    assert [row["rollouts"] for row in evaluated(run)] == ["0", "2"]
    assert state_of(tmp_path, capsys) == "resumable"
    pool.when_waited_for = staticmethod(lambda: None)
    train(tmp_path, 3, "--resume")
    assert [row["rollouts"] for row in evaluated(run)] == ["0", "2", "3"]
    assert state_of(tmp_path, capsys) == "finished"
    with pytest.raises(SystemExit):
        train(tmp_path, 3, "--resume")
    assert "has finished its 384 steps" in capsys.readouterr().err
