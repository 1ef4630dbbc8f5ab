"""Little programs to run as jobs."""

from __future__ import annotations

import sys
from pathlib import Path

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
