"""``sb3-pvp jobs``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sb3_pvp.cli import main
from sb3_pvp.common.user_modules import PYTHON
from sb3_pvp.zoo.jobs import Jobs
from tests.waiting import is_alive, wait_until
from tests.zoo.jobs.job_scripts import python

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


def test_from_start_to_stop(jobs: Jobs, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert run("jobs", "stop", "all") == 0


def test_logs_are_followed_to_the_end_of_the_job(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("jobs", "start", "--name", "counter", "sh", "-c", "seq 60; sleep 0.5; echo end") == 0
    capfd.readouterr()
    assert run("jobs", "logs", "counter", "-f") == 0
    assert capfd.readouterr().out.endswith("59\n60\nend\n")
    assert run("jobs", "logs", "counter", "-n", "2") == 0
    assert capfd.readouterr().out == "60\nend\n"


def test_trainings_are_called_like_their_preset(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[list[str], str | None]] = []
    start = Jobs.start

    def remember(self: Jobs, words: list[str], name: str | None) -> object:
        started.append((words, name))
        return start(self, ["true"], name)

    monkeypatch.setattr(Jobs, "start", remember)
    train = [*PYTHON, "sb3_pvp.zoo", "train"]
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
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_usage(arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    output = capsys.readouterr()
    assert output.out == "" and output.err.startswith("sb3-pvp: error: ") and output.err.count("\n") == 1
    assert words in output.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_real_training_with_workers(jobs: Jobs) -> None:
    options = ["--preset", "NhEnv", "--vec-env", "subproc", "--eval-freq", "-1", "-n", "10000000"]
    params = ["-params", "n_envs:2", "n_steps:64", "batch_size:64", "n_epochs:1", "policy_kwargs:dict(net_arch=[8])"]
    assert run("jobs", "start", "--", "train", *options, *params) == 0
    (status,) = jobs.find("NhEnv")
    log = Path(status.job.log)
    wait_until(lambda: "total_timesteps" in log.read_text())
    from sb3_pvp.common.processes import members

    processes = members(status.job.mark)
    assert len(processes) >= 4  # supervisor, training, two workers
    assert run("jobs", "stop", "NhEnv") == 0
    assert not any(map(is_alive, processes))
    assert jobs.find("NhEnv")[0].state == "stopped"
