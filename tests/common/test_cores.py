"""Which work goes first."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sb3_pvp.common.cores import give_way

AUTOGROUP = Path("/proc/self/autogroup")
PROGRAM = """
import os, pathlib, sys
from sb3_pvp.common.cores import give_way
give_way(1)
print(os.nice(0), pathlib.Path(sys.argv[1]).read_text() if len(sys.argv) > 1 else "")
"""


def test_a_process_gives_way_and_so_does_its_session() -> None:
    """Where Linux divides the cores among sessions, niceness alone decides nothing between two of them."""
    command = [sys.executable, "-c", PROGRAM, *([str(AUTOGROUP)] if AUTOGROUP.exists() else [])]
    run = subprocess.run(command, start_new_session=True, capture_output=True, text=True, check=True)
    niceness, *group = run.stdout.split()
    assert int(niceness) == min(os.nice(0) + 1, 19)
    assert not group or group[-2:] == ["nice", niceness]


def test_a_change_that_linux_puts_off_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def write(path: Path, text: str) -> None:
        written.append(text)
        if len(written) == 1:
            raise BlockingIOError

    monkeypatch.setattr(Path, "write_text", write)
    give_way(0)
    assert written == [str(os.nice(0))] * 2
