"""Worlds that fail in the process of their environment: one line, whenever it happens, and no traceback."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from raising import LostWorld

from sb3_pvp import zoo
from sb3_pvp.common.errors import Refusal
from sb3_pvp.game import WorldError
from sb3_pvp.zoo.worker_vec_env import ENDED, WorkerVecEnv
from tests.paths import ROOT


def lost(at: str, error: str = "WorldError") -> gym.Env[Any, Any]:
    return LostWorld(gym.make("CartPole-v1"), at, error)


def die() -> gym.Env[Any, Any]:
    os._exit(3)


def play(*made: Any) -> None:
    """Plays a few steps in processes, of which none is left."""
    env = None
    try:
        env = WorkerVecEnv([*made], start_method="fork")  # by default they print to where others did before
        env.seed(2)
        env.reset()
        for _ in range(9):
            env.step(np.zeros(len(made), np.int64))
    finally:
        if env is not None:
            env.close()
        assert not multiprocessing.active_children()


@pytest.mark.parametrize("at", ["make", "reset", "step"])
def test_what_a_world_says_is_raised_by_the_parent(at: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(WorldError, match="^the world is gone$"):
        play(partial(lost, ""), partial(lost, at))
    assert capfd.readouterr().err == ""


def test_what_prevents_an_environment_is_a_refusal(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Refusal, match="^the world is gone$"):
        play(partial(lost, "make", "ValueError"))
    assert capfd.readouterr().err == ""


def test_mistakes_in_programs_keep_their_tracebacks(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(WorldError) as raised:
        play(partial(lost, "make", "TypeError"))
    error = capfd.readouterr().err
    assert str(raised.value) == ENDED and "Traceback" in error and "TypeError: the world" in error


def test_a_process_that_ends_without_a_word() -> None:
    with pytest.raises(WorldError) as raised:
        play(die, die)
    assert str(raised.value) == ENDED


@pytest.mark.parametrize("vec_env", ["subproc", "dummy"])
@pytest.mark.parametrize("at", ["make", "reset", "step"])
def test_a_training_ends_with_one_line(
    at: str, vec_env: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = ["--algo", "ppo", "--env", "CartPole-v1", "--vec-env", vec_env, "--eval-freq", "-1", "--seed", "0"]
    wrapper = f"env_wrapper:{{'raising.LostWorld': {{'at': '{at}'}}}}"
    with pytest.raises(SystemExit) as ended:
        zoo.train([*options, "-f", str(tmp_path), "-params", "n_envs:2", "n_steps:64", wrapper])
    (line,) = capfd.readouterr().err.splitlines()
    assert ended.value.code == 1 and line.startswith("train: error: the world is gone")
    model = tmp_path / "ppo/CartPole-v1_1/interrupted_model.zip"
    assert model.is_file() == line.endswith(f"; the model so far was saved as {model}") == (at != "make")
    assert (tmp_path / "ppo").exists() == (at != "make")


@pytest.mark.slow
@pytest.mark.parametrize("vec_env", ["subproc", "dummy"])
def test_without_xvfb_it_is_one_line(vec_env: str, tmp_path: Path) -> None:
    for name in ("mss", "Xlib"):
        pytest.importorskip(name)
    words = f"train --preset ScreenGalaga --vec-env {vec_env} -n 10 --logdir {tmp_path}/run"
    done = subprocess.run(
        [sys.executable, "-m", "sb3_pvp.cli", *words.split()],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PATH": str(tmp_path)},
    )
    line = "train: error: there is no program Xvfb: apt-get install xvfb\n"
    assert (done.returncode, done.stderr) == (1, line) and not (tmp_path / "run").exists()
