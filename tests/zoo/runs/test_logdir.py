"""`--logdir DIR`: one folder, one run; the same command goes on, and its lines of JSON have each step once."""

from __future__ import annotations

import json
import multiprocessing
import random
import time
from pathlib import Path

import pytest

from sb3_pvp import zoo
from sb3_pvp.callbacks.metric_lines import METRICS
from sb3_pvp.zoo.manager import PvpExperimentManager
from sb3_pvp.zoo.runs.resume import running

QUIET = ["--seed", "1", "--eval-freq", "-1", "--verbose", "0", "--log-interval", "1", "--num-threads", "1"]
SMALL = "policy_kwargs:dict(net_arch=[8])"
DREAMER = "n_envs:2 rollout_steps:32 batch_size:2 batch_length:8 train_ratio:8 imag_last:2 policy:'MlpPolicy'"
#: For each algorithm a small run: its environment and settings, and how many steps a rollout has, after which it logs.
#: Without actors, each of which would take seconds to start.
RUNS = {
    "ppo": (["--env", "CartPole-v1", "-params", "n_envs:2", "n_steps:32", "batch_size:32"], 64),
    "maskable_ppo": (
        ["--actors", "0", "-params", "n_envs:4", "n_steps:16", "batch_size:64", SMALL],
        64,
    ),
    "mapoca": (
        ["--env", "SoccerTwos-v0", "--actors", "0", "-params", "n_envs:4", "n_steps:16", "batch_size:64", SMALL],
        64,
    ),
    "dreamerv3": (
        ["--env", "CartPole-v1", "-params", *DREAMER.split(), "policy_kwargs:dict(size='debug')"],
        0,  # at the end of episodes
    ),
}


def train(folder: Path, steps: int, algorithm: str = "ppo", *more: str) -> None:
    zoo.train([*command(folder, steps, algorithm), *more])


def command(folder: Path, steps: int, algorithm: str) -> list[str]:
    return ["--algo", algorithm, *QUIET, "-n", str(steps), "--logdir", str(folder), *RUNS[algorithm][0]]


def steps_in(folder: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (folder / METRICS).read_text().splitlines()]


def refusal(capsys: pytest.CaptureFixture[str], folder: Path, steps: int, *more: str) -> str:
    with pytest.raises(SystemExit, match="2"):
        train(folder, steps, "ppo", *more)
    return capsys.readouterr().err


def test_the_same_command_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "runs/cartpole"
    train(folder, 192)
    assert (folder / "CartPole-v1.zip").is_file() and steps_in(folder) == [64, 128, 192]
    began = (folder / METRICS).read_bytes()
    assert "has finished its 192 steps: set more with -n" in refusal(capsys, folder, 192)
    train(folder, 320)
    assert steps_in(folder) == [64, 128, 192, 256, 320] and (folder / METRICS).read_bytes().startswith(began)
    assert "n_steps: 32 -> 16): use those, or start a new" in refusal(capsys, folder, 999, "n_steps:16")
    with running(folder):
        assert "another process is training" in refusal(capsys, folder, 999)
    assert steps_in(folder) == [64, 128, 192, 256, 320], "what is refused changes nothing"


def test_where_there_is_no_run_or_no_checkpoint_it_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    train(tmp_path / "empty", 64)
    for each in (tmp_path / "empty/checkpoints").iterdir():
        each.unlink()
    model = (tmp_path / "empty/CartPole-v1.zip").read_bytes()
    assert "has a model, and no checkpoints" in refusal(capsys, tmp_path / "empty", 128)
    assert (tmp_path / "empty/CartPole-v1.zip").read_bytes() == model and steps_in(tmp_path / "empty") == [64]
    (tmp_path / "empty/CartPole-v1.zip").unlink()  # as if it had been killed before the first checkpoint
    with pytest.raises(TypeError):
        train(tmp_path / "empty", 128, "ppo", "batch_size:'x'")
    assert steps_in(tmp_path / "empty") == [64], "what was there before stays"
    train(tmp_path / "empty", 128)
    assert steps_in(tmp_path / "empty") == [64, 128]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    assert "has other files, and no run of CartPole-v1" in refusal(capsys, tmp_path / "mine", 64)
    assert [each.name for each in (tmp_path / "mine").iterdir()] == ["notes.txt"]
    assert "leave out --resume" in refusal(capsys, tmp_path / "new", 64, "--resume")
    train(tmp_path / "{timestamp}", 64)
    (made,) = tmp_path.glob("20*T*")
    assert steps_in(made) == [64]


def test_a_kill_before_there_are_settings_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(BaseException):  # noqa: B017
        patch.setattr(PvpExperimentManager, "_save_config", killed)
        patch.setattr("shutil.rmtree", lambda *_, **__: None)  # as SIGKILL leaves it
        train(tmp_path / "run", 64)
    assert [*(tmp_path / "run").iterdir()] and not [*(tmp_path / "run").glob("*/config.yml")]
    train(tmp_path / "run", 64)
    assert steps_in(tmp_path / "run") == [64]


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", RUNS)
def test_a_run_that_is_killed_at_ten_moments_has_each_step_once(tmp_path: Path, algorithm: str) -> None:
    # Ten processes would spend most of their time on imports and on loading the rules: they are forked of this one.
    train(tmp_path / "first", 64, algorithm)
    folder, drawn, reached, fork = tmp_path / "run", random.Random(0), 0, multiprocessing.get_context("fork")
    for _ in range(10):
        process = fork.Process(target=zoo.train, args=[command(folder, 10**7, algorithm)])
        process.start()
        goal = reached + drawn.randint(1, 250)
        while (steps_in_part(folder) or [0])[-1] < goal:
            assert process.is_alive(), f"ended with code {process.exitcode} before step {goal}"
            time.sleep(0.05 * drawn.random())
        process.kill()
        process.join()
        reached = steps_in_part(folder)[-1]
    train(folder, reached + 250, algorithm)
    steps = steps_in(folder)
    assert steps == sorted({*steps}) and steps[-1] > reached
    if rollout := RUNS[algorithm][1]:
        assert steps == list(range(rollout, steps[-1] + 1, rollout))


def steps_in_part(folder: Path) -> list[int]:
    """Returns the steps of lines that are whole: another process is writing."""
    path = folder / METRICS
    lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
    return [json.loads(line)["step"] for line in lines]
