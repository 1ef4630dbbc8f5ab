"""Commands that lead to all others: training, presets, runs, help, completion."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import yaml

from sb3_pvp.algorithms.presets import find_preset
from sb3_pvp.cli import main
from sb3_pvp.cli.usage import progress
from sb3_pvp.zoo.front_ends import COMMANDS
from sb3_pvp.zoo.runs.resume import running
from tests.paths import DATA, ROOT

TRAINED = DATA / "first_edition" / "trained"


def run(*arguments: object) -> object:
    with pytest.raises(SystemExit) as exit_info:
        main(list(map(str, arguments)))
    return exit_info.value.code


@pytest.mark.parametrize("command", ["train", "enjoy"])
def test_rl_zoo3_gets_its_arguments_as_they_are(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []
    monkeypatch.setitem(COMMANDS, command, given.extend)
    arguments = [
        "--env=NhEnv",
        "-params",
        "gamma:0.9",
        "n_steps:8",
        "-h",
        "--help",
        "-n",
        "-1",
        "-conf",
        "a b.yml",
        "-P",
    ]
    assert run(command, *arguments) == 0
    assert given == arguments


def test_rl_zoo3_shows_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("train", "--help") == 0
    assert "--eval-freq" in capsys.readouterr().out
    assert run("train", "--preset", "Cor") == 2
    assert "did you mean 'Core'" in capsys.readouterr().err


def test_presets_are_listed_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("presets") == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["name", "algorithm", "game", "purpose"]
    assert any(line.startswith("PureSelfPlay ") and "Against itself only" in line for line in lines)
    assert run("presets", "--json") == 0
    listed = json.loads(capsys.readouterr().out)["presets"]
    assert not any(".md" in preset["purpose"] for preset in listed), "a wheel has no documents"
    assert len(listed) == len(lines) and all(10 < len(preset["purpose"]) < 110 for preset in listed)
    assert run("presets", "PureSelfPlay") == 0
    hyperparams = find_preset("PureSelfPlay").hyperparams()
    assert yaml.safe_load(capsys.readouterr().out) == {"NhEnv": hyperparams}
    assert run("presets", "PureSelfPlay", "--json") == 0
    assert json.loads(capsys.readouterr().out)["hyperparams"] == hyperparams
    assert run("presets", "PureSelfPla") == 2
    assert "did you mean 'PureSelfPlay'" in capsys.readouterr().err


def test_runs_are_listed_with_what_can_be_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def states() -> dict[str, str]:
        assert run("runs", logs, "--json") == 0
        return {Path(each["run"]).name: each["state"] for each in json.loads(capsys.readouterr().out)["runs"]}

    logs = shutil.copytree(TRAINED, tmp_path / "logs")
    folder, other = (logs / "maskable_ppo" / name for name in ("NhEnv_1", "DharokEnv_1"))
    assert states() == {"NhEnv_1": "finished", "DharokEnv_1": "finished"}
    config = folder / "NhEnv" / "config.yml"
    config.write_text(config.read_text().replace("3840", "9999"))
    shutil.rmtree(other / "checkpoints")
    (other / "DharokEnv.zip").unlink()
    assert states() == {"NhEnv_1": "resumable", "DharokEnv_1": "stopped"}
    with running(folder):
        assert states()["NhEnv_1"] == "running"
    assert run("runs", logs) == 0
    header, _, line = capsys.readouterr().out.splitlines()
    assert header.startswith("run ") and "3,840 of 9,999" in line and "0.2 (win_rate)" in line
    assert run("runs", tmp_path / "none") == 2
    assert "holds no training run" in capsys.readouterr().err


def test_a_run_is_as_far_as_anything_in_its_folder_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """While it runs, and for ever if it was killed, no model is saved, but there are evaluations and episodes."""

    def steps() -> list[int]:
        assert run("runs", logs, "--json") == 0
        return [each["steps"] for each in json.loads(capsys.readouterr().out)["runs"]]

    logs = shutil.copytree(TRAINED, tmp_path / "logs")
    for folder in logs.glob("*/*"):
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        (folder / f"{folder.name[:-2]}.zip").unlink()
    assert steps() == [384, 3840]
    for name in ("evaluations.npz", "win_rates.csv"):
        for file in logs.rglob(name):
            file.unlink()
    none, nh = steps()
    assert none == 0 and 2000 < nh < 3840, "no episode of the first one was over"


@pytest.mark.filterwarnings("always:Skipping")
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.97])
def test_a_file_that_is_cut_does_not_hide_the_runs(
    share: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each file of a run is cut in turn; it is named if it was needed, and the other run is as before."""
    logs = shutil.copytree(TRAINED, tmp_path / "logs")
    assert run("runs", logs, "--json") == 0
    whole = {each["game"]: each for each in json.loads(capsys.readouterr().out)["runs"]}
    named = set()
    for path in filter(Path.is_file, sorted((logs / "maskable_ppo/DharokEnv_1").rglob("*"))):
        content = path.read_bytes()
        path.write_bytes(content[: int(share * len(content))])
        with warnings.catch_warnings(record=True) as warned:
            assert run("runs", logs, "--json") == 0, path
        found = {each["game"]: each for each in json.loads(capsys.readouterr().out)["runs"]}
        assert found["NhEnv"] == whole["NhEnv"] and found.keys() == whole.keys()
        assert found["DharokEnv"]["state"] in ("finished", "resumable")  # by the other model files
        assert all(str(each.message).startswith(f"Skipping {path}: it is damaged (") for each in warned)
        named |= {path.name for _ in warned}
        path.write_bytes(content)
    files = {"DharokEnv.zip", "initial_model.zip", "evaluations.npz", "main_384_steps.zip"}
    assert files <= named <= {*files, "args.yml"}
    assert "args.yml" in named or share  # a list that ends earlier may be whole


def test_a_run_without_a_whole_checkpoint_is_not_resumable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = shutil.copytree(TRAINED, tmp_path / "logs")
    for path in logs.glob("*/DharokEnv_1/**/*.zip"):
        path.write_bytes(path.read_bytes()[:-30])
    with pytest.warns(RuntimeWarning, match="Skipping"):
        assert run("runs", logs, "--json") == 0
    states = {each["game"]: each["state"] for each in json.loads(capsys.readouterr().out)["runs"]}
    assert states == {"NhEnv": "finished", "DharokEnv": "stopped"}


def test_ctrl_c_while_commands_are_imported_is_no_traceback() -> None:
    """With the first library that takes long."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-X", "importtime", "-m", "sb3_pvp.cli", "models"]
    with subprocess.Popen(
        words,
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell lets its background ignore Ctrl-C
    ) as started:
        assert started.stderr is not None
        while "numpy" not in started.stderr.readline():
            pass
        started.send_signal(signal.SIGINT)
        assert "Traceback" not in started.stderr.read()
    assert started.returncode == -signal.SIGINT


def test_help_and_version_have_short_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-V") == 0
    assert capsys.readouterr().out.startswith("sb3-pvp ")
    for command in ([], ["league", "rate"], ["sim-server"], ["first-fighter"]):
        assert run(*command, "-h") == 0
        help_text = capsys.readouterr().out
        assert "Usage: sb3-pvp" in help_text and "first-fighter  " not in help_text


def test_colour_on_a_terminal_only(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert run("jobs", "--help") == 0
    assert "\x1b" not in (piped := capsys.readouterr().out) and piped.isascii()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run("jobs", "--help") == 0
    assert "\x1b[1;36m" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    assert run("jobs", "--help") == 0
    assert "\x1b[1;36m" not in capsys.readouterr().out


def test_progress_on_a_terminal_only(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def shown() -> str:
        with progress("20 fights", 20) as advance:
            advance(10)
        return capsys.readouterr().err

    monkeypatch.setenv("TERM", "xterm-256color")
    assert shown() == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert "20 fights" in (output := shown()) and "50%" in output


def test_shells_complete(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def completed(**words: str) -> str:
        for name, value in words.items():
            monkeypatch.setenv(name, value)
        run()
        return capsys.readouterr().out

    assert "complete -o default -F" in completed(_SB3_PVP_COMPLETE="source_bash")
    assert completed(_SB3_PVP_COMPLETE="complete_bash", COMP_WORDS="sb3-pvp pre", COMP_CWORD="1").split() == ["presets"]
    assert "--until" in completed(COMP_WORDS="sb3-pvp league rate --un", COMP_CWORD="3")
