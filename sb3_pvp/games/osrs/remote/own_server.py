"""`OwnServer`: the server that a world starts for itself."""

from __future__ import annotations

import os
import socket
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from sb3_pvp.games.osrs.remote.address import PORT_VARIABLE, RemoteSettings
from sb3_pvp.games.osrs.remote.client_errors import RemoteError
from sb3_pvp.games.osrs.remote.journal import cache_folder
from sb3_pvp.games.osrs.remote.launcher import HOST, RspsServer

#: How often a server is started on other ports, if another program has taken its own meanwhile.
ATTEMPTS = 3
#: A server that ends sooner than so many seconds after its start is not started again.
SHORT_LIFE = 60.0
#: Files with the output of servers that are kept.
KEPT_LOGS = 50


class OwnServer:
    """A running server of one world, on free ports, started with the ``launch`` command of these settings.

    Raises `RemoteError` if it does not come up.

    Attributes:
        settings: those for its clients, with its host and port.
    """

    def __init__(self, settings: RemoteSettings) -> None:
        self._pid, self._held = os.getpid(), ExitStack()
        for attempt in range(ATTEMPTS):
            self._ports = [self._held.enter_context(_reserved_port()) for _ in range(2)]
            try:
                self._server = _started(settings, *self._ports)
                break
            except BaseException as error:
                if attempt == ATTEMPTS - 1 or not isinstance(error, RemoteError) or all(map(_is_free, self._ports)):
                    self._held.close()
                    raise
        self._began = time.monotonic()
        self.settings = replace(settings, host=HOST, port=self._server.port)

    def keep_running(self) -> None:
        """Starts a server that has ended again, on the same ports; raises `RemoteError` if it had a short life."""
        if fault := self.fault():
            if time.monotonic() - self._began < SHORT_LIFE:
                raise RemoteError(fault)
            warnings.warn(f"{fault}\nIt is started again", stacklevel=2)
            self._server.close()
            self._server = _started(self.settings, *self._ports)
            self._began = time.monotonic()

    def fault(self) -> str | None:
        """Returns how a server that has ended did so, ``None`` while it runs."""
        code = self._server.poll() if self._is_mine() else None
        return None if code is None else self._server.with_log(f"the server of a world ended with exit code {code}")

    def close(self) -> None:
        """Stops the server; later calls do nothing."""
        if self._is_mine():
            self._server.close()
            self._held.close()

    def _is_mine(self) -> bool:
        return os.getpid() == self._pid  # and not in a process that was forked from this one


def _started(settings: RemoteSettings, port: int, game_port: int) -> RspsServer:
    # As `env`, which overrides variables that are set: they would be the ports of all servers.
    ports = {PORT_VARIABLE: str(port), "GAME_PORT": str(game_port)}
    command, timeout = settings.launch_command(), settings.launch_timeout
    try:
        server = RspsServer(
            command, log_file=_new_log(port), start_timeout=timeout, env=ports, cwd=settings.launch_cwd or None
        )
    except (ValueError, RuntimeError) as error:
        raise RemoteError(f"cannot start a server: {error}") from error
    server.start()
    return server


def _new_log(port: int) -> str:
    """Returns an empty file for the output of a server, and removes the oldest ones."""
    folder = cache_folder("servers") or Path(tempfile.gettempdir())
    descriptor, path = tempfile.mkstemp(".log", f"rsps-{port}-", folder)
    os.close(descriptor)
    with suppress(OSError):  # another process may remove them too
        for old in sorted(folder.glob("rsps-*-*.log"), key=os.path.getmtime)[:-KEPT_LOGS]:
            old.unlink()
    return path


@contextmanager
def _reserved_port() -> Iterator[int]:
    """Yields a free port that no other `OwnServer` of this machine gets meanwhile."""
    # The TCP port cannot be held for the server. Instead each process holds the UDP port of the same number.
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as held:
            held.bind((HOST, 0))
            port: int = held.getsockname()[1]
            if _is_free(port):
                yield port
                return


def _is_free(port: int) -> bool:
    with suppress(OSError), socket.create_server((HOST, port)):
        return True
    return False
