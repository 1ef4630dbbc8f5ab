"""The process between this one and a command, such as a user's server: it stops that when its parent is gone.

It is started as a file, with the standard library only. The end of its input tells it to stop the server, and so does
the end of its parent, however that came. Its arguments are the process id of the parent, the seconds between the polite
signal and the last one, and the command of the server.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

#: In the environment of everything that the command starts; its value is different for each server.
COOKIE = "SB3_PVP_WATCHED"

POLL_SECONDS = 0.2


def main(parent: int, grace: float, command: list[str]) -> int:
    """Runs the command until it and everything it started has ended, or until it is to be stopped."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        # Signals that are ignored would stay so in the server.
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_default_signals
        )
    except OSError as error:
        print(f"the command cannot be started: {error}", flush=True)
        return 127
    while os.getppid() == parent:
        if select.select([0], [], [], POLL_SECONDS)[0] and not os.read(0, 1 << 16):
            break
        # A script may have left its server running in the background.
        if server.poll() is not None and not members(server.pid, os.environ[COOKIE]):
            break
    stop(server.pid, os.environ[COOKIE], grace)
    code = server.wait()
    return code if code >= 0 else 128 - code  # as shells say that a signal ended it


def stop(group: int, cookie: str, grace: float) -> None:
    """Ends everything that belongs to the server, politely for ``grace`` seconds."""
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, 5.0)):
        deadline = time.monotonic() + seconds
        told: set[int] = set()
        while (left := members(group, cookie)) and time.monotonic() < deadline:
            for pid in left - told:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
            told |= left
            time.sleep(POLL_SECONDS / 4)


def members(group: int, cookie: str) -> set[int]:
    """Process ids of what is left of the server: its process group and, where that can be seen, all who have inherited
    its environment, even if they have a group of their own. Elsewhere the negative number of the group."""
    if not os.path.isdir("/proc/self"):
        try:
            os.kill(-group, 0)
        except OSError:
            return set()
        return {-group}
    mark = f"{COOKIE}={cookie}".encode()
    pids = {int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()} - {os.getpid(), os.getppid()}
    return {pid for pid in pids if _is_member(pid, group, mark)}


def _is_member(pid: int, group: int, mark: bytes) -> bool:
    folder = Path("/proc", str(pid))
    try:
        state, _, its_group = (folder / "stat").read_bytes().rpartition(b")")[2].split()[:3]
        if state == b"Z" or folder.stat().st_uid != os.getuid():
            return False
        return int(its_group) == group or mark in (folder / "environ").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return False  # It has just ended.


def _default_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
