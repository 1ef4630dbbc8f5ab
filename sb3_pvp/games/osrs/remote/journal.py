"""The agents of a world that are on a server, in a file that outlives the process that plays them.

Each world has its own journal, locked for as long as its process or its guard is alive. An unlocked one is stale: its
process was killed together with the guard, and the next run on that server logs its agents out.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from sb3_pvp.games.osrs.remote.guard_process import agents_in

_FOLDER, _SUFFIX = "agents", ".agents"


class Journal:
    """A new journal for the agents on ``host:port``; for systems with POSIX locks.

    Attributes:
        descriptor: of the file; a process that inherits it keeps the lock.
        path: of the file, until `close`.
    """

    def __init__(self, host: str, port: int) -> None:
        folder = cache_folder(_FOLDER) or Path(tempfile.gettempdir())
        self.path = folder / f"{_prefix(host, port)}{secrets.token_hex(8)}{_SUFFIX}"
        # Renamed when it is locked: another run would take an unlocked journal for a stale one.
        unlocked = self.path.with_suffix(".new")
        self.descriptor = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        with contextlib.suppress(OSError):  # Some file systems have no locks.
            _lock(self.descriptor)
        unlocked.rename(self.path)

    def record(self, sign: str, agent_id: str) -> None:
        """Appends an agent's new state, ``sign`` of `sb3_pvp.games.osrs.remote.guard_process`."""
        # A full disk must not stop the training.
        with contextlib.suppress(OSError):
            os.write(self.descriptor, f"{sign}{agent_id}\n".encode())

    def clear(self) -> None:
        """Removes all entries: no agent is on the server."""
        with contextlib.suppress(OSError):
            os.ftruncate(self.descriptor, 0)

    def close(self, remove: bool) -> None:
        """Closes the file, and with ``remove`` deletes it."""
        if remove:
            self.path.unlink(missing_ok=True)
        os.close(self.descriptor)


@contextmanager
def stale_journals(host: str, port: int) -> Iterator[dict[Path, list[str]]]:
    """Yields the stale journals of a server and the agents in them, locked against other runs for that time."""
    left: dict[Path, list[str]] = {}
    with contextlib.ExitStack() as locks:
        folder = cache_folder(_FOLDER)
        for path in sorted(folder.glob(f"{_prefix(host, port)}*{_SUFFIX}")) if folder else []:
            with contextlib.suppress(OSError):
                descriptor = os.open(path, os.O_RDWR)
                locks.callback(os.close, descriptor)
                _lock(descriptor)
                left[path] = list(agents_in(descriptor))
        yield left


def _lock(descriptor: int) -> None:
    """Locks a file until it is closed; raises `OSError` if another process has locked it."""
    import fcntl  # Not on every system.

    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _prefix(host: str, port: int) -> str:
    return f"{quote(host, safe='')}_{port}-"


def cache_folder(name: str) -> Path | None:
    """Returns a folder for files of this user, or ``None`` if there can be none."""
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: there is no home folder.
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sb3_pvp" / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    return None
