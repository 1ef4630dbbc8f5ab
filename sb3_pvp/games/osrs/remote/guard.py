"""Logs agents out when their process dies: in a synchronous world a silent agent blocks all others.

A process that is killed cannot log its agents out. A small second process, the guard, does so: it has the journal of
the agents, and its input ends when the first process is gone, however that ended. If the guard is killed as well, the
journal stays, and the next run on the same server finds it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from sb3_pvp.common.processes import OwnedProcess
from sb3_pvp.games.osrs.remote.guard_process import LOGGED_IN, LOGGED_OUT, LOGGING_IN
from sb3_pvp.games.osrs.remote.journal import Journal

_SCRIPT = Path(__file__).with_name("guard_process.py")
_CLOSE_TIMEOUT = 1.0


class Guard:
    """Keeps the journal of the agents on one server, and runs the guard process from the first log-in on.

    Does nothing on systems without POSIX signals.
    """

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._journal: Journal | None = None
        self._process: OwnedProcess | None = None
        self._watched: set[str] = set()

    def watch(self, agent_id: str) -> None:
        """Records an agent that is about to log in."""
        # Before the log-in is sent: a process that is killed in between must not leave an unknown agent.
        self._watched.add(agent_id)
        if os.name != "posix":
            return
        if self._journal is None:
            self._journal = Journal(*self._server)
        self._journal.record(LOGGING_IN, agent_id)
        if self._process is None or self._process.poll() is not None:  # The guard may have been killed.
            self._process = self._start(self._journal)

    def confirm_login(self, agent_id: str) -> None:
        """Records that a log-in was answered."""
        if self._journal is not None and agent_id in self._watched:
            self._journal.record(LOGGED_IN, agent_id)

    def forget(self, agent_id: str) -> None:
        """Records that an agent is logged out."""
        self._watched.discard(agent_id)
        if self._journal is not None:
            self._journal.record(LOGGED_OUT, agent_id)
            if not self._watched:
                self._journal.clear()  # Keeps the file short in a long run.

    def close(self) -> None:
        """Lets the guard log out the agents that are left, and end."""
        process, self._process = self._process, None
        journal, self._journal = self._journal, None
        if journal is not None:
            journal.close(remove=not self._watched)
        if process is None:
            return
        process.request_stop()
        if not self._watched:
            process.kill()
        # Not longer: it may take minutes where agents cannot be logged out yet.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_CLOSE_TIMEOUT)

    def _start(self, journal: Journal) -> OwnedProcess:
        arguments = [os.getpid(), *self._server, journal.descriptor, journal.path]
        # -I and -S, without site-packages and the user's settings: starts in a fraction of the time.
        return OwnedProcess(
            [sys.executable, "-I", "-S", str(_SCRIPT), *map(str, arguments)],
            {},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[journal.descriptor],  # Keeps the journal's lock while the guard lives.
        )
