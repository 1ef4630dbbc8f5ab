"""A guard against agents that are left behind: in a synchronous world a silent agent stops everybody.

A process that is killed cannot log its agents out any more. A small second process does it then: it holds the list of
the agents, and the end of its input tells it that the first process is gone, however it went.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

_SCRIPT = Path(__file__).with_name("guard_process.py")
_CLOSE_TIMEOUT = 1.0


class Guard:
    """The list of one server's agents, kept by a process that is started with the first of them.

    On systems without POSIX signals there is none.
    """

    def __init__(self, host: str, port: int) -> None:
        self._place = (host, port)
        self._process: subprocess.Popen[bytes] | None = None
        self._watched: set[str] = set()

    def watch(self, agent_id: str) -> None:
        """The agent is about to log in."""
        if self._process is None and os.name == "posix":
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SCRIPT), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # so that Ctrl-C does not reach it
            )
        self._watched.add(agent_id)
        self._tell("+", agent_id)

    def forget(self, agent_id: str) -> None:
        """The agent is logged out."""
        self._watched.discard(agent_id)
        self._tell("-", agent_id)

    def close(self) -> None:
        """The guard logs out who is left, and goes."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        with contextlib.suppress(OSError):
            process.stdin.close()
        if not self._watched:
            process.kill()
        # It may go on for a minute with agents that cannot be logged out yet.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_CLOSE_TIMEOUT)

    def _tell(self, sign: str, agent_id: str) -> None:
        if self._process is None or self._process.stdin is None:
            return
        # Without its guard a world can still be played in.
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps([sign, *self._place, agent_id]).encode() + b"\n")
            self._process.stdin.flush()
