"""Commands that are stopped by a signal, which reaches one of their processes or all of them."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from sb3_pvp.algorithms.ppo import PvpPPO
from sb3_pvp.players.league import League
from sb3_pvp.zoo.jobs import Jobs
from sb3_pvp.zoo.runs.resume import stopped_run
from tests.paths import DATA, ROOT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")

COMMAND = [sys.executable, "-m", "sb3_pvp.cli"]
TRAIN = ["train", "-n", "10000000", "-f", "logs", "--eval-freq", "-1", "--log-interval", "1", "--seed", "1"]
SMALL = ["-params", "n_envs:16", "n_steps:16", "batch_size:64"]
TINY = ["-params", "n_envs:2", "n_steps:64", "batch_size:64"]
RUN = Path("logs/maskable_ppo/NhEnv_1")
LONG = 300.0  # seconds, on a machine that does much else


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def started() -> Iterator[list[psutil.Process]]:
    """Collects processes, and kills what is left of them and of what they have started."""
    processes: list[psutil.Process] = []
    yield processes
    for process in processes:
        if process.is_running():
            for each in [*process.children(recursive=True), process]:
                each.kill()


def start(*arguments: str, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """Starts a command, whose output goes to the file ``output``; Ctrl-C is not ignored, as in the background."""
    with Path("output").open("w") as output:
        return subprocess.Popen(
            [*before, *COMMAND, *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )


def wait_until(is_true: Callable[[], object], process: subprocess.Popen[str] | None = None) -> None:
    deadline = time.monotonic() + LONG
    while not is_true():
        assert time.monotonic() < deadline and (process is None or process.poll() is None), printed()
        time.sleep(0.05)


def printed() -> str:
    return Path("output").read_text(errors="replace")


def has_learned() -> bool:
    return printed().count("total_timesteps") > 1


def signal_all(pid: int, number: int) -> list[psutil.Process]:
    """Sends a signal as the end of a SLURM job does, to children before their parents; returns all of them."""
    parent = psutil.Process(pid)
    everybody = [*reversed(parent.children(recursive=True)), parent]
    for each in everybody:
        each.send_signal(number)
        time.sleep(0.05)  # in which a child would die
    return everybody


def assert_saved() -> None:
    """The run can be resumed by the command that was printed."""
    last = printed().splitlines()[-1]
    steps = int(re.fullmatch(r"train: stopped; resume after (\d+) steps with: sb3-pvp train .*", last)[1])  # type: ignore[index]
    run = stopped_run(RUN)
    assert run is not None and run.steps == steps > 0 and last.endswith(f"--resume {RUN}")
    assert PvpPPO.load(RUN / "NhEnv.zip").num_timesteps == steps
    assert "Traceback" not in printed()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "number"),
    [
        (["--actors", "2"], signal.SIGHUP),
        (["--actors", "1", "--synchronous"], signal.SIGTERM),
        (["--vec-env", "subproc"], signal.SIGTERM),
    ],
)
def test_a_training_is_saved_although_all_its_processes_get_the_signal(
    processes: list[str], number: signal.Signals, started: list[psutil.Process]
) -> None:
    training = start(*TRAIN, *processes, *(TINY if "subproc" in processes else SMALL))
    started.append(psutil.Process(training.pid))
    wait_until(has_learned, training)
    everybody = signal_all(training.pid, number)
    assert len(everybody) > 2 and training.wait(LONG) == 130
    assert_saved()
    wait_until(lambda: not any(each.is_running() for each in everybody))
    again = start(*shlex.split(printed().splitlines()[-1].split(" with: sb3-pvp ")[1]))
    started.append(psutil.Process(again.pid))
    wait_until(has_learned, again)
    assert f"Resuming {RUN} after" in printed()


@pytest.mark.slow
def test_the_first_process_of_a_container_saves(started: list[psutil.Process]) -> None:
    """It gets no signal that it has no handler for, and alone gets that of ``docker stop``."""
    container = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    if shutil.which("unshare") is None or subprocess.run([*container, "true"], capture_output=True).returncode:
        pytest.skip("this user may not make namespaces of processes")
    outside = start(*TRAIN, "--actors", "1", *SMALL, before=container)
    started.append(psutil.Process(outside.pid))
    wait_until(has_learned, outside)
    (first,) = started[0].children()
    first.send_signal(signal.SIGTERM)
    assert outside.wait(LONG) == 130
    assert_saved()


@pytest.mark.slow
def test_a_training_is_saved_when_its_terminal_is_closed(started: list[psutil.Process]) -> None:
    """Which it cannot print to any more."""
    ours, theirs = os.openpty()
    training = subprocess.Popen(
        [*COMMAND, *TRAIN, "--actors", "0", *SMALL],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    started.append(psutil.Process(training.pid))
    os.close(theirs)
    seen = b""
    while seen.count(b"total_timesteps") < 2:
        seen += os.read(ours, 1 << 16)
    os.close(ours)
    assert training.wait(LONG) == 130
    run = stopped_run(RUN)
    assert run is not None and run.steps == PvpPPO.load(RUN / "NhEnv.zip").num_timesteps > 0


@pytest.mark.slow
def test_a_training_is_saved_when_its_reader_goes_as_well(started: list[psutil.Process]) -> None:
    """As after Ctrl-C in ``sb3-pvp train | tee log``."""
    training = subprocess.Popen(
        [*COMMAND, *TRAIN, "--actors", "0", *SMALL],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    started.append(psutil.Process(training.pid))
    assert training.stdout is not None and training.stderr is not None
    seen = 0
    while seen < 2:
        seen += b"total_timesteps" in training.stdout.readline()
    training.send_signal(signal.SIGINT)
    training.stdout.close()
    assert training.wait(LONG) == 130
    assert b"stopped; resume after" in training.stderr.read() and (RUN / "NhEnv.zip").is_file()


@pytest.mark.slow
def test_a_job_that_is_stopped_can_be_resumed(started: list[psutil.Process]) -> None:
    jobs = Jobs("jobs")
    subprocess.run(
        [*COMMAND, "jobs", "start", "--jobs-dir", "jobs", "--", *TRAIN, "--actors", "1", *SMALL],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    (job,) = (status.job for status in jobs.all())
    assert job.pid is not None
    started.append(psutil.Process(job.pid))
    Path("output").symlink_to(job.log)
    wait_until(has_learned)
    subprocess.run([*COMMAND, "jobs", "stop", "all", "--jobs-dir", "jobs"], env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert jobs.status(job).state == "stopped" and jobs.status(job).exit_code == 130
    assert_saved()


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", ["1", "2"])
def test_a_sweep_is_resumed_by_the_same_command(n_jobs: str, started: list[psutil.Process]) -> None:
    sweep = ["train", "-optimize", "--storage", "study.log", "--n-trials", "100", "--n-jobs", n_jobs, "-f", "logs"]
    sweep += ["-n", "2048", "--n-evaluations", "1", "--reference-fights", "4", "--seed", "1", *SMALL]
    process = start(*sweep)
    started.append(psutil.Process(process.pid))
    wait_until(lambda: re.search(r"Trial \d+: ", printed()), process)
    everybody = signal_all(process.pid, signal.SIGTERM)
    assert process.wait(LONG) == 130
    assert printed().splitlines()[-1] == "train: stopped; the same command resumes the study in its --storage"
    assert "Traceback" not in printed()
    wait_until(lambda: not any(each.is_running() for each in everybody))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_measurement_of_exploitability_is_resumed(number: signal.Signals, started: list[psutil.Process]) -> None:
    arguments = ["exploit", "baseline", "-n", "10000000", "--seeds", "1", "--processes", "1", "-f", "responses"]
    process = start(*arguments)
    started.append(psutil.Process(process.pid))
    wait_until(lambda: [*Path("responses").glob("*/checkpoints/main_*.zip")], process)
    everybody = signal_all(process.pid, number)
    assert process.wait(LONG) == 130
    assert f"sb3-pvp: stopped; resume with: sb3-pvp {shlex.join(arguments)}\n" in printed()
    wait_until(lambda: not any(each.is_running() for each in everybody))


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_the_fights_of_a_rating_count(jobs: str, started: list[psutil.Process]) -> None:
    shutil.copytree(DATA / "second_edition/trained/maskable_ppo/NhEnv_1/league", "league")
    before = League.existing("league").ratings().position
    arguments = ["league", "rate", "league", "--until", "1", "--max-fights", "1000000", "--fights-per-round", "64"]
    process = start(*arguments, "--jobs", jobs)
    started.append(psutil.Process(process.pid))
    wait_until(lambda: "128 fights: " in printed(), process)
    everybody = signal_all(process.pid, signal.SIGTERM)
    assert process.wait(LONG) == 130
    assert printed().splitlines()[-1].startswith("sb3-pvp: stopped; all fights that were over count, go on with: ")
    assert League.existing("league").ratings().position >= before + 128
    wait_until(lambda: not any(each.is_running() for each in everybody))


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_evaluation_ends_at_once(jobs: str, started: list[psutil.Process]) -> None:
    process = start("evaluate", "fast", "--episodes", "1000000", "--jobs", jobs, "--json")
    started.append(psutil.Process(process.pid))
    wait_until(lambda: len(started[0].children(recursive=True)) >= 2 * (jobs == "2"), process)
    if jobs == "1":
        time.sleep(3)  # nothing shows that it has begun: it may end by the signal itself
    everybody = signal_all(process.pid, signal.SIGTERM)
    assert process.wait(LONG) in ((130,) if jobs == "2" else (130, -signal.SIGTERM))
    assert "Traceback" not in printed()
    wait_until(lambda: not any(each.is_running() for each in everybody))


def test_a_command_that_is_stopped_while_python_runs_source_text_ends_as_others_do(tmp_path: Path) -> None:
    """Python remembers that as an unhandled Ctrl-C, by which ``python -m`` ends whatever the exit code is."""
    (tmp_path / "stops.py").write_text(
        "import os, signal, typer\n"
        "from sb3_pvp.cli.usage import run_app\n"
        "app = typer.Typer()\n"
        "app.command()(lambda: exec('os.kill(os.getpid(), signal.SIGTERM)'))\n"
        "run_app(app, 'stops', None)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    assert subprocess.run([sys.executable, "-m", "stops"], env=environment).returncode == 130
