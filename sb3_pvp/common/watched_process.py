"""Processes that end with this one, however it ends."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sb3_pvp.common import process_trees

#: Seconds that a process has to end on its own once it was told to.
GRACE = 5.0


class WatchedProcess:
    """A command with everything that it starts, which a small process between watches over.

    That one stops it at the end of its input, that is when `close` is called, when this object is forgotten and when
    this process is gone, even if it was killed. Ctrl-C does not reach the command. Needs a POSIX system.

    Args:
        command: program and arguments.
        log: a file to which all its output is added.
        variables: of its environment, besides those of this process.
        cwd: where it runs.
        grace: see `GRACE`, which is the default.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        variables: Mapping[str, str],
        cwd: str | os.PathLike[str] | None = None,
        grace: float | None = None,
    ) -> None:
        self._mark, self._grace = secrets.token_hex(16), GRACE if grace is None else grace
        watcher = [sys.executable, "-I", process_trees.__file__, str(os.getpid()), str(self._grace)]
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*watcher, *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **variables, process_trees.WATCHED: self._mark},
                cwd=cwd,
                start_new_session=True,
            )

    def poll(self) -> int | None:
        """The exit code, or ``None`` while it runs; 128 and more: a signal has ended it."""
        code = self._process.poll()
        if code is not None and code < 0:  # the watcher itself was killed
            self._stop()
            return 128 - code
        return code

    def wait(self) -> int:
        """Waits until it ends on its own, and returns its exit code."""
        return self._process.wait()

    def ask_to_end(self) -> None:
        """Tells it to end, and does not wait."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def close(self) -> None:
        """Ends it and everything that it has started; later calls do nothing."""
        self.ask_to_end()
        self._process.wait()
        self._stop()

    def _stop(self) -> None:
        process_trees.stop(self._mark, self._grace, variable=process_trees.WATCHED)
