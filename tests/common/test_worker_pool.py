"""Worker processes: what they return, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from sb3_pvp.common.cores import CORES, PRIORITY, num_cores
from sb3_pvp.common.waiting import WaitedTooLong
from sb3_pvp.common.worker_pool import WorkerDied, WorkerPool


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with closing(WorkerPool(1, "commands")) as made:
        yield made


def squares(first: int, last: int) -> Iterator[int]:
    print("what a job prints is no reply")
    yield from (number * number for number in range(first, last))


def test_workers_have_one_core_and_are_not_nice_where_a_command_waits(pool: WorkerPool) -> None:
    def describe() -> tuple[int, int, str, int]:
        return os.nice(0), num_cores(), os.environ["OMP_NUM_THREADS"], os.getpid()

    *found, pid = pool.submit(describe).result()
    assert found == [os.nice(0), 1, "1"], "a command waits for them"
    assert pid != os.getpid() and pool.submit(describe).result()[-1] == pid, "a worker does many jobs"


@pytest.mark.skipif(not hasattr(os, "nice"), reason="no niceness")
def test_an_evaluation_gives_way() -> None:
    with closing(WorkerPool(1, "evaluation")) as made:
        assert made.submit(os.nice, 0).result() == min(os.nice(0) + PRIORITY["evaluation"], 19)


def test_a_stream_from_workers_that_hang_ends() -> None:
    def hang() -> Iterator[int]:
        yield 1
        time.sleep(600)

    with closing(WorkerPool(1, "commands", max_silence=0.5)) as made:
        made.submit(int).result()  # it has started
        with pytest.raises(WaitedTooLong, match=r"nothing came from them in 0\.5 seconds"):
            list(made.stream(hang, [()]))


def test_items_of_all_parts_arrive(pool: WorkerPool) -> None:
    assert sorted(pool.stream(squares, [(0, 3), (3, 5)])) == [0, 1, 4, 9, 16]


def test_errors_of_jobs_are_raised_here(pool: WorkerPool) -> None:
    class Odd(Exception):
        def __init__(self, one: int, two: int) -> None:
            super().__init__(f"{one} and {two}")

    def fail(error: Any) -> None:
        raise error

    with pytest.raises(KeyError, match="gone") as caught:
        pool.submit(fail, KeyError("gone")).result()
    assert "in fail" in str(caught.value.__cause__)
    with pytest.raises(RuntimeError, match="Odd: 1 and 2"):
        pool.submit(lambda: fail(Odd(1, 2))).result()
    with pytest.raises(KeyboardInterrupt):
        pool.submit(fail, KeyboardInterrupt()).result()


def test_what_is_left_of_a_job_whose_items_nobody_can_take_is_no_reply_to_the_next_one(pool: WorkerPool) -> None:
    got = list[int]()
    with pytest.raises(ZeroDivisionError):
        pool.submit(squares, 0, 3, each=lambda item: 1 / item).result()
    assert pool.submit(len, "next", each=got.append).result() == 4
    assert not got


def die_unless(path: str) -> Iterator[int]:
    yield 1
    if not Path(path).exists():
        Path(path).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    yield 2


def test_the_job_of_a_dead_worker_is_done_again_once(pool: WorkerPool, tmp_path: Path) -> None:
    assert list(pool.stream(die_unless, [(str(tmp_path / "file"),)])) == [1, 1, 2]
    with pytest.raises(WorkerDied, match=r"twice during the same job \(exit code -9\)"):
        pool.submit(lambda: os.kill(os.getpid(), signal.SIGKILL)).result()


@pytest.mark.skipif(os.name != "posix", reason="sessions")
def test_what_a_job_has_started_ends_with_its_worker() -> None:
    def start() -> int:
        return subprocess.Popen(["sleep", "600"]).pid

    with closing(WorkerPool(1, "commands")) as made:
        started = psutil.Process(made.submit(start).result())
    started.wait(60)


SCRIPT = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
from sb3_pvp.common.worker_pool import WorkerPool
pool = WorkerPool(1, "commands")
def work():
    import os, subprocess
    yield os.getpid(), subprocess.Popen(["sleep", "600"]).pid
    time.sleep(600)
for pids in pool.stream(work, [()]):
    print(*pids, flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_parent(number: int) -> None:
    # A script without a __main__ guard, which a spawned process of multiprocessing would run again.
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", SCRIPT], **pipes) as process:
        assert process.stdout is not None and process.stderr is not None
        workers = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
        process.send_signal(number)
        assert not psutil.wait_procs(workers, 60)[1], "a worker, and what its job has started"
        assert process.wait(60) != 0
        assert process.stderr.read().count("Traceback") == (number == signal.SIGINT)


def test_the_number_of_cores_can_be_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CORES, raising=False)
    assert 1 <= num_cores() <= (os.cpu_count() or 1)
    monkeypatch.setenv(CORES, "1")
    assert num_cores() == 1
    for wrong in ("", "many", "-3"):
        monkeypatch.setenv(CORES, wrong)
        assert num_cores() >= 1
