"""Looking at a run: enjoy and videos, in a world that refuses illegal actions."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from sb3_pvp import zoo
from sb3_pvp.zoo import domains, front_ends

NH = ["--algo", "maskable_ppo", "--env", "NhEnv"]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log folder of a run with a preset, schedules, callbacks, and frames that are only set in its file."""
    folder = tmp_path_factory.mktemp("run")
    preset = {"NhEnv": {"import": ["PastSelfPlay"], "env_kwargs": {"frame_ages": [0, 2], "max_episode_ticks": 20}}}
    (folder / "mine.yml").write_text(yaml.safe_dump(preset))
    tiny = ["-params", "n_envs:20", "n_steps:16", "batch_size:64", "policy_kwargs.net_arch:[8]"]
    options = ["-n", "960", "--eval-freq", "640", "--eval-episodes", "1", "--save-freq", "320", "--verbose", "0"]
    zoo.train(["--preset", str(folder / "mine.yml"), "--seed", "1", "-f", str(folder / "logs"), *options, *tiny])
    return folder / "logs"


@pytest.mark.parametrize(
    ("choice", "model"),
    [
        ([], "NhEnv.zip"),
        (["--load-best"], "best_model.zip"),
        (["--load-checkpoint", "320"], "checkpoints/main_320_steps.zip"),
        (["--load-last-checkpoint"], "checkpoints/main_960_steps.zip"),
        (["--exp-id", "1", "--stochastic", "--n-envs", "3"], "NhEnv.zip"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_every_model_of_a_run_can_be_enjoyed(
    choice: list[str], model: str, logs: Path, strict: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    zoo.enjoy([*NH, "-f", str(logs), "-n", "30", "--no-render", *choice])
    out = capsys.readouterr().out
    assert f"Loading {logs}/maskable_ppo/NhEnv_1/{model}" in out
    fights = 3 if "--n-envs" in choice else 1
    assert strict == [fights] * 30
    assert ("Episode Length 20" in out) == (fights == 1), "the limit of the yaml file"


def test_runs_are_looked_for_where_train_writes_them(
    logs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(logs.parent)
    assert logs.name == "logs"
    zoo.enjoy(["-n", "5", "--no-render"])
    assert "Loading logs/maskable_ppo/NhEnv_1/NhEnv.zip" in capsys.readouterr().out


def test_fights_cannot_be_shown_without_pygame(
    logs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(SystemExit) as raised:
        zoo.enjoy(["-f", str(logs), "-n", "5"])
    error = 'enjoy: error: pictures of fights need pygame: pip install "sb3-pvp[render]"\n'
    assert raised.value.code == 2 and capsys.readouterr().err == error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--load-checkpoint", "111"], "has no such checkpoint; available ones, by steps: 0, 320, 640, 960"),
        (["--exp-id", "7"], "there is no run of maskable_ppo on NhEnv in"),
        (["-f", "elsewhere"], "there is no run of maskable_ppo on NhEnv in elsewhere/maskable_ppo"),
        (["--env-kwargs", "oponent:1"], "unknown argument of an environment 'oponent' (did you mean 'opponent'?)"),
        (["--env-kwargs", "opponent:'xx'"], "unknown opponent 'xx'"),
        (["--device", "nodev"], "--device nodev cannot be used"),
        (["--gym-packages", "nosuch"], "--gym-packages takes names of Python packages"),
        (["--env-kwargs", "opponent:noop"], "take NAME:VALUE with a Python VALUE"),
    ],
)
def test_what_is_not_there(arguments: list[str], message: str, logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        zoo.enjoy([*NH, "-f", str(logs), "--no-render", *arguments])
    error = capsys.readouterr().err
    assert raised.value.code == 2 and error.startswith("enjoy: error: ") and message in error


def test_a_run_that_has_not_come_to_its_end(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoints = tmp_path / "maskable_ppo/NhEnv_4/checkpoints"
    checkpoints.mkdir(parents=True)
    (checkpoints / "main_8_steps.zip").write_bytes((logs / "maskable_ppo/NhEnv_1/NhEnv.zip").read_bytes())
    with pytest.raises(SystemExit):
        zoo.enjoy([*NH, "-f", str(tmp_path), "--no-render"])
    assert "use --load-last-checkpoint for the newest checkpoint" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["enjoy", "record_video"])
def test_a_damaged_model(command: str, logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "maskable_ppo/NhEnv_1"
    shutil.copytree(logs / "maskable_ppo/NhEnv_1", run)
    whole = (run / "NhEnv.zip").read_bytes()
    for content in (whole[: len(whole) // 2], whole.replace(b"num_timesteps", b"mum_timesteps")):
        (run / "NhEnv.zip").write_bytes(content)
        with pytest.raises(SystemExit) as raised:
            front_ends.COMMANDS[command]([*NH, "-f", str(tmp_path), "--no-render"])
        (line,) = capsys.readouterr().err.splitlines()
        assert raised.value.code == 2 and line.startswith(f"{command}: error: ") and str(run / "NhEnv.zip") in line


def test_wrong_arguments_of_a_video(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        zoo.record_video([*NH, "-f", str(logs), "--env-kwargs", "oponent:1"])
    assert "record_video: error: unknown argument of an environment 'oponent'" in capsys.readouterr().err


def test_others_are_left_to_rl_zoo3(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="folder was not found"):
        zoo.enjoy(["--algo", "ppo", "--env", "CartPole-v1", "-f", str(tmp_path)])


def test_record_video(logs: Path, strict: list[int], tmp_path: Path) -> None:
    zoo.record_video([*NH, "-f", str(logs), "-n", "12", "-o", str(tmp_path), "--load-best", "--n-envs", "2"])
    assert set(strict) == {2}
    (video,) = tmp_path.glob("best-model-maskable_ppo-NhEnv-*.mp4")
    assert len(frames(video)) >= 12


def frames(video: Path) -> list[Any]:
    from moviepy import VideoFileClip

    with VideoFileClip(str(video)) as clip:
        return list(clip.iter_frames())


def test_missing_extras(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(domains, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as raised:
        zoo.record_video(NH)
    assert raised.value.code == 2
    assert 'pip install "sb3-pvp[render]"' in capsys.readouterr().err
