"""``--track``: trainings that are followed in W&B, offline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import wandb
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sb3_pvp import zoo
from tests.paths import ROOT
from tests.zoo.runs.wandb_files import OfflineRun, read_runs, use_folder

ROLLOUT = 20 * 16
#: A preset that imports others.
OPTIONS = [
    "--preset",
    "HumanLike",
    "--seed",
    "1",
    "--eval-freq",
    str(ROLLOUT),
    "--eval-episodes",
    "1",
    "--verbose",
    "0",
]
OPTIONS += ["--env-kwargs", "max_episode_ticks:8", "--resume", "--track"]
SMALL = ["-params", "n_envs:20", "n_steps:16", "batch_size:64", "policy_kwargs:dict(net_arch=[8])"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with monkeypatch.context() as patch:
        use_folder(patch, tmp_path)
        patch.chdir(tmp_path)
        yield tmp_path
        wandb.teardown()


@pytest.mark.slow
def test_a_training_and_its_continuation_are_one_run(folder: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts/train.py"), *OPTIONS, "-n", str(2 * ROLLOUT), *SMALL]
    command += ["--wandb-project-name", "fights", "-tags", "tiny"]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True)
    run = folder / "logs/maskable_ppo/NhEnv_1"
    (first,) = read_runs(folder)
    assert json.loads((run / "wandb_run.json").read_text())["id"] == first.id
    check_config(first)
    check_metrics(first, run / "tensorboard/NhEnv_1_1", [ROLLOUT, 2 * ROLLOUT])
    final, best = (json.loads(first.artifact(alias).metadata) for alias in ("final", "best"))
    assert final["steps"] == 2 * ROLLOUT and best["steps"] in (ROLLOUT, 2 * ROLLOUT)
    assert {each.type for each in first.artifacts} == {"model", "leaderboard", "run_table"}
    assert first.exit_code == 0 and not (folder / "runs").exists()

    zoo.train([*OPTIONS, "-n", str(3 * ROLLOUT), *SMALL])
    _, second = read_runs(folder)
    assert (second.id, second.project) == (first.id, "fights")
    check_metrics(second, run / "tensorboard/NhEnv_1_1", [3 * ROLLOUT])
    assert json.loads(second.artifact("final").metadata)["steps"] == 3 * ROLLOUT
    assert [path.name for path in (run / "tensorboard").iterdir()] == ["NhEnv_1_1"]
    assert dict(yaml.load((run / "NhEnv/args.yml").read_text(), Loader=yaml.UnsafeLoader))["track"]


@pytest.mark.parametrize("password", ["s3cret", "any@s3cret"])
def test_a_password_is_in_no_file(folder: Path, capfd: pytest.CaptureFixture[str], password: str) -> None:
    """Nor is it in what is printed, where its study is out of reach."""
    study = ["--storage", f"postgresql://ann:{password}@127.0.0.1:9/x", "-optimize"]
    with pytest.raises(SystemExit):
        zoo.train([each for each in OPTIONS if each not in ("--resume", "--track")] + SMALL + study)
    printed = capfd.readouterr()
    assert "error: cannot open the storage postgresql://ann:***@127.0.0.1:9/x: " in printed.err
    assert "s3cret" not in printed.out + printed.err
    assert [path for path in folder.rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()] == []


def check_config(run: OfflineRun) -> None:
    config = run.config
    assert run.project == "fights" and config["preset"] == "HumanLike" and config["run_folder"] == "NhEnv_1"
    assert config["algo"] == "maskable_ppo" and config["env"] == "NhEnv" and config["seed"] == 1
    assert "scripts/train.py" in config["command"] and config["versions"]["torch"]
    hyperparams = config["saved_hyperparams"]
    assert hyperparams["n_steps"] == 16 and hyperparams["env_kwargs"] == {"max_episode_ticks": 8}
    assert hyperparams["ent_coef"]["type"] == "linear", "this is imported by the preset"


def check_metrics(run: OfflineRun, events: Path, steps: list[int]) -> None:
    """All that TensorBoard shows of these steps is there, nothing is there twice."""
    for metric in ("rollout/elo/latest", "rollout/open_skill/mu", "combat/distance", "eval/mean_reward"):
        assert run.steps(metric) == steps, metric
    accumulator = EventAccumulator(str(events))
    accumulator.Reload()
    for metric in accumulator.Tags()["scalars"]:
        shown = [event.step for event in accumulator.Scalars(metric) if event.step in steps]
        assert run.steps(metric) == shown, metric


def refused(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as error:
        zoo.train([*OPTIONS, "-n", str(ROLLOUT), *arguments])
    return error.value.code


def test_what_wandb_refuses_is_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use_folder(monkeypatch, folder, mode="online")
    assert refused(*SMALL) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("train: error: W&B cannot track this training: No API key") and "WANDB_MODE=offline" in line
    assert not (folder / "logs").exists()


def test_a_sweep_is_not_followed_as_one_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused("-optimize", *SMALL) == 2
    assert "--track is for a single run" in capsys.readouterr().err
    assert not (folder / "logs").exists()


@pytest.mark.parametrize("text", ["{", "{}", '{"version": 2}', '{"version": 1, "id": "x"}'])
def test_a_file_about_another_kind_of_run_is_refused(folder: Path, text: str) -> None:
    from argparse import Namespace

    from sb3_pvp.common.errors import Refusal
    from sb3_pvp.zoo.runs.tracking import start_tracking

    (folder / "wandb_run.json").write_text(text)
    with pytest.raises(Refusal, match=r"wandb_run.json cannot be read: remove it"):
        start_tracking(Namespace(), {}, folder)
    assert wandb.run is None


@pytest.mark.slow
def test_a_failed_training_is_marked_in_wandb(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sb3_pvp.envs.fights import Fights

    def fail(*arguments: object) -> None:
        raise RuntimeError("the power is cut")

    monkeypatch.setattr(Fights, "step", fail)
    with pytest.raises(RuntimeError, match="power"):
        zoo.train([*OPTIONS, "-n", str(ROLLOUT), *SMALL])
    (run,) = read_runs(folder)
    assert run.exit_code == 1 and wandb.run is None


@pytest.mark.slow
def test_rl_zoo3s_own_command_has_the_models_too(folder: Path) -> None:
    (folder / "custom_envs.py").write_text("import sb3_pvp.zoo.custom_envs\n")
    command = [sys.executable, "-m", "rl_zoo3.train", "--algo", "maskable_ppo", "--env", "NhEnv", "--track"]
    command += ["-n", str(ROLLOUT), "--eval-freq", "-1", *SMALL]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    (run,) = read_runs(folder)
    assert run.config["saved_hyperparams"]["n_steps"] == 16 and run.steps("rollout/fps") == [ROLLOUT]
    assert json.loads(run.artifact("final").metadata) == {"steps": ROLLOUT}
