"""The prediction server: one event loop that reads and writes, workers that decide (protocol.md §9)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sb3_pvp.common.open_files import allow_many_open_files
from sb3_pvp.game import HOME_GAME
from sb3_pvp.policies.export.inference import AUTO
from sb3_pvp.serving.batching import Batcher
from sb3_pvp.serving.connection import Connection, Limits
from sb3_pvp.serving.figures import Figures, ServerFigures, metrics_server
from sb3_pvp.serving.models import ModelFolder, ServedFighter
from sb3_pvp.serving.workers import Workers

logger = logging.getLogger(__name__)

DEFAULT_PORT = 9999
#: Connections that may wait to be accepted.
_BACKLOG = 4096
#: Seconds that clients have to read the last replies when the server stops.
_STOP_TIMEOUT = 10.0
#: Checks for idle connections within the idle timeout.
_IDLE_CHECKS = 10


@dataclass(frozen=True)
class ServerSettings:
    """How to serve.

    Attributes:
        models: folder of model files; the name of a model is that of its file without ending.
        host: address to listen on.
        port: port to listen on; 0 picks a free one.
        game: the game whose scripted fighters are served too.
        backend: one of `sb3_pvp.policies.export.inference.BACKENDS`, or ``"auto"``, see
            `sb3_pvp.policies.export.inference.automatic_backend`.
        device: PyTorch device of the models.
        workers: number of workers that run batches; 0: the event loop does, the fastest on few cores.
        worker_type: ``"thread"`` or ``"process"``.
        max_batch_size: requests in a batch.
        reload_interval: seconds between looks into the folder; 0: never.
        metrics_port: port of ``/health`` and ``/metrics``; 0 picks a free one, ``None``: none.
        is_strict: close the connection at a bad request without a word, as the original does.
        limits: see `Limits`.
    """

    models: Path
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    game: str = HOME_GAME
    backend: str = AUTO
    device: str = "cpu"
    workers: int = 0
    worker_type: str = "thread"
    max_batch_size: int = 256
    reload_interval: float = 1.0
    metrics_port: int | None = None
    is_strict: bool = False
    limits: Limits = field(default_factory=Limits)


class Server:
    """A server while it runs: what its connections share. Use it as an asynchronous context manager.

    Raises, when it is entered, `OSError` if an address cannot be bound or there is no folder of models, and
    `ValueError` for other impossible settings.

    Attributes:
        fighters: the fighters served at this moment, by name.
        buffer: where all connections receive; a new one per read would take as long as the rest of the event loop.
        port: the port that it listens on.
        metrics_port: the port of ``/health`` and ``/metrics``, or ``None``.
    """

    batcher: Batcher
    port: int
    metrics_port: int | None = None

    def __init__(self, settings: ServerSettings) -> None:
        self.settings, self.limits, self.is_strict = settings, settings.limits, settings.is_strict
        self.figures = ServerFigures()
        self.fighters: Mapping[str, ServedFighter] = {}
        self.buffer = memoryview(bytearray(1 << 16))
        self._connections: set[Connection] = set()
        self._start, self._is_stopping = time.monotonic(), False
        self._closing = ExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Server:
        """Loads the models, then accepts connections."""
        settings, loop = self.settings, asyncio.get_running_loop()
        try:
            # Before the models are loaded, which takes time: an address in use should fail at once.
            self._listener = await loop.create_server(
                lambda: Connection(self), settings.host, settings.port, backlog=_BACKLOG, start_serving=False
            )
            self._closing.callback(self._listener.close)
            self.port = self._listener.sockets[0].getsockname()[1]
            self._folder = ModelFolder(settings.models, settings.game, settings.backend, settings.device)
            self._closing.callback(self._folder.close)
            self.fighters = self._folder.scripts
            self._workers = Workers(settings.workers, settings.worker_type)
            self._closing.callback(self._workers.close)
            self.batcher = Batcher(self._workers, settings.max_batch_size)
            await self._refresh()
            if settings.metrics_port is not None:
                given = settings.host, settings.metrics_port, self.figures, self._figures_by_name, self.health
                self.metrics_port = self._closing.enter_context(metrics_server(*given))
            await self._listener.start_serving()
        except BaseException:
            self._closing.close()
            raise
        if settings.reload_interval:
            self._tasks.append(loop.create_task(self._watch_folder()))
        if self.limits.idle_timeout:
            self._tasks.append(loop.create_task(self._close_idle()))
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Stops accepting, answers everything that has been received, and closes all connections."""
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._listener.close()
        for _ in range(2):  # reads what the system has received
            await asyncio.sleep(0)
        for connection in [*self._connections]:
            connection.finish()
        deadline = time.monotonic() + _STOP_TIMEOUT
        while self._connections and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        for connection in [*self._connections]:
            connection.abort()
        await self.batcher.drain()
        # In a thread: /health is answered by this event loop, and closing waits for that.
        await asyncio.get_running_loop().run_in_executor(None, self._closing.close)

    def add(self, connection: Connection) -> bool:
        """Adds a connection, unless there are as many as allowed."""
        if len(self._connections) >= self.limits.max_connections:
            self.figures.turned_away += 1
            return False
        self._connections.add(connection)
        self.figures.accepted += 1
        self.figures.connections = len(self._connections)
        return True

    def remove(self, connection: Connection) -> None:
        """Removes a connection, if it was added."""
        self._connections.discard(connection)
        self.figures.connections = len(self._connections)

    def health(self) -> dict[str, Any]:
        """Returns plain values; the status is ``"ok"``, or ``"stopping"``."""
        return {
            "status": "stopping" if self._is_stopping else "ok",
            "models": sorted(self.fighters),
            "errors": dict(self._folder.errors),
            "connections": len(self._connections),
            "uptime_s": time.monotonic() - self._start,
        }

    def _figures_by_name(self) -> dict[str, Figures]:
        return {name: fighter.figures for name, fighter in self.fighters.items()}

    async def _refresh(self) -> None:
        """Serves what is in the folder now."""
        fighters = await asyncio.get_running_loop().run_in_executor(None, self._folder.refresh)
        if fighters is not None:
            await self._workers.prepare(fighter.source for fighter in fighters.values())
            self.fighters = fighters

    async def _watch_folder(self) -> None:
        while True:
            await asyncio.sleep(self.settings.reload_interval)
            try:
                await self._refresh()
            except Exception:  # such as a full disk; the present models stay
                logger.exception("the folder of models could not be looked through")

    async def _close_idle(self) -> None:
        while True:
            await asyncio.sleep(self.limits.idle_timeout / _IDLE_CHECKS)
            now = time.perf_counter()
            for connection in [*self._connections]:
                connection.close_if_idle(now)


def run_server(settings: ServerSettings, on_listening: Callable[[Server], object]) -> None:
    """Serves until SIGINT or SIGTERM; calls ``on_listening`` as soon as clients can connect. Raises as `Server`."""
    allow_many_open_files()
    asyncio.run(_run(settings, on_listening))


async def _run(settings: ServerSettings, on_listening: Callable[[Server], object]) -> None:
    stop = asyncio.Event()
    with _signals(stop.set):
        async with Server(settings) as server:
            on_listening(server)
            await stop.wait()


@contextlib.contextmanager
def _signals(call: Callable[[], object]) -> Iterator[None]:
    """Calls a function at SIGINT and SIGTERM."""
    loop, numbers = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, call)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
