"""Bad usage of the command line: one line on stderr that says what to do, exit code 2, no traceback."""

from __future__ import annotations

import errno
import os
import socket
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sb3_contrib import MaskablePPO
from stable_baselines3 import A2C

from sb3_pvp.cli import main
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a fighter, and with files that are none."""
    folder = tmp_path_factory.mktemp("models")
    MaskablePPO(AutoregressivePolicy, NhVecEnv(1), n_steps=2, batch_size=2).save(folder / "fighter.zip")
    A2C("MlpPolicy", "CartPole-v1").save(folder / "cartpole.zip")
    (folder / "text.zip").write_text("not a zip file")
    with zipfile.ZipFile(folder / "empty.zip", "w") as archive:
        archive.writestr("readme.txt", "no model here")
    return folder


def run(arguments: list[str]) -> object:
    """Runs the console script and returns its exit code."""
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    return exit_info.value.code


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["conquer"], "conquer"),
        (["evaluate"], "model"),
        (["evaluate", "missing.zip"], "missing.zip"),
        (["evaluate", "."], "no model file ., which is a folder"),
        (["evaluate", "/"], "no model file /, which is a folder"),
        (["export", "."], "no model file ., which is a folder"),
        (["replay", "."], "no recorded fight ."),
        (["evaluate", "text.zip"], "not a model"),
        (["evaluate", "empty.zip"], "empty.zip"),
        (["evaluate", "cartpole.zip"], "does not name its game: pass --game"),
        (
            ["evaluate", "fighter.zip", "--game", "DharokEnv"],
            "fighter.zip was trained in NhEnv, not in DharokEnv: leave --game out",
        ),
        (["evaluate", "fighter.zip", "--episodes", "0"], "--episodes"),
        (["evaluate", "fighter.zip", "--seed", "nan"], "--seed"),
        (["evaluate", "fighter.zip", "--opponent", "basline"], "did you mean 'baseline'"),
        (["evaluate", "fighter.zip", "--world", "moon"], "moon"),
        (["evaluate", "fighter.zip", "--build", "TANK"], "TANK"),
        (["evaluate", "fighter.zip", "--reset-params", "{"], "not valid JSON"),
        (["evaluate", "fighter.zip", "--reset-params", "[1]"], "JSON object"),
        (["evaluate", "fighter.zip", "--reset-params", '{"acountBuild": "MED"}'], "accountBuild"),
        (["sim-server", "--port", "70000"], "--port"),
        (["quickstart", "--episodes", "-1"], "--episodes"),
        (["quickstart", "--colour", "red"], "--colour"),
        (["plot", "logs", "-o", "."], "'.' is a directory"),
        (["quickstart", "-f", "text.zip"], "'text.zip' is a file"),
        (["jobs", "list", "--jobs-dir", "text.zip"], "'text.zip' is a file"),
        (["jobs", "logs", "7"], "unknown job '7'. Known: none"),
        (["league"], "Missing command; see sb3-pvp league --help"),
        (["league", "rate", "league"], "'--until'; see sb3-pvp league rate --help"),
        (["sweep", "best", "sweep.log", "-o", "."], "'.' is a directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_one_line_and_exit_code_2(
    files: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    assert run(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("sb3-pvp: error: ")
    assert output.err.count("\n") == 1
    assert words in output.err


def test_what_may_be_a_bug_says_how_to_see_where(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        np.zeros(2) + np.zeros(3)

    monkeypatch.setattr("sb3_pvp.players.league.League.existing", broken)
    assert run(["league", "show", "league"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("sb3-pvp: error: operands could not be broadcast") and "PYTHONDEVMODE=1" in second


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EADDRINUSE, "another port"),
        (errno.EACCES, "choose a place"),
        (errno.EROFS, "choose a place"),
        (errno.ENOSPC, "make room"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EIO, "Input/output error"),
        (None, "something"),
    ],
)
@pytest.mark.parametrize("command", [["league", "show", "league"], ["train", "-n", "10"]], ids=" ".join)
def test_what_the_machine_refuses_is_no_bug(
    number: int | None,
    advice: str,
    command: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whichever library finds out, at the border of every command: one line that says what to do."""

    def broken(*_: object) -> None:
        code = "raise OSError('something') if number is None else OSError(number, os.strerror(number))"
        exec(code, {"os": os, "number": number, "__name__": "a_library"})

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sb3_pvp.players.league.League.existing", broken)
    monkeypatch.setattr("sb3_pvp.zoo.manager.PvpExperimentManager.setup_experiment", broken)
    assert run(command) in (1, 2)
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and advice in error and "bug" not in error


@pytest.mark.parametrize("command", ["serve --port", "serve --port 0 --metrics-port", "sim-server --port"])
def test_a_port_in_use_is_no_bug(command: str, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if "metrics" in command:
        pytest.importorskip("prometheus_client")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        assert (
            run([*command.split(), port, *(["--models", str(files / "fighter.zip")] * command.startswith("serve"))])
            == 2
        )
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"sb3-pvp: error: cannot listen on 127.0.0.1:{port}: ") and "choose another port" in line


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["evaluate", "--help"], ["league", "show", "--help"]])
def test_help_and_version_are_fine(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    assert capsys.readouterr().out
