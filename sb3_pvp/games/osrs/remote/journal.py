"""Which agents are on a server, in a file that outlives whoever plays them.

Each world has a journal of its own, locked for as long as its process or its guard is alive. A journal that nobody
has locked is all that is left of a run that was killed together with its guard: the next run on that server logs its
agents out.
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

_SUFFIX = ".agents"


class Journal:
    """A new journal for the agents on ``host:port``; for systems with POSIX locks.

    Attributes:
        descriptor: of the file; a process that inherits it keeps the lock.
        path: where the file is, until `close`.
    """

    def __init__(self, host: str, port: int) -> None:
        folder = _folder() or Path(tempfile.gettempdir())
        self.path = folder / f"{_prefix(host, port)}{secrets.token_hex(8)}{_SUFFIX}"
        unlocked = self.path.with_suffix(".new")
        self.descriptor = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        with contextlib.suppress(OSError):
            _lock(self.descriptor)
        unlocked.rename(self.path)

    def record(self, sign: str, agent_id: str) -> None:
        """Something happened to an agent: a sign of `sb3_pvp.games.osrs.remote.guard_process`."""
        # A full disk is no reason not to play.
        with contextlib.suppress(OSError):
            os.write(self.descriptor, f"{sign}{agent_id}\n".encode())

    def clear(self) -> None:
        """Nobody is on the server."""
        with contextlib.suppress(OSError):
            os.ftruncate(self.descriptor, 0)

    def close(self, remove: bool) -> None:
        """Lets go of the file; ``remove``: it is needed no more."""
        if remove:
            self.path.unlink(missing_ok=True)
        os.close(self.descriptor)


@contextmanager
def stale_journals(host: str, port: int) -> Iterator[dict[Path, list[str]]]:
    """The journals that runs on this server have left behind, and who is in them; locked in the meantime."""
    left: dict[Path, list[str]] = {}
    with contextlib.ExitStack() as locks:
        folder = _folder()
        for path in sorted(folder.glob(f"{_prefix(host, port)}*{_SUFFIX}")) if folder else []:
            with contextlib.suppress(OSError):
                descriptor = os.open(path, os.O_RDWR)
                locks.callback(os.close, descriptor)
                _lock(descriptor)
                left[path] = list(agents_in(descriptor))
        yield left


def _lock(descriptor: int) -> None:
    """Locks a file until it is closed; raises `OSError` if another process has locked it."""
    import fcntl  # not on every system

    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _prefix(host: str, port: int) -> str:
    return f"{quote(host, safe='')}_{port}-"


def _folder() -> Path | None:
    """Where journals are, of this user only; ``None`` if there can be no such place."""
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: no home
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sb3_pvp" / "agents"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    return None
