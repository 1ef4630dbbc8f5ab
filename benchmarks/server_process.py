"""Runs a server in a separate process and measures its CPU time, memory and descriptors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

#: Resolution of CPU seconds from ``/proc``.
CPU_RESOLUTION = 0.01

_KIB_PER_MB = 1e6 / 1024
#: Seconds that the server may take to end.
_STOP_TIMEOUT = 20.0


@dataclass(frozen=True)
class Usage:
    """CPU seconds so far, current memory, and open descriptors (``None`` if the system does not report them)."""

    cpu_s: float
    rss_mb: float
    descriptors: int | None


@dataclass(frozen=True)
class ServerProcess:
    """A server that listens on ``port`` of this machine."""

    pid: int
    port: int

    def usage(self) -> Usage:
        """Reads ``/proc`` where there is one, else asks ``ps``."""
        directory = Path("/proc", str(self.pid))
        return _usage_from_proc(directory) if directory.exists() else _usage_from_ps(self.pid)


@contextmanager
def started_server(seed: int = 0) -> Iterator[ServerProcess]:
    """Starts a sim-server on a free port, waits until it listens, and ends it. `OSError` if it does not start."""
    with started("-m", "sb3_pvp.cli", "sim-server", "--port", "0", "--seed", str(seed)) as server:
        yield server


@contextmanager
def started(*arguments: str) -> Iterator[ServerProcess]:
    """Does the same with a Python program, whose first line of output must end in a colon and the port."""
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            _, _, port = process.stdout.readline().rpartition(":")
            if not port.strip().isdecimal():
                raise OSError("the server to be measured did not start")
            yield ServerProcess(process.pid, int(port))
        finally:
            process.terminate()
            try:
                process.wait(_STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()


def allow_descriptors(number: int) -> None:
    """Raises the limit of open files and sockets of this process, and of those that it starts, to ``number``.

    Raises `OSError` if that is more than the system grants.
    """
    import resource  # missing on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < number:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
        except ValueError as error:
            raise OSError(f"{number} descriptors are needed, but only {hard} are allowed: raise ulimit -n") from error


def _usage_from_proc(directory: Path) -> Usage:
    # The program's name, in parentheses, is the only field that may contain spaces: count fields from behind it.
    fields = (directory / "stat").read_text().rpartition(")")[2].split()
    user, system, pages = int(fields[11]), int(fields[12]), int(fields[21])
    return Usage(
        cpu_s=(user + system) / os.sysconf("SC_CLK_TCK"),
        rss_mb=pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        descriptors=len(list((directory / "fd").iterdir())),
    )


def _usage_from_ps(pid: int) -> Usage:
    command = ["ps", "-o", "time=", "-o", "rss=", "-p", str(pid)]
    time, rss = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return Usage(cpu_s=_seconds(time), rss_mb=int(rss) / _KIB_PER_MB, descriptors=None)


def _seconds(time: str) -> float:
    """``[days-][hours:]minutes:seconds`` in seconds."""
    days, _, clock = time.rpartition("-")
    total = 0.0
    for part in clock.split(":"):
        total = total * 60 + float(part)
    return total + 86400 * int(days or 0)
