"""Processes: how one is started, tied to its owner, found and ended with all that it has started.

Each `OwnedProcess` leads a session of its own, and has to end when its stdin does: then its owner has closed that, or
is gone, even if it was killed. Workers see to it themselves (`sb3_pvp.common.worker_pool`); for commands, a small
watcher does: `WatchedProcess`. What a command has started is found by an environment variable, which processes
inherit even if they outlive their parent or start a new session; one with a fresh environment is found by its session,
or by its parent while that lives.

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
from typing import IO, Any

#: The environment variable. Its value, the mark, is unique for each group; the mark of a group inside a job is that of
#: the job, a slash and an own part, so that stopping the job stops it too.
MARK = "SB3_PVP_JOB"
GRACE = 5.0  #: Seconds from SIGTERM to SIGKILL (cli-config.md §2).
SAVING_GRACE = 30.0  #: The same for what saves what it has: trainings end their step, servers write their players.
LOOK_SECONDS = 0.1  #: How often a process is looked at by whoever waits for it.
MAX_SILENCE = 1800.0  #: Seconds without any progress after which nothing is waited for any longer.
#: What is lost more often than this without any progress in between would be lost for ever.
MAX_LOSSES = 3
#: What stops a process; there is no SIGHUP on Windows.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))

_KILL_SECONDS = 5.0  # the longest wait for killed processes to disappear


def members(mark: str) -> list[int]:
    """Returns the numbers of the processes of a group, children before their parents, without the current process."""
    import psutil  # takes a while, and most watchers need it only at the end

    seen = psutil.process_iter(["create_time", "environ", "ppid", "status"])
    running = [each for each in seen if each.info["status"] != psutil.STATUS_ZOMBIE]
    # By age, so that parents come before their children: the loop below passes marks on from parents.
    running.sort(key=lambda each: (each.info["create_time"], each.pid))
    marks = {each.pid: (each.info["environ"] or {}).get(MARK) for each in running}
    sessions = {pid: -pid for pid in marks}  # numbers that no session has
    for pid in marks:
        with contextlib.suppress(OSError):  # it has just ended
            sessions[pid] = os.getsid(pid)
    of_sessions = {sessions[pid]: found for pid, found in marks.items() if found}
    for each in running:  # without a mark in its environment, it has that of its session or its parent
        marks[each.pid] = marks[each.pid] or of_sessions.get(sessions[each.pid]) or marks.get(each.info["ppid"])
    return [each.pid for each in reversed(running) if each.pid != os.getpid() and _belongs(marks[each.pid], mark)]


def is_member(pid: int, mark: str) -> bool:
    """Returns whether the process itself has this mark, which tells it from a later process with the same number."""
    import psutil

    with contextlib.suppress(psutil.Error):
        return _belongs(psutil.Process(pid).environ().get(MARK), mark)
    return False


def stop(mark: str, grace: float = GRACE, supervisor: int | None = None) -> None:
    """Stops all processes of a group, children first: SIGTERM, and SIGKILL after ``grace`` seconds.

    ``supervisor`` is the number of a process that exits when the others are gone; it is killed only as a last resort.
    """
    told, began = {supervisor}, time.monotonic()
    # Listed again each time: processes may start others while they are being stopped.
    while (left := members(mark)) and (late := time.monotonic() - began - grace) < 2 * _KILL_SECONDS:
        for pid in left:
            is_late = late >= (_KILL_SECONDS if pid == supervisor else 0.0)
            if is_late or pid not in told:
                with contextlib.suppress(OSError):  # it has just ended
                    os.kill(pid, signal.SIGKILL if is_late else signal.SIGTERM)
        told.update(left)
        time.sleep(LOOK_SECONDS)


class OwnedProcess(subprocess.Popen[bytes]):
    """A program that leads a session of its own, where Ctrl-C does not reach it, and that ends at the end of its stdin.

    Args:
        command: program and arguments.
        variables: added to the environment of this process.
        settings: others of `subprocess.Popen`.
    """

    stdin: IO[bytes] | None = None  # until it is started

    def __init__(self, command: Sequence[str], variables: Mapping[str, str], **settings: Any) -> None:
        given = {"stdin": subprocess.PIPE, "start_new_session": True, **settings}
        super().__init__(command, env={**os.environ, **variables}, **given)

    def request_stop(self) -> None:
        """Requests it to end, without waiting."""
        if self.stdin is not None:
            with contextlib.suppress(OSError):  # closing writes what is left to a pipe without a reader
                self.stdin.close()

    def close(self) -> None:
        """Kills it with all that it has started in its session; later calls do nothing."""
        if self.returncode is None:
            with contextlib.suppress(AttributeError, OSError):  # not on Windows; nobody is left
                os.killpg(self.pid, signal.SIGKILL)
            self.kill()
        self.request_stop()
        self.wait()

    def __del__(self) -> None:
        self.request_stop()  # Python keeps processes that still run, and so what they have open
        super().__del__()


class WatchedProcess(OwnedProcess):
    """A command with everything that it starts, in any session, under a small watcher process, which this object is.

    The watcher stops them all when `close` is called, when this object is garbage-collected, and when this process
    ends, even if it is killed. POSIX only.

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
            super().__init__(
                [sys.executable, __file__, tie, str(self._grace), *command],
                {"PYTHONUNBUFFERED": "1", **variables, MARK: self._mark},  # so that output is in the log at once
                stdin=subprocess.DEVNULL if mark else subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
            )
        if mark:
            self.returncode = 0  # subprocess would warn that a running child was not waited for

    def poll(self) -> int | None:
        """Returns the exit code (128 + n if signal n ended it), or ``None`` while it runs."""
        code = super().poll()
        if code is not None and code < 0:  # the watcher itself was killed
            stop(self._mark, self._grace)
            return 128 - code
        return code

    def close(self) -> None:
        """Stops the command and everything that it has started; later calls do nothing."""
        self.request_stop()
        self.wait()
        stop(self._mark, self._grace)  # what is left if the watcher itself was killed


def result_of(log: Path) -> Path:
    """Returns the path of the JSON file with a finished job's mark, exit code and time."""
    return log.with_suffix(".result.json")


def _belongs(found: str | None, mark: str) -> bool:
    """Returns whether a mark is this one, or that of a group inside it."""
    return f"{found}/".startswith(f"{mark}/")


def _watch(tie: str, grace: str, *command: str) -> int:
    """Runs the command until it ends or has to be stopped; returns its exit code and writes a job's result file."""
    mark, parent = os.environ[MARK], int(tie) if tie.isdigit() else None
    # Signals are only noted: an exception could come inside `poll` when it has reaped the command, and lose its exit
    # code. Later ones do not interrupt the cleanup.
    noted: list[int] = []
    for number in STOP_SIGNALS:
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
            is_closed = select.select(owner, [], [], LOOK_SECONDS)[0] and not os.read(0, 1 << 16)
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
