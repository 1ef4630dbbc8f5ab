"""Training, evaluating, continuing and watching through rl-zoo3, in a world that refuses illegal actions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import yaml
from stable_baselines3.common.monitor import load_results
from strict_env import StrictEnv

from sb3_pvp import zoo
from tests.paths import ROOT

TINY = ["-params", "n_envs:4", "n_steps:64", "batch_size:64", "n_epochs:1"]
NH = ["--algo", "maskable_ppo", "--env", "NhEnv"]


def test_only_legal_actions_are_sent(strict: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    zoo.train(
        [*NH, "-n", "256", "--eval-freq", "128", "--eval-episodes", "2", "--n-eval-envs", "2", "--seed", "1", *TINY]
    )
    run = tmp_path / "logs/maskable_ppo/NhEnv_1"
    assert set(strict) == {4, 2}, "both training (4 fights) and evaluation (2 fights) have run"
    assert np.load(run / "evaluations.npz")["timesteps"].tolist() == [128, 256]
    strict.clear()
    zoo.enjoy([*NH, "-f", "logs", "-n", "50", "--no-render"])
    zoo.enjoy([*NH, "-f", "logs", "-n", "50", "--no-render", "--stochastic"])
    assert strict == [1] * 100
    zoo.train([*NH, "-n", "256", "--eval-freq", "-1", "-i", str(run / "NhEnv.zip"), *TINY])
    assert (tmp_path / "logs/maskable_ppo/NhEnv_2/NhEnv.zip").is_file()


@pytest.mark.slow
def test_the_second_game_is_played_in_one_world_as_well(strict: list[int], tmp_path: Path) -> None:
    game = ["--algo", "maskable_ppo", "--env", "DharokEnv"]
    options = ["-n", "256", "--eval-freq", "128", "--eval-episodes", "2", "--n-eval-envs", "2", "-f", str(tmp_path)]
    zoo.train([*game, *options, "--seed", "1", *TINY])
    assert set(strict) == {4, 2}
    model = zoo_model(tmp_path / "maskable_ppo/DharokEnv_1/DharokEnv.zip")
    assert model.policy.contract.name == "DharokEnv"
    strict.clear()
    zoo.enjoy([*game, "-f", str(tmp_path), "-n", "20", "--no-render"])
    assert strict == [1] * 20


@pytest.mark.slow
def test_the_training_script_with_its_options(tmp_path: Path) -> None:
    options = ["-n", "2000", "-P", "--seed", "7", "--save-freq", "1024", "--eval-freq", "1024", "--eval-episodes", "2"]
    options += ["--tensorboard-log", "tb", "--num-threads", "1", "--env-kwargs", "reset_params:{'accountBuild':'MED'}"]
    command = [sys.executable, str(ROOT / "scripts" / "train.py"), *NH, *options, *TINY]
    subprocess.run(command, cwd=tmp_path, env=_environment(), check=True, capture_output=True, text=True)
    run = tmp_path / "logs/maskable_ppo/NhEnv_1"
    names = {path.name for path in run.iterdir()}
    assert names >= {
        "initial_model.zip",
        "rl_model_1024_steps.zip",
        "best_model.zip",
        "NhEnv.zip",
        "evaluations.npz",
        "0.monitor.csv",
    }
    assert list((tmp_path / "tb").rglob("events.*"))
    assert len(list(run.glob("*monitor.csv"))) == 1 and load_results(str(run))["l"].sum() > 1000
    arguments = yaml.load((run / "NhEnv/args.yml").read_text(), Loader=yaml.UnsafeLoader)
    assert arguments["seed"] == 7
    assert arguments["env_kwargs"] == {"reset_params": {"accountBuild": "MED"}}
    config = dict(yaml.load((run / "NhEnv/config.yml").read_text(), Loader=yaml.UnsafeLoader))
    assert config["n_envs"] == 4
    assert config["policy"] == "sb3_pvp.policies.AutoregressivePolicy"


def test_our_defaults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zoo.train(["-n", "256", "--eval-freq", "256", "-f", str(tmp_path), *TINY, "env_kwargs.max_episode_ticks:8"])
    evaluations = np.load(tmp_path / "maskable_ppo/NhEnv_1/evaluations.npz")
    assert evaluations["results"].shape == (1, 64), "enough fights to compare models"
    zoo.train(["-n", "64", "--env", "CartPole-v1", "--algo", "ppo", "--eval-freq", "32", "-f", str(tmp_path)])
    assert np.load(tmp_path / "ppo/CartPole-v1_1/evaluations.npz")["results"].shape[1] == 5
    with pytest.raises(SystemExit):
        zoo.train(["--help"])
    output = capsys.readouterr().out
    assert "usage: sb3-pvp train " in output and "import sb3_pvp.zoo.custom_envs" in output


@pytest.mark.parametrize(
    ("options", "actors"),
    [([], "auto"), (["--actors", "0"], 0), pytest.param(["--actors", "1"], 1, marks=pytest.mark.slow)],
)
def test_the_number_of_actors(
    options: list[str], actors: int | str, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    zoo.train([*NH, "-n", "256", "--eval-freq", "256", "--eval-episodes", "1", "-f", str(tmp_path), *options, *TINY])
    assert zoo_model(tmp_path / "maskable_ppo/NhEnv_1/NhEnv.zip").actors == actors
    assert not [each for each in recwarn if "not of the same type" in str(each.message)]


def test_the_same_seed_trains_the_same_model(tmp_path: Path) -> None:
    weights = []
    for folder in ("one", "two"):
        zoo.train([*NH, "-n", "256", "--eval-freq", "-1", "--seed", "3", "-f", str(tmp_path / folder), *TINY])
        model = zoo_model(tmp_path / folder / "maskable_ppo/NhEnv_1/NhEnv.zip")
        weights.append(model.policy.value_net.weight.detach().numpy())
    assert np.array_equal(*weights)


def zoo_model(path: Path) -> Any:
    from sb3_contrib import MaskablePPO

    return MaskablePPO.load(path, device="cpu")


@pytest.mark.slow
def test_worker_processes_get_legal_actions_only(tmp_path: Path) -> None:
    # An illegal action would end a worker, and with it the training.
    options = ["-n", "512", "-P", "--seed", "1", "--vec-env", "subproc", "--eval-freq", "256", "--eval-episodes", "1"]
    strict = ["env_wrapper:'strict_env.StrictEnv'"]
    command = [sys.executable, "-m", "sb3_pvp.zoo", "train", *NH, *options, "-f", str(tmp_path), *TINY, *strict]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests/zoo")])}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    assert (tmp_path / "maskable_ppo/NhEnv_1/NhEnv.zip").is_file()


@pytest.mark.slow
def test_a_strict_worker_notices_an_illegal_action() -> None:
    env = StrictEnv(gym.make("NhEnv"))
    env.reset(seed=1)
    closed = np.flatnonzero(~env.action_masks()[: env.action_space.nvec[0]])
    with pytest.raises(AssertionError, match="illegal"):
        env.step(np.array([closed[0], *[0] * (len(env.action_space.nvec) - 1)]))


@pytest.mark.slow
def test_an_environment_that_fails_in_its_process_ends_the_training_with_one_line(tmp_path: Path) -> None:
    options = ["--algo", "ppo", "--env", "CartPole-v1", "--vec-env", "subproc", "--eval-freq", "-1", "--seed", "0"]
    options += ["-f", str(tmp_path), "-params", "n_envs:2", "n_steps:64", "env_wrapper:'raising.RaisingEnv'"]
    command = [sys.executable, "-m", "sb3_pvp.zoo", "train", *options]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests/zoo")])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "train: error: the process of an environment has ended" in done.stderr
    assert (tmp_path / "ppo/CartPole-v1_1/interrupted_model.zip").is_file()


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}
