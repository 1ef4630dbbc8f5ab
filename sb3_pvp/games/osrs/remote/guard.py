"""Nobody is left behind: in a synchronous world a silent agent stops everybody.

A process that is killed cannot log its agents out any more. A small second process does it then: it knows the journal
of the agents, and the end of its input tells it that the first process is gone, however it went. If that one is killed
as well, the journal stays, and the next run on the same server finds it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from sb3_pvp.games.osrs.remote.guard_process import LOGGED_IN, LOGGED_OUT, LOGGING_IN
from sb3_pvp.games.osrs.remote.journal import Journal

_SCRIPT = Path(__file__).with_name("guard_process.py")
_CLOSE_TIMEOUT = 1.0


class Guard:
    """Watches over one server's agents, from the first log-in on.

    On systems without POSIX signals there is none.
    """

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._journal: Journal | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watched: set[str] = set()

    def watch(self, agent_id: str) -> None:
        """The agent is about to log in."""
        self._watched.add(agent_id)
        if os.name != "posix":
            return
        if self._journal is None:
            self._journal = Journal(*self._server)
        self._journal.record(LOGGING_IN, agent_id)
        if self._process is None or self._process.poll() is not None:
            self._process = self._start(self._journal)

    def confirm_login(self, agent_id: str) -> None:
        """The log-in was answered."""
        if self._journal is not None and agent_id in self._watched:
            self._journal.record(LOGGED_IN, agent_id)

    def forget(self, agent_id: str) -> None:
        """The agent is logged out."""
        self._watched.discard(agent_id)
        if self._journal is not None:
            self._journal.record(LOGGED_OUT, agent_id)
            if not self._watched:
                self._journal.clear()

    def close(self) -> None:
        """The guard logs out who is left, and goes."""
        process, self._process = self._process, None
        journal, self._journal = self._journal, None
        if journal is not None:
            journal.close(remove=not self._watched)
        if process is None or process.stdin is None:
            return
        with contextlib.suppress(OSError):
            process.stdin.close()
        if not self._watched:
            process.kill()
        # It may go on for minutes with agents that cannot be logged out yet.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_CLOSE_TIMEOUT)

    def _start(self, journal: Journal) -> subprocess.Popen[bytes]:
        arguments = [os.getpid(), *self._server, journal.descriptor, journal.path]
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SCRIPT), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[journal.descriptor],
            start_new_session=True,  # so that Ctrl-C does not reach it
        )
