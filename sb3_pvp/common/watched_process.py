"""Groups of processes, such as those of a job: how to find and stop all of them, and a watcher that does so.

A group is marked by an environment variable, which child processes inherit even if they outlive their parent or start
a new session. A process with a fresh environment is found by its session, or by its parent while that lives.

Run as a script, this file is the watcher. It imports nothing from this package, so that it starts quickly.
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

#: The environment variable. Its value, the mark, is unique for each group; the mark of a group inside a job is that of
#: the job, a slash and an own part, so that stopping the job stops it too.
MARK = "SB3_PVP_JOB"
GRACE = 5.0  #: Seconds from SIGTERM to SIGKILL (cli-config.md §2).

_POLL_SECONDS = 0.05
_KILL_SECONDS = 5.0  # the longest wait for killed processes to disappear
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def members(mark: str) -> list[psutil.Process]:
    """Returns the processes of this group, children before their parents, without the current process."""
    seen = psutil.process_iter(["create_time", "environ", "ppid", "status"])
    running = [each for each in seen if each.info["status"] != psutil.STATUS_ZOMBIE]
    # By age, so that parents come before their children: the loop below passes marks on from parents.
    running.sort(key=lambda each: (each.info["create_time"], each.pid))
    marks = {each.pid: (each.info["environ"] or {}).get(MARK) for each in running}
    sessions = {pid: _session(pid) for pid in marks}
    of_sessions = {sessions[pid]: found for pid, found in marks.items() if found}
    for each in running:  # without a mark in its environment, it has that of its session or its parent
        marks[each.pid] = marks[each.pid] or of_sessions.get(sessions[each.pid]) or marks.get(each.info["ppid"])
    return [each for each in reversed(running) if each.pid != os.getpid() and _belongs(marks[each.pid], mark)]


def is_member(pid: int, mark: str) -> bool:
    """Returns whether the process itself has this mark, which tells it from a later process with the same number."""
    with contextlib.suppress(psutil.Error):
        return _belongs(psutil.Process(pid).environ().get(MARK), mark)
    return False


def stop(mark: str, grace: float = GRACE, supervisor: int | None = None) -> None:
    """Stops all processes of a group, children first: SIGTERM, and SIGKILL after ``grace`` seconds.

    ``supervisor`` is the number of a process that exits when the others are gone; it is killed only as a last resort.
    """
    for signal_, seconds, spared in (
        (psutil.Process.terminate, grace, supervisor),
        (psutil.Process.kill, _KILL_SECONDS, supervisor),
        (psutil.Process.kill, _KILL_SECONDS, None),
    ):
        signalled: set[psutil.Process] = set()
        deadline = time.monotonic() + seconds
        # Listed again each time: processes may start others while they are being stopped.
        while (left := members(mark)) and time.monotonic() < deadline:
            for process in left:
                if process not in signalled and process.pid != spared:
                    with contextlib.suppress(psutil.Error):  # it has just ended
                        signal_(process)
            signalled.update(left)
            time.sleep(_POLL_SECONDS)


class WatchedProcess:
    """A command in a new session, with everything that it starts, under a small watcher process.

    The watcher stops them all when `close` is called, when this object is garbage-collected, and when this process
    ends, even if it is killed. Ctrl-C does not reach the command. POSIX only.

    Args:
        command: program and arguments.
        log: a file to which the output is appended.
        variables: added to the environment of this process.
        cwd: its working directory.
        grace: by default `GRACE`.
        mark: if given, the command is a job with this mark, which outlives this process. When the command ends, what it
            left running is stopped, and the result is written to the file `result_of` the log.
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
        # The watcher's first argument: the file for a job's result, or the process to whose life the command is tied.
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
        self.pid = self._process.pid  #: Of the watcher.
        if mark:
            self._process.returncode = 0  # subprocess would warn that a running child was not waited for

    def poll(self) -> int | None:
        """Returns the exit code (128 + n if signal n ended it), or ``None`` while it runs."""
        code = self._process.poll()
        if code is not None and code < 0:  # the watcher itself was killed
            stop(self._mark, self._grace)
            return 128 - code
        return code

    def wait(self) -> int:
        """Waits until it ends by itself, and returns its exit code."""
        return self._process.wait()

    def request_stop(self) -> None:
        """Requests the watcher to stop the command, without waiting."""
        assert self._process.stdin is not None  # only jobs have none
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def close(self) -> None:
        """Stops it and everything that it has started; later calls do nothing."""
        self.request_stop()
        self._process.wait()
        # What is left if the watcher itself was killed.
        stop(self._mark, self._grace)


def result_of(log: Path) -> Path:
    """Returns the path of the JSON file with a finished job's mark, exit code and time."""
    return log.with_suffix(".result.json")


def _belongs(found: str | None, mark: str) -> bool:
    """Returns whether a mark is this one, or that of a group inside it."""
    return f"{found}/".startswith(f"{mark}/")


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:  # it has just ended; a number that no session has
        return -pid


def _watch(tie: str, grace: str, *command: str) -> int:
    """Runs the command until it ends or has to be stopped; returns its exit code and writes a job's result file."""
    mark, parent = os.environ[MARK], int(tie) if tie.isdigit() else None
    # Signals are only noted: an exception could come inside `poll` when it has reaped the command, and lose its exit
    # code. Later ones do not interrupt the cleanup.
    noted: list[int] = []
    for number in _SIGNALS:
        signal.signal(number, lambda number, _: noted.append(number))
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    except OSError as error:
        print(f"the command cannot be started: {error}", flush=True)
        code = 127
    else:
        owner = [] if parent is None else [0]
        # `members`: a script may exit before what it has started in the background.
        while not noted and (process.poll() is None or (parent is not None and members(mark))):
            # End of file on stdin: the other end was closed, by `request_stop` or because the owner is gone.
            is_closed = select.select(owner, [], [], _POLL_SECONDS)[0] and not os.read(0, 1 << 16)
            if parent is not None and (is_closed or os.getppid() != parent):
                break
        stop(mark, float(grace))
        code = process.wait()
        code = code if code >= 0 else 128 - code  # the convention of shells for signals
    if parent is None:
        partial = Path(f"{tie}.partial")
        partial.write_text(json.dumps({"mark": mark, "exit_code": code, "ended_at": time.time()}))
        partial.replace(tie)
    return code


if __name__ == "__main__":
    sys.exit(_watch(*sys.argv[1:]))
