"""A server in a thread, and a client that was written from the protocol's description and shares no code with ours."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sb3_pvp.serving.connection import Limits
from sb3_pvp.serving.server import Server, ServerSettings


class RunningServer:
    """A server with its event loop in another thread."""

    def __init__(self, settings: ServerSettings) -> None:
        self._loop = asyncio.new_event_loop()
        self._settings, self._stop = settings, asyncio.Event()
        self._ready, self._error = threading.Event(), None
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),))
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            raise self._error

    @property
    def port(self) -> int:
        return self.server.port

    @contextmanager
    def busy(self) -> Iterator[None]:
        """The event loop does nothing meanwhile, so that all that is sent to it arrives at once."""
        has_begun, may_go_on = threading.Event(), threading.Event()

        def wait() -> None:
            has_begun.set()
            may_go_on.wait(30)

        self._loop.call_soon_threadsafe(wait)
        assert has_begun.wait(30)
        try:
            yield
        finally:
            may_go_on.set()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
            self._loop.close()

    async def _run(self) -> None:
        try:
            async with Server(self._settings) as self.server:
                self._ready.set()
                await self._stop.wait()
        except BaseException as error:
            self._error = error  # type: ignore[assignment]
            self._ready.set()


@contextmanager
def serving(folder: Path, limits: Limits | None = None, **settings: Any) -> Iterator[RunningServer]:
    given = {"port": 0, "backend": "compiled", "reload_interval": 0.02, "limits": limits or Limits()} | settings
    running = RunningServer(ServerSettings(folder, **given))
    try:
        yield running
    finally:
        running.stop()


class RawClient:
    """One JSON object per line in each direction."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.file = self.socket.makefile("rb")

    def send(self, *lines: bytes) -> None:
        self.socket.sendall(b"".join(line + b"\n" for line in lines))

    def receive(self) -> Any:
        """The next reply; ``None`` if the server has closed the connection."""
        line = self.file.readline()
        return json.loads(line) if line else None

    def ask(self, line: bytes | dict[str, Any]) -> Any:
        self.send(line if isinstance(line, bytes) else json.dumps(line).encode())
        return self.receive()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.socket.close()
