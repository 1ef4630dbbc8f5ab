"""Processes that end with their owners; commands that do are in `tests/zoo/jobs` and `tests/callbacks/exploiters`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from sb3_pvp.common import processes
from sb3_pvp.common.processes import OwnedProcess, WatchedProcess

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sessions")
STARTS_ANOTHER = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid, flush=True); input()"


def test_a_process_that_is_closed_ends_with_what_it_has_started() -> None:
    process = OwnedProcess([sys.executable, "-c", STARTS_ANOTHER], {}, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        other = psutil.Process(int(process.stdout.readline()))
    assert os.getsid(other.pid) == process.pid != os.getsid(0)
    for _ in range(2):
        process.close()
        assert process.returncode == -9
    other.wait(60)


def test_a_command_that_is_forgotten_is_stopped(tmp_path: Path) -> None:
    process = WatchedProcess(["sleep", "600"], tmp_path / "log.txt", {})
    watcher = psutil.Process(process.pid)
    del process
    watcher.wait(60)


def test_the_watcher_imports_nothing_that_takes_a_while() -> None:
    program = f"import runpy, sys; runpy.run_path({processes.__file__!r}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert not {"psutil", "sb3_pvp", "numpy"} & set(done.stdout.split())
