"""For all tests."""

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from typing import Any

import psutil
import pytest
import torch
from hypothesis import settings

from sb3_pvp.common.processes import STOP_SIGNALS
from sb3_pvp.common.worker_pool import WorkerPool

# What was imported and collected stays. To look through those million objects again and again, for some that are no
# longer used, would take a sixth of the time of all tests.
gc.disable()

# No processes beside the tests, which may run in parallel themselves, unless a test asks for them.
os.environ.setdefault("SB3_PVP_CORES", "1")

# With networks as small as these, more threads only wait for each other, above all on a busy machine.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the processes that tests start

# No test asserts an absolute time: on a busy machine, one example may take a second.
settings.register_profile("sb3_pvp", deadline=None, max_examples=50)
settings.load_profile("sb3_pvp")

_HANDLERS = {number: signal.getsignal(number) for number in STOP_SIGNALS}

#: The process that compiles for all workers of pytest-xdist.
_COMPILING = "SB3_PVP_TESTS_COMPILING"


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Compiles the rules of the home game, which takes most of a minute, while a worker collects its tests."""
    if getattr(session.config.option, "numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ:
        steps = "env = NhVecEnv(1, opponent='noop'); env.reset(); env.step(env.action_space.sample()[None])"
        command = [sys.executable, "-c", f"from sb3_pvp.envs import NhVecEnv; {steps}"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        session.config.add_cleanup(process.wait)  # type: ignore[arg-type]
        os.environ[_COMPILING] = str(process.pid)


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """All workers but one collect when the rules are compiled: they find the bytecode that it has written."""
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0" and not sys.dont_write_bytecode:
        _wait_for_compiled_rules()


def pytest_collection_finish() -> None:
    """A worker waits until the rules are compiled, else it would compile them itself."""
    gc.freeze()
    gc.enable()
    _wait_for_compiled_rules()


def _wait_for_compiled_rules() -> None:
    if "PYTEST_XDIST_WORKER" in os.environ and (pid := os.environ.pop(_COMPILING, None)):
        with suppress(psutil.Error):
            while psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.1)


@pytest.fixture(autouse=True)
def usual_handlers_of_signals() -> None:
    """Some libraries, such as Ray, leave handlers of their own behind, by which no later command of ours is stopped."""
    for number, handler in _HANDLERS.items():
        if signal.getsignal(number) != handler:
            signal.signal(number, handler)


@pytest.fixture(scope="module")
def one_worker() -> Iterator[None]:
    """All fights that are divided among processes come to the same one, which takes seconds to start."""
    with closing(WorkerPool(1, "commands")) as kept, pytest.MonkeyPatch.context() as patch:

        class Pool:
            def __init__(self, size: int, kind: str) -> None:
                assert kind == "commands"
                self.size = size

            def stream(self, function: Any, parts: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
                return kept.stream(function, parts)

            def close(self) -> None:
                pass

        for module in ("evaluation", "rating"):
            patch.setattr(f"sb3_pvp.matches.{module}.WorkerPool", Pool)
        yield
