from __future__ import annotations

import argparse
import importlib
import inspect
import re
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import pytest
import rl_zoo3
import rl_zoo3.train
import torch
from rl_zoo3 import exp_manager
from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_pvp import zoo
from sb3_pvp.algorithms import presets as hyperparams
from sb3_pvp.algorithms.ppo import PvpPPO
from sb3_pvp.common.errors import Refusal
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.zoo import front_ends
from sb3_pvp.zoo.manager import PvpExperimentManager, WorkerVecEnv
from tests.paths import ROOT


def manager(folder: Path, env_id: str = "NhEnv", algo: str = "maskable_ppo", **keywords: Any) -> PvpExperimentManager:
    zoo.install()
    return PvpExperimentManager(
        Namespace(num_threads=keywords.pop("num_threads", -1)), algo, env_id, str(folder), **keywords
    )


def test_installing_twice_changes_nothing_more() -> None:
    zoo.install()
    algorithms, experiment_manager = dict(rl_zoo3.ALGOS), rl_zoo3.train.ExperimentManager
    zoo.install()
    assert algorithms == rl_zoo3.ALGOS
    assert algorithms["maskable_ppo"] is PvpPPO
    assert rl_zoo3.train.ExperimentManager is experiment_manager is PvpExperimentManager
    assert PvpExperimentManager.__mro__.count(PvpExperimentManager) == 1


def test_defaults_are_found_in_a_checkout_and_in_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zoo.hyperparams_path("maskable_ppo")
    assert path is not None
    assert "NhEnv" in path.read_text()
    assert zoo.hyperparams_path("no_such_algorithm") is None
    (tmp_path / "hyperparams").mkdir()
    packaged = tmp_path / "hyperparams" / "maskable_ppo.yml"
    packaged.write_text("NhEnv: {}")
    monkeypatch.setattr(hyperparams, "_FOLDERS", (tmp_path / "hyperparams", path.parent))
    assert zoo.hyperparams_path("maskable_ppo") == packaged


def test_our_defaults_are_for_our_environments_and_yield_to_a_given_file(tmp_path: Path) -> None:
    assert manager(tmp_path).config == str(zoo.hyperparams_path("maskable_ppo"))
    assert manager(tmp_path, config="mine.yml").config == "mine.yml"
    assert "rl_zoo3" in manager(tmp_path, "CartPole-v1", "ppo").config


@pytest.mark.parametrize(
    ("env_id", "vec_env", "expected"),
    [
        ("NhEnv", "dummy", PvpVecEnv),
        ("NhEnv", "subproc", WorkerVecEnv),
        ("CartPole-v1", "dummy", DummyVecEnv),
        ("CartPole-v1", "subproc", WorkerVecEnv),
    ],
)
def test_vec_env_classes(tmp_path: Path, env_id: str, vec_env: str, expected: type) -> None:
    assert manager(tmp_path, env_id, "ppo", vec_env_type=vec_env).vec_env_class is expected


def test_one_torch_thread_by_default(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)  # what rl-zoo3 does for --num-threads 2
        manager(tmp_path, num_threads=2)
        assert torch.get_num_threads() == 2
        manager(tmp_path)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("algo", "expected"), [("maskable_ppo", MaskableEvalCallback), ("ppo", EvalCallback)])
def test_evaluation_respects_masks_where_the_algorithm_knows_them(tmp_path: Path, algo: str, expected: type) -> None:
    experiment = manager(tmp_path, algo=algo, eval_freq=10, verbose=0)
    experiment.create_callbacks()
    assert type(experiment.callbacks[-1]) is expected
    assert exp_manager.EvalCallback is EvalCallback


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"n_timesteps": 400_000, "eval_freq": None}, 25_000),
        ({"n_timesteps": 30_000_000, "eval_freq": None}, 300_000),
        ({"n_timesteps": 30_000_000, "eval_freq": 0}, 0),
        ({"n_timesteps": 30_000_000}, 10_000),  # the default of rl-zoo3's manager
        ({"n_timesteps": 30_000_000, "eval_freq": None, "env_id": "CartPole-v1", "algo": "ppo"}, 25_000),
        ({"eval_freq": None, "env_id": "Screen-v0", "config": "hyperparams/ScreenGalaga.yml"}, -1),  # by the clock
        ({"eval_freq": 40_000, "env_id": "Screen-v0", "config": "hyperparams/ScreenGalaga.yml"}, 40_000),
    ],
)
def test_evaluations_do_not_take_longer_than_training(tmp_path: Path, given: dict[str, Any], expected: int) -> None:
    if "config" in given:
        given = {**given, "config": str(ROOT / given["config"])}
    experiment = manager(tmp_path, verbose=0, **given)
    experiment.read_hyperparameters()
    assert experiment.eval_freq == expected


@pytest.mark.parametrize(("algo", "expected"), [("ppo", True), ("dreamerv3", False)])
def test_a_world_model_is_evaluated_as_it_plays(tmp_path: Path, algo: str, expected: bool) -> None:
    assert manager(tmp_path, "CartPole-v1", algo).deterministic_eval is expected


def test_env_kwargs_of_the_yaml_reach_the_evaluation(tmp_path: Path) -> None:
    settings = {"n_timesteps": 1, "env_kwargs": {"opponent": "noop"}}
    experiment = manager(tmp_path, verbose=0)
    experiment._preprocess_hyperparams(dict(settings))
    assert experiment.create_envs(1, eval_env=True).get_attr("settings")[0].opponent == "noop"
    experiment = manager(tmp_path, verbose=0, eval_env_kwargs={"opponent": "scripted"})
    experiment._preprocess_hyperparams(dict(settings))
    assert experiment.create_envs(1, eval_env=True).get_attr("settings")[0].opponent == "scripted"
    assert experiment.create_envs(1).get_attr("settings")[0].opponent == "noop"


def test_a_run_that_cannot_begin_removes_its_own_folder_only(tmp_path: Path) -> None:
    experiment = manager(tmp_path / "logs", verbose=0, hyperparams={"gama": 1})
    taken = tmp_path / "logs/maskable_ppo/NhEnv_1"  # meanwhile, by another process
    taken.mkdir(parents=True)
    with pytest.raises(Refusal, match="gama"):
        experiment.setup_experiment()
    experiment = manager(tmp_path / "logs", verbose=0, hyperparams={"env_kwargs.opponent": "nobody"})
    with pytest.raises(Refusal, match="nobody"):
        experiment.setup_experiment()
    assert [*taken.parent.iterdir()] == [taken]


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (["trian"], "unknown command 'trian' (did you mean 'train'?). Known: "),
        ([], "no command given. Known: train, enjoy, record_video"),
    ],
)
def test_an_unknown_command_is_one_line_and_exit_code_2(command: list[str], error: str) -> None:
    run = subprocess.run([sys.executable, "-m", "sb3_pvp.zoo", *command], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith(f"python -m sb3_pvp.zoo: error: {error}") and run.stderr.count("\n") == 1


def test_importing_the_commands_imports_none_of_what_they_need() -> None:
    heavy = "torch", "rl_zoo3", "optuna", "wandb", "stable_baselines3"
    check = f"import sys, sb3_pvp.zoo; sys.exit(len({{*sys.modules}} & {{*{heavy}}}))"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", "import rl_zoo3.train, rl_zoo3.enjoy; "])
def test_our_own_commands_work_beside_the_line_for_those_of_rl_zoo3(before: str, tmp_path: Path) -> None:
    (tmp_path / "custom_envs.py").write_text("import sb3_pvp.zoo.custom_envs\n")
    check = (
        f"{before}from sb3_pvp.zoo import install; install(); import rl_zoo3.train, rl_zoo3.enjoy; "
        "assert rl_zoo3.train.ExperimentManager.__name__ == 'PvpExperimentManager'; "
        "assert rl_zoo3.enjoy.get_model_path.__module__.startswith('sb3_pvp.')"
    )
    run = subprocess.run([sys.executable, "-c", check], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("name", ["train", "enjoy"])
def test_the_options_are_those_of_rl_zoo3(name: str) -> None:
    zoo.install()
    module, seen = importlib.import_module(f"rl_zoo3.{name}"), ArgumentParser.parse_args
    parser = front_ends._stock_parser(name)
    options = {option for action in parser._actions for option in action.option_strings}
    source = inspect.getsource(getattr(module, name))
    assert options - {"-h", "--help"} == set(re.findall(r'"(--?[A-Za-z][\w-]*)"[,)]', source))
    assert module.argparse is argparse and ArgumentParser.parse_args is seen, "nothing is left behind"


def test_a_broken_installation_is_no_import_error(monkeypatch: pytest.MonkeyPatch) -> None:
    # rl-zoo3 would leave a custom_envs.py with an ImportError out, and say nothing.
    monkeypatch.setitem(sys.modules, "sb3_pvp.zoo.manager", None)
    with pytest.raises(RuntimeError, match="cannot be installed into rl-zoo3: .*sb3_pvp.zoo.manager"):
        zoo.install()
    monkeypatch.delitem(sys.modules, "sb3_pvp.zoo.custom_envs", raising=False)
    with pytest.raises(RuntimeError, match="cannot be installed"):
        importlib.import_module("sb3_pvp.zoo.custom_envs")


def test_ids_with_a_version_name_the_same_runs_and_hyperparameters() -> None:
    given = ["--env", "NhEnv-v0", "--env=DharokEnv-v0", "-f", "NhEnv-v0", "--env", "SoccerTwos-v0"]
    expected = ["--env", "NhEnv", "--env=DharokEnv", "-f", "NhEnv-v0", "--env", "SoccerTwos-v0"]
    assert front_ends._with_plain_ids(given) == expected
