"""``sb3-pvp jobs`` and ``sb3-pvp tensorboard``."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sb3_pvp.cli import jobs as command
from sb3_pvp.cli import main
from sb3_pvp.zoo.jobs import Jobs
from tests.paths import ROOT
from tests.zoo.jobs.job_scripts import NAMES, family, is_alive, pids, python, wait_until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the little programs are for POSIX systems")


@pytest.fixture(autouse=True)
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    monkeypatch.chdir(tmp_path)
    jobs = Jobs()
    yield jobs
    jobs.stop([status.job for status in jobs.all()], grace=0.5)


def run(*arguments: str) -> object:
    with pytest.raises(SystemExit) as exit_info:
        main(list(arguments))
    return exit_info.value.code


def test_from_start_to_cleanup(jobs: Jobs, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("jobs", "list") == 0
    assert capsys.readouterr().out == "no jobs in logs/jobs\n"
    assert (
        run("jobs", "start", "--name", "sleeper", "--", *python("print('hello'); import time; time.sleep(1000)")) == 0
    )
    assert run("jobs", "start", *python("exit(3)")) == 0  # without -- as well
    log = Path("logs/jobs/1-sleeper.log").absolute()
    assert f"job 1 (sleeper) started; its output is in {log}" in capsys.readouterr().out
    wait_until(log.read_text)
    jobs.wait(jobs.find("2")[0].job)
    assert run("jobs", "logs", "sleeper") == 0
    assert capsys.readouterr().out == "hello\n"
    assert run("jobs", "list", "--json") == 0
    listed = json.loads(capsys.readouterr().out)["jobs"]
    assert [(job["id"], job["state"], job["exit_code"]) for job in listed] == [(1, "running", None), (2, "failed", 3)]
    assert run("jobs", "stop", "1", "--grace", "5") == 0
    assert capsys.readouterr().out == "job 1 (sleeper) stopped\n"
    assert run("jobs", "list") == 0
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.split()[:4] == ["id", "name", "state", "exit"]
    assert first.split()[:4] == ["1", "sleeper", "stopped", "143"]
    assert second.split()[2:4] == ["failed", "3"] and second.endswith("-c 'exit(3)'")
    assert run("jobs", "cleanup") == 0
    assert jobs.all() == [] and not log.exists()
    assert run("jobs", "cleanup") == run("jobs", "cleanup", "all") == run("jobs", "stop", "all") == 0


def test_cleanup_of_jobs_that_run(jobs: Jobs) -> None:
    for name in ("one", "one", "two"):
        run("jobs", "start", "--name", name, "sleep", "1000")
    assert run("jobs", "cleanup") == 0 and len(jobs.all()) == 3
    assert run("jobs", "cleanup", "one") == 0
    assert [status.job.name for status in jobs.all()] == ["two"]
    assert run("jobs", "cleanup", "all") == 0 and jobs.all() == []


def test_wait_gives_the_exit_code_and_the_last_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("jobs", "start", "--wait", "--", "true") == 0
    assert capsys.readouterr().out == ""
    assert run("jobs", "start", "--wait", "--", "sh", "-c", "seq 60; exit 3") == 3
    lines = capsys.readouterr().err.splitlines()
    assert "failed with exit code 3" in lines[1] and lines[2:] == [str(number) for number in range(11, 61)]


def test_log_shows_everything_as_it_comes(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("jobs", "start", "--log", "--", "sh", "-c", "echo one; sleep 0.5; echo two; exit 4") == 4
    assert capfd.readouterr().out == "one\ntwo\n"
    assert run("jobs", "logs", "sh", "-f", "--lines", "1") == 0
    assert capfd.readouterr().out == "two\n"


def test_validate_notices_what_fails_at_once(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("jobs", "start", "--validate", "--", "sh", "-c", "echo oh; exit 5") == 5
    assert capsys.readouterr().err.endswith("\noh\n")
    monkeypatch.setattr(command, "VALIDATION_SECONDS", 0.3)
    assert run("jobs", "start", "--validate", "--name", "fine", "--", "sleep", "1000") == 0
    assert jobs.find("fine")[0].state == "running"


@pytest.mark.parametrize(("option", "stays"), [("--wait", False), ("--log", True)])
def test_an_interrupt_ends_the_job_that_is_waited_for(jobs: Jobs, option: str, stays: bool) -> None:
    arguments = [sys.executable, "-m", "sb3_pvp.cli", "jobs", "start", option, "--", *family()]
    process = subprocess.Popen(
        arguments, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_until(lambda: bool(jobs.all()) and pids(jobs.all()[0].job).keys() == NAMES)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 130
    assert [is_alive(pid) for pid in pids(jobs.all()[0].job).values()] == [stays] * len(NAMES)


def test_an_interrupt_while_the_job_starts_ends_it_too(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    start = Jobs.start

    def start_and_interrupt(*arguments: Any) -> Any:
        job = start(*arguments)
        signal.raise_signal(signal.SIGTERM)
        return job

    monkeypatch.setattr(Jobs, "start", start_and_interrupt)
    assert run("jobs", "start", "--wait", "--", "sleep", "1000") == 130
    assert [status.state for status in jobs.all()] == ["stopped"]


def test_trainings_are_called_like_their_preset(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[list[str], str | None]] = []
    start = Jobs.start

    def remember(self: Jobs, words: list[str], name: str | None) -> object:
        started.append((words, name))
        return start(self, ["true"], name)

    monkeypatch.setattr(Jobs, "start", remember)
    train = [sys.executable, "-m", "sb3_pvp.zoo", "train"]
    for words, name in ((["--preset", "Core", "-n", "5"], "Core"), (["--preset=Core"], "Core"), (["-P"], "train")):
        assert run("jobs", "start", "--", "train", *words) == 0
        assert started.pop() == ([*train, *words], name)
    assert run("jobs", "start", "--name", "mine", "train", "--preset", "Core") == 0
    assert started.pop()[1] == "mine"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["jobs"], "command"),
        (["jobs", "start"], "COMMAND"),
        (["jobs", "start", "--", "no-such-program"], "no such command"),
        (["jobs", "start", "--name", "12", "true"], "cannot be the name"),
        (["jobs", "start", "--name", "", "true"], "'' cannot be the name"),
        (["jobs", "start", "train", "--preset", "Cor"], "did you mean 'Core'"),
        (["jobs", "start", "train", "--preset"], "unknown preset"),
        (["jobs", "start", "--name", "mine", "train", "--preset=Cor"], "did you mean 'Core'"),
        (["jobs", "stop", "missing"], "unknown job 'missing'"),
        (["jobs", "logs", "1"], "unknown job '1'"),
        (["jobs", "logs", "all"], "there are no jobs"),
        (["jobs", "stop", "1", "--grace", "-1"], "--grace"),
        (["tensorboard"], "no folder"),
        (["tensorboard", "--port", "70000"], "--port"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_usage(arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    output = capsys.readouterr()
    assert output.out == "" and output.err.startswith("sb3-pvp: error: ") and output.err.count("\n") == 1
    assert words in output.err
    assert list(tmp_path.iterdir()) == []


def test_one_tensorboard_for_each_folder(jobs: Jobs, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tensorboard").mkdir()
    assert run("tensorboard", "--port", "0") == 0
    said = capsys.readouterr().out
    url = said.split()[-1]
    assert said == f"TensorBoard started as job 1 and shows tensorboard at {url}\n"
    assert url.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(url + "data/logdir") as reply:
        assert json.load(reply)["logdir"] == str(tmp_path / "tensorboard")
    assert run("tensorboard", "--port", "0") == 0
    assert capsys.readouterr().out == f"TensorBoard is already running as job 1 and shows tensorboard at {url}\n"
    assert run("tensorboard", "--logdir", "logs", "--port", url.rstrip("/").rpartition(":")[2]) == 2
    assert "give another port" in capsys.readouterr().err
    assert len(jobs.all()) == 1
    run("jobs", "stop", "tensorboard")
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", int(url.rstrip("/").rpartition(":")[2])), 1):
        pass


@pytest.mark.slow
def test_a_real_training_with_workers(jobs: Jobs) -> None:
    options = ["--preset", "NhEnv", "--vec-env", "subproc", "--eval-freq", "-1", "-n", "10000000"]
    params = ["-params", "n_envs:2", "n_steps:64", "batch_size:64", "n_epochs:1", "policy_kwargs:dict(net_arch=[8])"]
    assert run("jobs", "start", "--validate", "--", "train", *options, *params) == 0
    (status,) = jobs.find("NhEnv")
    log = Path(status.job.log)
    wait_until(lambda: "total_timesteps" in log.read_text())
    from sb3_pvp.common.watched_process import members

    processes = members(status.job.mark)
    assert len(processes) >= 4  # supervisor, training, two workers
    assert run("jobs", "stop", "NhEnv") == 0
    assert not any(is_alive(process.pid) for process in processes)
    assert jobs.find("NhEnv")[0].state == "stopped"
