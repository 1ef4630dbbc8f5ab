"""Little programs to run as jobs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from sb3_pvp.zoo.jobs import Job

#: A process with a child, a child that does not end politely, one in a session of its own whose parent is gone, and one
#: that has got a fresh environment. Each says who it is.
FAMILY = """
echo parent $$
setsid sh -c 'sleep 1000 & echo orphan $!' &
env -i /bin/sh -c 'echo fresh $$; exec sleep 1000' &
sh -c 'trap "" TERM; echo stubborn $$; while :; do sleep 0.1; done' &
sleep 1000 & echo child $!
"""
NAMES = {"parent", "orphan", "fresh", "stubborn", "child"}


def family(end: str = "wait") -> list[str]:
    """The command that starts them all, and then does this."""
    return ["sh", "-c", FAMILY + end]


def python(code: str) -> list[str]:
    """The command that runs this program."""
    return [sys.executable, "-c", code]


def pids(job: Job) -> dict[str, int]:
    """The processes of a job that have said who they are."""
    words = [line.split() for line in Path(job.log).read_text().splitlines()]
    return {line[0]: int(line[1]) for line in words if len(line) == 2 and line[1].isdigit()}


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()
