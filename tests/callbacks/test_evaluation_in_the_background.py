"""Evaluation in a worker process, while the training goes on."""

from __future__ import annotations

import csv
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from logged import remember

from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import LeagueCallback, WinRateEvalCallback, evaluations
from sb3_pvp.common.waiting import WaitedTooLong
from sb3_pvp.common.worker_pool import WorkerDied
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy

ROLLOUT = 4 * 8
FIGHTS: dict[str, Any] = {"max_episode_ticks": 30}


def new_model(folder: Path) -> PvpPPO:
    settings: dict[str, Any] = {"n_steps": 8, "batch_size": 32, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}}
    model = PvpPPO(AutoregressivePolicy, NhVecEnv(4, opponent="noop", **FIGHTS), device="cpu", seed=1, **settings)
    model.run_folder = folder
    return model


def rows_of(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "win_rates.csv").read_text().splitlines()))


class LatePool:
    """In place of a pool: jobs are done in this process, when somebody waits for them."""

    submitted: int = 0
    jobs: ClassVar[dict[Future[Any], Callable[[], None]]] = {}

    def __init__(self, size: int, kind: str) -> None:
        assert (size, kind) == (1, "evaluation")

    def submit(self, function: Any, *args: Any, each: Any) -> Future[Any]:
        future = Future[Any]()

        def work() -> None:
            try:
                for item in function(*args):
                    each(item)
                future.set_result(None)
            except WorkerDied as error:
                future.set_exception(error)

        LatePool.jobs[future] = work
        LatePool.submitted += 1
        return future

    def close(self) -> None:
        pass


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluations, "WorkerPool", LatePool)
    monkeypatch.setattr(LatePool, "submitted", 0)
    monkeypatch.setattr(evaluations, "wait_for", lambda future, *_: LatePool.jobs.pop(future)())


@pytest.mark.slow
def test_results_and_training_are_the_same_as_without(tmp_path: Path) -> None:
    weights, tables = [], []
    for background in (True, False):
        model = new_model(tmp_path / str(background))
        memory = remember(model)
        opponents = ["noop", "scripted", "main@0"]
        evaluation = WinRateEvalCallback(opponents, eval_freq=2, n_eval_episodes=5, n_envs=3, background=background)
        model.learn(5 * ROLLOUT, callback=[LeagueCallback(), evaluation])
        weights.append([tensor.numpy() for tensor in model.policy.state_dict().values()])
        tables.append(rows_of(tmp_path / str(background)))
        logged = [dump["eval/scripted/win_rate"] for dump in memory.dumps if "eval/scripted/win_rate" in dump]
        assert logged[-1] == float(tables[-1][-2]["win_rate"])
    assert tables[0] == tables[1]
    assert [int(row["rollouts"]) for row in tables[0] if row["opponent"] == "noop"] == [0, 2, 4, 5]
    assert [int(row["steps"]) for row in tables[0] if row["opponent"] == "noop"] == [0, 64, 128, 160]
    assert all(map(np.array_equal, *weights))


@pytest.mark.usefixtures("late")
@pytest.mark.parametrize("cores", [1, 2])
def test_a_run_resumes_with_the_evaluation_that_was_under_way(
    tmp_path: Path, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluations, "num_cores", lambda: 2)

    def learn(model: Any, rollouts: int) -> None:
        evaluation = WinRateEvalCallback(["scripted"], eval_freq=3, n_eval_episodes=4)
        model.learn(rollouts * ROLLOUT, callback=evaluation, reset_num_timesteps=False)

    whole = new_model(tmp_path / "whole")
    remember(whole)
    learn(whole, 6)

    class Killed(Exception):
        pass

    class KilledModel(PvpPPO):
        def train(self) -> None:
            super().train()
            if self.trained_rollouts == 5:
                raise Killed

    killed = new_model(tmp_path / "killed")
    killed.__class__ = KilledModel
    remember(killed)
    saved = tmp_path / "checkpoint.zip"
    monkeypatch.setattr(KilledModel, "collect_rollouts", _saving(saved))
    with pytest.raises(Killed):
        learn(killed, 6)
    assert [row["rollouts"] for row in rows_of(tmp_path / "killed")] == ["0"], "that of rollout 3 was under way"
    monkeypatch.setattr(evaluations, "num_cores", lambda: cores)  # the machine may be another one
    again = PvpPPO.load(saved, env=new_model(tmp_path).get_env())
    again.run_folder = tmp_path / "killed"
    remember(again)
    assert again.trained_rollouts == 4
    learn(again, 1)  # the rollout that was begun, and another one
    assert rows_of(tmp_path / "killed") == rows_of(tmp_path / "whole")


def _saving(path: Path, rollouts: int = 4) -> Any:
    """Saves a checkpoint after so many rollouts and a step."""
    original = PvpPPO.collect_rollouts

    def collect(model: Any, env: Any, callback: Any, *args: Any, **kwargs: Any) -> bool:
        step = callback.on_step

        def on_step() -> bool:
            if model.trained_rollouts == rollouts:
                model.save(path)
            return bool(step())

        callback.on_step = on_step
        try:
            return original(model, env, callback, *args, **kwargs)
        finally:
            del callback.on_step

    return collect


@pytest.mark.usefixtures("late")
def test_a_worker_that_dies_costs_no_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*args: Any) -> None:
        raise WorkerDied("a worker process has died")

    monkeypatch.setattr(evaluations, "play_elsewhere", die)
    with pytest.warns(RuntimeWarning, match="the evaluation after 0 steps is lost: a worker process has died"):
        new_model(tmp_path).learn(2 * ROLLOUT, callback=WinRateEvalCallback("noop", 2, background=True))


def test_one_that_hangs_does_not_keep_the_next_one_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pools = list[Any]()

    class Hung:
        def __init__(self, size: int, kind: str) -> None:
            pools.append(self)
            self.is_closed = False

        def submit(self, *args: Any, each: Any) -> Future[Any]:
            assert not self.is_closed
            return Future()

        def close(self) -> None:
            self.is_closed = True

    def too_long(*args: Any) -> None:
        raise WaitedTooLong("nothing has happened")

    monkeypatch.setattr(evaluations, "WorkerPool", Hung)
    monkeypatch.setattr(evaluations, "wait_for", too_long)
    with pytest.warns(RuntimeWarning, match="is lost: nothing has happened"):
        new_model(tmp_path).learn(3 * ROLLOUT, callback=WinRateEvalCallback("noop", 1, background=True))
    assert len(pools) == 4 and all(each.is_closed for each in pools)


@pytest.mark.slow
@pytest.mark.usefixtures("late")
def test_a_run_that_is_moved_has_its_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def learn(model: Any, rollouts: int) -> None:
        evaluation = WinRateEvalCallback(["noop", "main@0"], eval_freq=2, n_eval_episodes=4, background=True)
        model.learn(rollouts * ROLLOUT, callback=[LeagueCallback(), evaluation], reset_num_timesteps=False)

    monkeypatch.setattr(PvpPPO, "collect_rollouts", _saving(tmp_path / "first/checkpoint.zip", 3))
    model = new_model(tmp_path / "first")
    remember(model)
    learn(model, 4)
    (tmp_path / "first").rename(tmp_path / "second")
    again = PvpPPO.load(tmp_path / "second/checkpoint.zip", env=new_model(tmp_path).get_env())
    again.run_folder = tmp_path / "second"
    remember(again)
    before = [row for row in rows_of(tmp_path / "second") if row["rollouts"] == "2"]
    (tmp_path / "second/win_rates.csv").unlink()
    learn(again, 1)
    assert [row for row in rows_of(tmp_path / "second") if row["rollouts"] == "2"] == before


@pytest.mark.usefixtures("late")
def test_where_it_is_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluation = WinRateEvalCallback("noop", n_eval_episodes=2)
    new_model(tmp_path / "1").learn(ROLLOUT, callback=evaluation)
    assert LatePool.submitted == 0, "one core"
    monkeypatch.setattr(evaluations, "num_cores", lambda: 2)
    new_model(tmp_path / "2").learn(ROLLOUT, callback=evaluation)
    assert LatePool.submitted == 2, "at the start and at the end"
    evaluation = WinRateEvalCallback("noop", n_eval_episodes=2, env=NhVecEnv(2, **FIGHTS))
    new_model(tmp_path / "3").learn(ROLLOUT, callback=evaluation)
    assert LatePool.submitted == 2, "an environment cannot be sent to another process"
    with pytest.raises(ValueError, match="pass its arguments"):
        WinRateEvalCallback("noop", env=NhVecEnv(2), background=True)
    with pytest.raises(ValueError, match="background must be true, false or \"auto\", got 'maybe'"):
        WinRateEvalCallback("noop", background="maybe")
    with pytest.raises(ValueError, match="unknown opponent 'nop'.*did you mean 'noop'"):
        new_model(tmp_path / "4").learn(ROLLOUT, callback=WinRateEvalCallback("nop"))
