"""Commands in the background, with real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sb3_pvp.common import processes
from sb3_pvp.zoo.jobs import Jobs
from tests.waiting import is_alive, wait_until
from tests.zoo.jobs.job_scripts import NAMES, family, pids, python

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the little programs are for POSIX systems")


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    jobs = Jobs(tmp_path / "jobs")
    yield jobs
    jobs.stop([status.job for status in jobs.all()], grace=0)


def state(jobs: Jobs) -> list[tuple[int, str, int | None]]:
    return [(status.job.id, status.state, status.exit_code) for status in jobs.all()]


def test_a_job_leaves_its_output_and_its_exit_code(jobs: Jobs, tmp_path: Path) -> None:
    code = "import os, sys; print(sys.stdin.read(), os.getcwd()); print('oh', file=sys.stderr); sys.exit(3)"
    job = jobs.start(python(code), "broken")
    assert (job.id, job.name) == (1, "broken") and jobs.wait(job).state == "failed"
    assert Path(job.log).read_text().splitlines() == [f" {os.getcwd()}", "oh"]
    fine = jobs.start(["true"])
    assert fine.name == "true" and jobs.wait(fine).state == "finished"
    killed = jobs.start(["sh", "-c", "kill -9 $$"])
    jobs.wait(killed)
    (tmp_path / "odd").write_text("no program")
    (tmp_path / "odd").chmod(0o700)
    odd = jobs.start([str(tmp_path / "odd")])
    assert jobs.wait(odd).state == "failed" and "cannot be started" in Path(odd.log).read_text()
    assert state(jobs) == [(1, "failed", 3), (2, "finished", 0), (3, "failed", 137), (4, "failed", 127)]
    assert all(status.ended_at and status.ended_at >= status.job.started_at for status in jobs.all())


def test_a_password_is_not_recorded(jobs: Jobs) -> None:
    for option in (["--storage", "postgresql://ann:s3c@ret@host/x"], ["--storage=postgresql://ann:s3c@ret@host/x"]):
        job = jobs.start(["echo", "main@5", *option])
        jobs.wait(job)
        assert "s3c@ret" in Path(job.log).read_text(), "the command itself has it"
        assert job.command[:2] == ["echo", "main@5"] and job.command[-1].endswith("postgresql://ann:***@host/x")
    assert "ret" not in (jobs.folder / "jobs.json").read_text()


def test_everything_that_a_job_has_started_is_stopped(jobs: Jobs) -> None:
    other = jobs.start(["sleep", "1000"], "other")
    job = jobs.start(family(), "family")
    wait_until(lambda: pids(job).keys() == NAMES)
    processes = pids(job)
    assert all(map(is_alive, processes.values()))
    jobs.stop([job], grace=0.5)
    assert not any(map(is_alive, processes.values()))
    assert [(status.job.name, status.state) for status in jobs.all()] == [("other", "running"), ("family", "stopped")]
    assert jobs.status(job).exit_code in (143, 137)  # its supervisor has recorded it
    jobs.stop([job])
    jobs.stop([other], grace=5)
    assert jobs.status(other).exit_code == 143


def test_what_a_command_leaves_behind_ends_with_it_and_with_a_terminated_supervisor(jobs: Jobs) -> None:
    ended, job = jobs.start(family("sleep 0.5; exit 4")), jobs.start(family())  # together: both wait for the stubborn
    wait_until(lambda: pids(job).keys() == NAMES)
    assert job.pid is not None
    os.kill(job.pid, 15)
    assert (jobs.wait(ended).state, jobs.status(ended).exit_code) == ("failed", 4)
    assert jobs.wait(job).exit_code in (143, 137)
    assert pids(ended).keys() == NAMES
    assert not any(map(is_alive, (*pids(ended).values(), *pids(job).values())))


def test_a_job_whose_supervisor_was_killed_can_be_stopped(jobs: Jobs) -> None:
    job = jobs.start(family())
    wait_until(lambda: pids(job).keys() == NAMES)
    assert job.pid is not None
    os.kill(job.pid, 9)
    wait_until(lambda: not is_alive(job.pid or 0))
    assert jobs.status(job).state == "running"
    jobs.stop([job], grace=0.2)
    assert not any(map(is_alive, pids(job).values())) and jobs.status(job).state == "stopped"


def test_a_job_that_vanished_is_lost_and_no_other_process_is_taken_for_it(jobs: Jobs) -> None:
    job = jobs.start(["sleep", "1000"])
    jobs.stop([job], grace=5)
    Path(job.log).with_suffix(".result.json").unlink()
    # After a crash of the machine its number belongs to another process: here, to this process.
    content = json.loads((jobs.folder / "jobs.json").read_text())
    content["jobs"][0]["pid"] = os.getpid()
    content["jobs"][0]["stopped_at"] = None
    (jobs.folder / "jobs.json").write_text(json.dumps(content))
    assert state(jobs) == [(1, "lost", None)]
    jobs.stop([status.job for status in jobs.all()])  # or this test would end here


def test_a_job_outlives_the_shell_that_has_started_it(jobs: Jobs) -> None:
    code = f"from sb3_pvp.zoo.jobs import Jobs; Jobs({str(jobs.folder)!r}).start(['sleep', '1000'], 'long')"
    shell = subprocess.run([sys.executable, "-c", code], start_new_session=True, check=True)
    assert shell.returncode == 0
    (status,) = jobs.find("long")
    assert status.state == "running" and status.job.pid is not None
    assert os.getsid(status.job.pid) == status.job.pid


def test_several_can_start_jobs_at_the_same_time(jobs: Jobs) -> None:
    threads = [threading.Thread(target=lambda: Jobs(jobs.folder).start(["true"])) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(status.job.id for status in jobs.all()) == [1, 2, 3, 4, 5, 6]


def test_a_job_of_a_job_is_a_job_of_its_own(jobs: Jobs) -> None:
    code = (
        f"import time; from sb3_pvp.zoo.jobs import Jobs; Jobs({str(jobs.folder)!r}).start(['sleep', '1000'], 'inner')"
    )
    outer = jobs.start(python(code + "; time.sleep(1000)"), "outer")
    wait_until(lambda: len(jobs.all()) == 2)
    jobs.stop([outer], grace=5)
    assert [(status.job.name, status.state) for status in jobs.all()] == [("outer", "stopped"), ("inner", "running")]


@pytest.mark.parametrize(
    ("command", "name", "message"),
    [
        (["no-such-program"], None, "no such command"),
        ([], None, "must be a list"),
        ("true", None, "must be a list"),
        (["true"], "7", "cannot be the name"),
        (["true"], "all", "cannot be the name"),
        (["true"], "../up", "cannot be the name"),
    ],
)
def test_what_cannot_be_started(jobs: Jobs, command: list[str], name: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        jobs.start(command, name)
    assert not jobs.folder.exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 2, "jobs": []}', '{"version": 1, "jobs": [{"id": 1}]}'])
def test_a_tracker_file_that_is_something_else_is_refused_and_stays(jobs: Jobs, text: str) -> None:
    jobs.folder.mkdir()
    (jobs.folder / "jobs.json").write_text(text)
    for action in (jobs.all, lambda: jobs.start(["true"])):
        with pytest.raises(ValueError, match="jobs.json"):
            action()
    assert (jobs.folder / "jobs.json").read_text() == text
    (jobs.folder / "jobs.json").unlink()


def test_unknown_jobs_are_named(jobs: Jobs) -> None:
    jobs.wait(jobs.start(["true"], "PastSelfPlay"))
    with pytest.raises(ValueError, match=r"did you mean 'PastSelfPlay'\?"):
        jobs.find("PastSelfplay")
    assert [status.job.name for status in jobs.find("1")] == ["PastSelfPlay"]


def test_jobs_of_earlier_versions_can_be_stopped(jobs: Jobs) -> None:
    job = jobs.start(["sleep", "1000"], "old")
    content = json.loads((jobs.folder / "jobs.json").read_text())
    content["jobs"][0]["supervisor"] = {"pid": content["jobs"][0].pop("pid"), "created": 1.5}
    (jobs.folder / "jobs.json").write_text(json.dumps(content))
    (status,) = jobs.find("old")
    assert status.state == "running"
    jobs.stop([status.job], grace=5)
    assert jobs.status(job).state == "stopped"


def test_a_signal_does_not_lose_the_exit_code(tmp_path: Path) -> None:
    """A group is stopped as a whole, so the watcher's signal may come at the moment when it has reaped the command."""
    program = f"""
import os, runpy, signal
reap = os.waitpid
def waitpid(pid, options):
    found = reap(pid, options)
    if found[0]:
        os.kill(os.getpid(), signal.SIGTERM)
    return found
os.waitpid = waitpid
os.environ["SB3_PVP_JOB"] = "a-mark-of-this-test"
runpy.run_path({processes.__file__!r})["_watch"]({str(tmp_path / "result.json")!r}, "1", "sh", "-c", "exit 3")
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert json.loads((tmp_path / "result.json").read_text())["exit_code"] == 3
