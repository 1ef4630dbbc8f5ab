"""The processes that belong together, such as those of a job: who they are, and how all of them are ended.

All that is started inherits an environment variable, whose value is another one for each job, and keeps it even if its
parent is gone and it has a session of its own. What has got a fresh environment is found as well, as long as it is in
the session of the job or its parent lives.

Run as a file, with a process id, the seconds that are granted to end, and a command, this is the process between the
one with this id and the command (`sb3_pvp.common.watched_process`). It imports nothing of this package, to start soon.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import psutil

#: In the environment of everything that belongs to a job; its value is another one for each job.
MARK = "SB3_PVP_JOB"
#: The same for what is watched over, which may be a part of a job.
WATCHED = "SB3_PVP_WATCHED"

#: Seconds that a job has to end on its own once it was told to (cli-config.md §2).
GRACE = 5.0

_POLL_SECONDS = 0.05
#: Seconds in which the system ends a process that cannot refuse.
_KILL_SECONDS = 5.0
#: Seconds by which the time when a process began may seem to change, when the clock is set.
_CLOCK_TOLERANCE = 2.0


@dataclass(frozen=True)
class ProcessId:
    """A process, and no other one that gets its number later."""

    pid: int
    created: float  #: When it began, in seconds since 1970.

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        """The process that has this number now; raises `psutil.NoSuchProcess`."""
        return cls(pid, psutil.Process(pid).create_time())

    def is_alive(self) -> bool:
        """Whether it still runs."""
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.created) <= _CLOCK_TOLERANCE
            return same and process.status() != psutil.STATUS_ZOMBIE
        return False


def marks() -> set[str]:
    """The marks of all jobs of which something runs."""
    return {*_by_mark(MARK)}


def members(mark: str, variable: str = MARK) -> list[psutil.Process]:
    """What runs of the job with this mark, children before their parents, without the present process."""
    return [process for process in _by_mark(variable).get(mark, ()) if process.pid != os.getpid()]


def stop(mark: str, grace: float = GRACE, supervisor: int | None = None, variable: str = MARK) -> None:
    """Ends everything that has this mark in this variable: children first, politely for ``grace`` seconds.

    ``supervisor``: the number of a process that ends by itself when all others are gone; it is spared if possible.
    """
    phases = (
        (psutil.Process.terminate, grace, True),
        (psutil.Process.kill, _KILL_SECONDS, True),
        (psutil.Process.kill, _KILL_SECONDS, False),
    )
    for signal_, seconds, spare in phases:
        told: set[psutil.Process] = set()
        deadline = time.monotonic() + seconds
        while (left := members(mark, variable)) and time.monotonic() < deadline:
            for process in left:
                if process not in told and not (spare and process.pid == supervisor):
                    with contextlib.suppress(psutil.Error):  # it has just ended
                        signal_(process)
            told.update(left)
            time.sleep(_POLL_SECONDS)


def _by_mark(variable: str) -> dict[str, list[psutil.Process]]:
    """All processes that run and belong to something, children before their parents."""
    seen = psutil.process_iter(["ppid", "status", "environ"])
    running = {each.pid: each for each in seen if each.info["status"] != psutil.STATUS_ZOMBIE}
    sessions = {pid: _session(pid) for pid in running}
    marks = {pid: (each.info["environ"] or {}).get(variable) for pid, each in running.items()}
    of_sessions = {sessions[pid]: mark for pid, mark in marks.items() if mark}

    def line(pid: int) -> list[int]:
        """A process, its parent, the parent of that one and so on."""
        found: list[int] = []
        while pid in running and pid not in found:
            found.append(pid)
            pid = running[pid].info["ppid"]
        return found

    groups: dict[str, list[psutil.Process]] = {}
    for ancestry in sorted(map(line, running), key=len, reverse=True):
        # Whoever has lost the mark has that of the session, or of the nearest one above who has one.
        mark = next((found for pid in ancestry if (found := marks[pid] or of_sessions.get(sessions[pid]))), None)
        if mark:
            groups.setdefault(mark, []).append(running[ancestry[0]])
    return groups


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except (OSError, AttributeError):  # it has just ended; there are no sessions on this system
        return -pid


def _watch(parent: int, grace: float, command: list[str]) -> int:
    """Runs the command until it and everything it started has ended, or until it is to be stopped: its exit code.

    It is stopped at the end of the input, and when the parent is gone.
    """
    signals, mark = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP), os.environ[WATCHED]
    for number in signals:
        signal.signal(number, signal.SIG_IGN)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            # Signals that are ignored would stay so in the command.
            preexec_fn=lambda: [signal.signal(number, signal.SIG_DFL) for number in signals],
        )
    except OSError as error:
        print(f"the command cannot be started: {error}", flush=True)
        return 127
    while os.getppid() == parent:
        if select.select([0], [], [], 4 * _POLL_SECONDS)[0] and not os.read(0, 1 << 16):
            break
        # A script may have left what it started running in the background.
        if process.poll() is not None and not members(mark, WATCHED):
            break
    stop(mark, grace, variable=WATCHED)
    code = process.wait()
    return code if code >= 0 else 128 - code  # as shells say that a signal ended it


if __name__ == "__main__":
    sys.exit(_watch(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
