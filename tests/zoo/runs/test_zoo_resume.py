"""Stopped runs that are resumed with the same command."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sb3_pvp import zoo
from sb3_pvp.algorithms.ppo import PvpPPO
from sb3_pvp.cli import main
from sb3_pvp.envs.fights import Fights
from sb3_pvp.players.league import League
from sb3_pvp.zoo.runs.resume import (
    NEWEST,
    ResumeError,
    choose_run,
    is_over,
    is_whole,
    running,
    stopped_run,
    warn_if_inexact,
)
from tests.paths import DATA, ROOT

ROLLOUT = 20 * 16
SMALL = ["--preset", "HumanLike", "--seed", "1", "--eval-freq", "-1", "--verbose", "0", "--resume"]
SMALL += ["-params", "n_envs:20", "n_steps:16", "batch_size:64", "policy_kwargs:dict(net_arch=[8])"]


def run_in(folder: Path, number: int = 1) -> Path:
    return folder / f"maskable_ppo/NhEnv_{number}"


def train(folder: Path, rollouts: int, *more: str) -> Path:
    zoo.train([*SMALL[:-5], *more, "-f", str(folder), "-n", str(rollouts * ROLLOUT), *SMALL[-5:]])
    return run_in(folder)


def assert_same(runs: list[Path]) -> None:
    models = [PvpPPO.load(run / "NhEnv.zip") for run in runs]
    first, second = ([tensor.numpy() for tensor in model.policy.state_dict().values()] for model in models)
    assert all(map(np.array_equal, first, second))
    assert len({(model.num_timesteps, model.trained_rollouts, model.num_updates) for model in models}) == 1
    leagues = [League.existing(run / "league") for run in runs]
    assert leagues[0].players() == leagues[1].players()
    assert matches(leagues[0]) == matches(leagues[1])
    assert leagues[0].ratings().elo.ratings == leagues[1].ratings().elo.ratings
    assert leagues[1].recompute() == "identical"


def matches(league: League) -> list[tuple[Any, ...]]:
    records = league.log.records(counted_only=False)
    return [(each.player_a, each.player_b, each.outcome, each.ticks, each.key) for each in records]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never interrupted."""
    return train(tmp_path_factory.mktemp("whole"), 4)


def test_an_interrupted_run_resumes_exactly(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, step = 0, Fights.step

    def step_until_power_is_cut(fights: Fights, actions: Any) -> None:
        nonlocal steps
        steps += 1
        if steps > 2 * 16 + 7:
            raise RuntimeError("the power is cut")
        step(fights, actions)

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="power"):
        patch.setattr(Fights, "step", step_until_power_is_cut)
        train(tmp_path / "cut", 4, "--tensorboard-log", str(tmp_path / "tb"))
    before = (run_in(tmp_path / "cut") / "initial_model.zip").read_bytes()
    cut = train(tmp_path / "cut", 4, "--tensorboard-log", str(tmp_path / "tb"))
    assert_same([whole, cut])
    assert (cut / "initial_model.zip").read_bytes() == before
    assert [path.name for path in (tmp_path / "tb/NhEnv").iterdir()] == ["NhEnv_1_1"]
    assert not run_in(tmp_path / "cut", 2).exists()

    # It has all its steps: the same command says so, a greater number resumes it.
    with pytest.raises(SystemExit):
        train(tmp_path / "cut", 4)
    assert not run_in(tmp_path / "cut", 2).exists()
    assert PvpPPO.load(train(tmp_path / "cut", 5) / "NhEnv.zip").trained_rollouts == 5


def test_only_a_run_with_the_same_settings_is_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train(tmp_path, 2)
    zoo.train([*SMALL, "-f", str(tmp_path), "-n", str(3 * ROLLOUT), "--resume", str(run)])
    for params, rollouts, message in (
        (["gamma:0.5"], 3, "began with other hyperparameters"),
        ([], 3, "has finished its 960 steps: set more with -n"),
    ):
        with pytest.raises(SystemExit) as raised:
            zoo.train([*SMALL, *params, "-f", str(tmp_path), "-n", str(rollouts * ROLLOUT)])
        error = capsys.readouterr().err
        assert raised.value.code == 2 and error.count("\n") == 1 and not run_in(tmp_path, 2).exists()
        assert "no run can be resumed: the run in" in error and message in error, error
    with running(run), pytest.raises(SystemExit):
        zoo.train([*SMALL, "-f", str(tmp_path), "-n", str(4 * ROLLOUT)])
    assert "another process is training in" in capsys.readouterr().err
    with running(run), pytest.raises(SystemExit):
        zoo.train([*SMALL, "-f", str(tmp_path), "-n", str(3 * ROLLOUT), "--resume", str(run)])
    assert "another process is training in" in capsys.readouterr().err
    for folder, changes, message in (
        (tmp_path, [], "has no checkpoint to resume from"),
        (run, ["gamma:0.5"], "began with other hyperparameters"),
        (run, [], "has finished its 960 steps"),
    ):
        with pytest.raises(SystemExit) as raised:
            zoo.train([*SMALL, *changes, "-f", str(tmp_path), "-n", str(2 * ROLLOUT), "--resume", str(folder)])
        error = capsys.readouterr().err
        assert raised.value.code == 2 and error.startswith("train: error: ") and message in error, error


def test_any_run_can_be_resumed_with_its_evaluations(tmp_path: Path) -> None:
    tiny = ["--algo", "maskable_ppo", "--env", "NhEnv", "--resume", "--seed", "1", "--eval-freq", "64"]
    tiny += ["--eval-episodes", "1", "-f", str(tmp_path), "--verbose", "0"]
    for rollouts in (1, 2):
        zoo.train([*tiny, "-n", str(64 * rollouts), "-params", "n_envs:4", "n_steps:16", "batch_size:64"])
    run = run_in(tmp_path)
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["main_128_steps.zip", "main_64_steps.zip"]
    assert np.load(run / "evaluations.npz")["timesteps"].tolist() == [64, 128]


def test_a_damaged_checkpoint_is_skipped_with_a_warning(tmp_path: Path) -> None:
    run = train(tmp_path, 2)
    newest, older = (run / f"checkpoints/main_{rollouts * ROLLOUT}_steps.zip" for rollouts in (2, 1))
    content = newest.read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_inexact(stopped_run(run))  # type: ignore[arg-type]
    middle = len(content) // 2
    for damaged in (content[:1000], content[:middle] + bytes(100) + content[middle + 100 :]):
        newest.write_bytes(damaged)
        with pytest.warns(RuntimeWarning) as warned:
            found = stopped_run(run)
            assert found is not None and found.checkpoint == older
            warn_if_inexact(found)
        first, second = (str(each.message) for each in warned)
        assert first == f"Skipping {newest}: it is damaged (not a complete zip file)"
        assert second.startswith("Resuming with new episodes and a new optimiser, not exactly: ")
    with pytest.warns(RuntimeWarning, match="Skipping "):
        train(tmp_path, 3)
    assert PvpPPO.load(run / "NhEnv.zip").trained_rollouts == 3


def test_no_beginning_of_a_checkpoint_counts_as_whole(tmp_path: Path) -> None:
    """The weights in it are zip files themselves, which are found in a file that ends soon after them."""
    whole = (DATA / "second_edition/trained/maskable_ppo/NhEnv_1/checkpoints/main_3840_steps.zip").read_bytes()
    path, around = tmp_path / "main_0_steps.zip", re.finditer(b"PK\x05\x06", whole)
    ends = {place.start() + 22 + more for place in around for more in (0, 1, 50, 500)}
    for end in sorted({*ends, *range(0, len(whole), 997), len(whole) - 1}):
        path.write_bytes(whole[:end])
        assert is_whole(path) == (end >= len(whole)), end
    path.write_bytes(whole)
    assert is_whole(path)
    path.unlink()
    assert not is_whole(path)


TINY = ["--resume", "--seed", "1", "--eval-freq", "64", "--eval-episodes", "1", "--verbose", "0", "--actors", "0"]
TINY += ["-params", "n_envs:4", "n_steps:16", "batch_size:64"]


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log folder of a run of one rollout."""
    folder = tmp_path_factory.mktemp("short")
    zoo.train(["-f", str(folder), "-n", "64", *TINY])
    return folder


@pytest.mark.parametrize("share", [pytest.param(0, marks=pytest.mark.slow), 0.5])
@pytest.mark.parametrize("file", ["evaluations.npz", "NhEnv/args.yml", "initial_model.zip", "NhEnv.zip"])
def test_a_run_resumes_without_a_file_that_is_cut(file: str, share: float, short: Path, tmp_path: Path) -> None:
    path = run_in(shutil.copytree(short, tmp_path, dirs_exist_ok=True)) / file
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    # The model is not needed to resume, and half a list of arguments may be a whole one.
    is_noticed = file != "NhEnv.zip" and not (share and file == "NhEnv/args.yml")
    named = pytest.warns(RuntimeWarning, match=f"Skipping .*{file}: it is da") if is_noticed else nullcontext()
    with named:
        zoo.train(["-f", str(tmp_path), "-n", "128", *TINY])
    assert PvpPPO.load(run_in(tmp_path) / "NhEnv.zip").num_timesteps == 128 and not run_in(tmp_path, 2).exists()
    evaluated = np.load(run_in(tmp_path) / "evaluations.npz")["timesteps"].tolist()
    assert evaluated == ([128] if file == "evaluations.npz" else [64, 128])


def test_a_run_with_nothing_but_damage_names_it(tmp_path: Path) -> None:
    (tmp_path / "main_0_steps.zip").write_text("no zip")
    damaged = pytest.raises(ResumeError, match=r"no checkpoint to resume from \(.*main_0_steps.zip is damaged\)")
    with pytest.warns(RuntimeWarning, match="Skipping"), damaged:
        choose_run(str(tmp_path), tmp_path, "NhEnv", "", 100)


STOPS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize(("place", "numbers"), [(Fights, STOPS[:1]), (PvpPPO, STOPS[:1]), (Fights, STOPS[1:] * 2)])
def test_a_signal_to_stop_prints_the_command_to_resume(
    place: type,
    numbers: list[signal.Signals],
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also if several come at once, and again while the run is saved."""
    name, when = {Fights: ("step", 2 * 16 + 7), PvpPPO: ("train", 2)}[place]
    times, original = 0, getattr(place, name)
    save, saved = PvpPPO.save, list[str]()

    def interrupted(*arguments: Any) -> None:
        nonlocal times
        times += 1
        if times == when:
            for number in numbers:
                signal.raise_signal(number)
        original(*arguments)

    def save_under_fire(model: PvpPPO, path: Any, *arguments: Any, **keywords: Any) -> None:
        if times >= when and not Path(path).name.startswith("."):  # not that of the callback at the start of a rollout
            saved.append(Path(path).name)
            for number in STOPS:
                signal.raise_signal(number)
        save(model, path, *arguments, **keywords)

    arguments = ["-f", str(tmp_path / "cut"), "-n", str(4 * ROLLOUT)]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    others = [signal.getsignal(number) for number in STOPS[1:]]  # `nohup` ignores one
    try:
        with monkeypatch.context() as patch, pytest.raises(SystemExit) as raised:
            patch.setattr(place, name, interrupted)
            patch.setattr(PvpPPO, "save", save_under_fire)
            zoo.train([*SMALL[:-6], "--resume", *arguments, *SMALL[-5:]])
    finally:
        signal.signal(signal.SIGINT, before)
    assert saved == [f"main_{2 * ROLLOUT}_steps.zip", "NhEnv"]
    assert [signal.getsignal(number) for number in STOPS[1:]] == others
    run, error = run_in(tmp_path / "cut"), capsys.readouterr().err
    assert raised.value.code == 130 and error.count("\n") == error.count("--resume") == 1
    assert error.startswith(f"train: stopped; resume after {2 * ROLLOUT} steps with: sb3-pvp train ")
    assert PvpPPO.load(run / "NhEnv.zip").num_timesteps == 2 * ROLLOUT
    zoo.train(shlex.split(error)[error.split().index("sb3-pvp") + 2 :])
    assert_same([whole, run])


def test_a_default_training_can_be_resumed_after_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = ["--eval-freq", "-1", "-f", str(tmp_path), "--verbose", "0", "-params", "n_envs:4", "n_steps:16"]
    with monkeypatch.context() as patch, pytest.raises(SystemExit) as raised:
        patch.setattr(Fights, "step", raises(KeyboardInterrupt))
        zoo.train([*tiny, "batch_size:64", "-n", "64"])
    assert raised.value.code == 130
    zoo.train([*tiny, "batch_size:64", "-n", "64", "--resume"])
    assert PvpPPO.load(run_in(tmp_path) / "NhEnv.zip").num_timesteps == 64 and not run_in(tmp_path, 2).exists()


def raises(error: type[BaseException]) -> Any:
    def raise_it(*arguments: Any) -> None:
        raise error

    return raise_it


def test_trainings_that_start_together_have_a_folder_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rl_zoo3.exp_manager.get_latest_run_id", lambda *_: 0)  # as when none has a folder yet
    for _ in range(2):
        zoo.train([*SMALL[:-6], "-f", str(tmp_path), "-n", str(ROLLOUT), *SMALL[-5:]])
    assert all((run_in(tmp_path, number) / "NhEnv.zip").is_file() for number in (1, 2))


def test_a_run_that_was_killed_before_its_model_was_saved_ends_when_it_is_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def state() -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit):
            main(["runs", str(tmp_path / "logs"), "--json"])
        return str(json.loads(capsys.readouterr().out)["runs"][0]["state"])

    run = train(tmp_path / "logs", 2)
    whole = Path(shutil.copytree(run, tmp_path / "whole"))
    shutil.copyfile(run / "initial_model.zip", run / "NhEnv.zip")
    assert state() == "resumable", "its model is older than the last checkpoint"
    (run / "NhEnv.zip").unlink()
    assert state() == "resumable"
    assert train(tmp_path / "logs", 2) == run and state() == "finished"
    assert_same([whole, run])


def test_a_run_is_not_over_while_its_model_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save, over = PvpPPO.save, list[bool]()

    def look(model: PvpPPO, path: Any, *arguments: Any, **keywords: Any) -> None:
        save(model, path, *arguments, **keywords)
        if Path(path).name == "NhEnv":  # which may be killed now
            over.append(is_over(run_in(tmp_path), "NhEnv", 2 * ROLLOUT))

    monkeypatch.setattr(PvpPPO, "save", look)
    run = train(tmp_path, 2)
    assert over == [False, True] and is_over(run, "NhEnv", 2 * ROLLOUT)  # rl-zoo3 saves the model again


@pytest.mark.slow
def test_a_killed_run_resumes_exactly(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts/train.py"), *SMALL, "-n", str(6 * ROLLOUT)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    killed = run_in(tmp_path / "killed")
    for steps in (2 * ROLLOUT, 4 * ROLLOUT):
        process = subprocess.Popen([*command, "-f", str(tmp_path / "killed")], env=environment)
        while not (killed / f"checkpoints/main_{steps}_steps.zip").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run([*command, "-f", str(tmp_path / "killed")], env=environment, check=True)
    assert_same([train(tmp_path / "whole", 6), killed])


def test_a_run_from_before_a_callback_was_renamed_is_found(tmp_path: Path) -> None:
    saved = DATA / "first_edition/trained/maskable_ppo/NhEnv_1"
    run = Path(shutil.copytree(saved, tmp_path / "NhEnv_1"))
    config = run / "NhEnv/config.yml"
    config.write_text(config.read_text().replace("callbacks.EloCallback", "exploiters.ExploiterCallback"))
    today = config.read_text().replace("exploiters.ExploiterCallback", "callbacks.ExploiterCallback")
    found = choose_run(NEWEST, tmp_path, "NhEnv", today, 10**9)
    assert found is not None and found.folder == run
