"""Processes that belong together, such as those of a job: who they are, and how all of them are ended.

All that is started inherits an environment variable, whose value is another one for each job, and keeps it even if its
parent is gone and it has a session of its own. What has got a fresh environment is found as well, as long as it is in
the session of the job or its parent lives.

Run as a file, this is the process that watches over a command. It imports nothing of this package, to start soon.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

#: In the environment of everything that belongs together. The mark, its value, is another one for each job; what is
#: watched over within a job has that of the job, and after a slash its own.
MARK = "SB3_PVP_JOB"
#: Seconds that processes have to end on their own once they were told to (cli-config.md §2).
GRACE = 5.0

_POLL_SECONDS = 0.05
#: Seconds in which the system ends a process that cannot refuse.
_KILL_SECONDS = 5.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def members(mark: str) -> list[psutil.Process]:
    """What runs under this mark, children before their parents, without the present process."""
    seen = psutil.process_iter(["create_time", "environ", "ppid", "status"])
    running = [each for each in seen if each.info["status"] != psutil.STATUS_ZOMBIE]
    running.sort(key=lambda each: (each.info["create_time"], each.pid))  # parents before their children
    marks = {each.pid: (each.info["environ"] or {}).get(MARK) for each in running}
    sessions = {pid: _session(pid) for pid in marks}
    of_sessions = {sessions[pid]: found for pid, found in marks.items() if found}
    for each in running:  # whoever has lost the mark has that of the session, or of the parent
        marks[each.pid] = marks[each.pid] or of_sessions.get(sessions[each.pid]) or marks.get(each.info["ppid"])
    return [each for each in reversed(running) if each.pid != os.getpid() and _belongs(marks[each.pid], mark)]


def is_member(pid: int, mark: str) -> bool:
    """Whether the process with this number has this mark itself: no other one has it that gets the number later."""
    with contextlib.suppress(psutil.Error):
        return _belongs(psutil.Process(pid).environ().get(MARK), mark)
    return False


def stop(mark: str, grace: float = GRACE, supervisor: int | None = None) -> None:
    """Ends everything with this mark: children first, politely for ``grace`` seconds.

    ``supervisor``: the number of a process that ends by itself when all others are gone; it is spared if possible.
    """
    for signal_, seconds, spared in (
        (psutil.Process.terminate, grace, supervisor),
        (psutil.Process.kill, _KILL_SECONDS, supervisor),
        (psutil.Process.kill, _KILL_SECONDS, None),
    ):
        told: set[psutil.Process] = set()
        deadline = time.monotonic() + seconds
        while (left := members(mark)) and time.monotonic() < deadline:
            for process in left:
                if process not in told and process.pid != spared:
                    with contextlib.suppress(psutil.Error):  # it has just ended
                        signal_(process)
            told.update(left)
            time.sleep(_POLL_SECONDS)


class WatchedProcess:
    """A command in a session of its own, with all that it starts, which a small process between watches over.

    That one stops it when `close` is called, when this object is forgotten and when this process is gone, even if it
    was killed. Ctrl-C does not reach the command. Needs a POSIX system.

    Args:
        command: program and arguments.
        log: a file to which all its output is added.
        variables: of its environment, besides those of this process.
        cwd: where it runs.
        grace: see `GRACE`, which is the default.
        mark: makes it a job with this mark, which goes on when this process ends, and is over when the command is: what
            that leaves running is ended then, and the file `result_of` the log says how it went.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        variables: Mapping[str, str],
        cwd: str | os.PathLike[str] | None = None,
        grace: float | None = None,
        mark: str | None = None,
    ) -> None:
        self._mark = mark or f"{os.environ.get(MARK, '')}/{secrets.token_hex(16)}"
        self._grace = GRACE if grace is None else grace
        tie = str(result_of(log) if mark else os.getpid())
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, __file__, tie, str(self._grace), *command],
                stdin=subprocess.DEVNULL if mark else subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **variables, MARK: self._mark},
                cwd=cwd,
                start_new_session=True,
            )
        self.pid = self._process.pid  #: Of the process that watches.
        if mark:
            self._process.returncode = 0  # nobody waits for it

    def poll(self) -> int | None:
        """The exit code, or ``None`` while it runs; 128 and more: a signal has ended it."""
        code = self._process.poll()
        if code is not None and code < 0:  # the watcher itself was killed
            stop(self._mark, self._grace)
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
        stop(self._mark, self._grace)


def result_of(log: Path) -> Path:
    """The file that says how a job with this log has ended: its mark, the exit code, and when."""
    return log.with_suffix(".result.json")


def _belongs(found: str | None, mark: str) -> bool:
    return f"{found}/".startswith(f"{mark}/")


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:  # it has just ended
        return -pid


def _watch(tie: str, grace: str, *command: str) -> int:
    """Runs the command until all is to end, and ends it: its exit code, which a file may be for (see `result_of`)."""
    mark, parent = os.environ[MARK], int(tie) if tie.isdigit() else None
    for number in _SIGNALS:
        signal.signal(number, signal.default_int_handler)
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    except OSError as error:
        print(f"the command cannot be started: {error}", flush=True)
        code = 127
    else:
        with contextlib.suppress(KeyboardInterrupt):
            if parent is None:
                process.wait()
            # A script may have left what it started running in the background.
            while parent is not None and (process.poll() is None or members(mark)):
                is_told = select.select([0], [], [], 4 * _POLL_SECONDS)[0] and not os.read(0, 1 << 16)
                if is_told or os.getppid() != parent:
                    break
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        stop(mark, float(grace))
        code = process.wait()
        code = code if code >= 0 else 128 - code  # as shells say that a signal ended it
    if parent is None:
        partial = Path(f"{tie}.partial")
        partial.write_text(json.dumps({"mark": mark, "exit_code": code, "ended_at": time.time()}))
        partial.replace(tie)
    return code


if __name__ == "__main__":
    sys.exit(_watch(*sys.argv[1:]))
