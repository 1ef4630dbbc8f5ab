"""The prediction server: one event loop that reads and writes, workers that decide (protocol.md §9)."""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from sb3_pvp.common.atomic_files import temporary_folder
from sb3_pvp.common.errors import did_you_mean
from sb3_pvp.common.open_files import ACCEPTED_AT_ONCE, allow_many_open_files, most_connections, start_accepting
from sb3_pvp.game import HOME_GAME
from sb3_pvp.policies.export.inference import AUTO
from sb3_pvp.policies.files.shipped import GRAPH, MODEL_SUFFIXES, shipped_names
from sb3_pvp.serving.batching import Batcher
from sb3_pvp.serving.connection import Connection, Limits
from sb3_pvp.serving.fighters import FighterSource, ModelFighter, ModelSource, script_sources
from sb3_pvp.serving.figures import ServerFigures, metrics_server
from sb3_pvp.serving.protocol import ServedFighter

logger = logging.getLogger(__name__)

#: Inode, time of the last change and size: one of them differs in any new version of a file.
_Version = tuple[int, int, int]
_TRY_AGAIN: _Version = (-1, -1, -1)  # of no file


class ModelFolder:
    """The model files of a folder, or a single one, and the scripts of a game by name; see `refresh`.

    Raises `FileNotFoundError` if there is no such folder or file, and `ValueError` for an unknown game.
    """

    def __init__(self, folder: Path, game: str, backend: str, device: str) -> None:
        if not folder.exists():
            hint = did_you_mean(folder, shipped_names())
            raise FileNotFoundError(
                f"there is no folder {folder}{hint}: pass --models FOLDER, with zip or fighter files in it"
            )
        self._folder, self._template = folder, ModelSource(folder, backend, device)
        #: The scripted fighters; a model hides a script of the same name.
        self.scripts = {name: self._serve(name, source) for name, source in script_sources(game).items()}
        self.errors: dict[str, str] = {}  #: Why the present version of a file cannot be served, by file name.
        self._models: dict[str, ServedFighter] = {}
        self._versions: dict[Path, _Version] = {}
        self._copies = temporary_folder()
        self._numbers = count()
        self._retired: list[Path] = []

    def refresh(self) -> dict[str, ServedFighter] | None:
        """Looks for new, changed and removed files; returns all fighters by name, ``None`` if nothing has changed.

        May run in another thread. A file that cannot be loaded is logged once, and its old version stays. Files are
        loaded from copies, because a file may be replaced at any moment. What the system refuses, such as a copy on a
        full disk, is tried again at each look.
        """
        found = self._find()
        changed = {path: version for path, version in found.items() if self._versions.get(path) != version}
        gone = self._models.keys() - {path.stem for path in found}
        self._versions = found
        for path in self._retired:  # at least one interval ago; no worker opens them any more
            shutil.rmtree(path.parent, ignore_errors=True)
        self._retired = []
        for name in gone:
            logger.info("%s: removed", name)
            self._retire(self._models.pop(name))
        names = {_printable(path.name) for path in found}
        self.errors = {name: text for name, text in self.errors.items() if name in names}
        has_new = [self._load(path) for path in changed]
        return self.scripts | self._models if gone or any(has_new) else None

    def close(self) -> None:
        """Deletes the copies."""
        self._copies.cleanup()

    def _find(self) -> dict[Path, _Version]:
        """Returns the model files with their versions."""
        found: dict[str, tuple[Path, _Version]] = {}
        try:
            # Of two files with the same name, the fighter file is served.
            listed = [self._folder] if self._folder.is_file() else self._folder.iterdir()
            paths = sorted(listed, key=lambda path: (path.suffix, path.name))
        except OSError as error:  # such as a network drive that is away for a moment
            logger.warning("%s cannot be read, so all models stay: %s", self._folder, error)
            return self._versions
        for path in paths:
            # Hidden files are those that are still being written.
            is_model = path.suffix in {*MODEL_SUFFIXES} - {GRAPH} and not path.name.startswith(".")
            if is_model and path.stem not in found and path.is_file():
                status = path.stat()
                found[path.stem] = path, (status.st_ino, status.st_mtime_ns, status.st_size)
        return dict(found.values())

    def _load(self, path: Path) -> bool:
        """Loads one file; returns whether it can be served."""
        copy = Path(self._copies.name) / str(next(self._numbers)) / path.name
        name = _printable(path.name)
        try:
            if name != path.name:  # no reply could list it
                raise ValueError("its name is not UTF-8; rename it")
            copy.parent.mkdir()
            shutil.copyfile(path, copy)
            made = self._serve(path.stem, replace(self._template, path=copy))
        except Exception as error:  # whatever is in a file, the server continues
            shutil.rmtree(copy.parent, ignore_errors=True)
            text = str(error).replace(str(copy), str(path)).replace(str(copy.parent), self._copies.name)
            text = _printable(" ".join(text.split()) or type(error).__name__)
            if isinstance(error, OSError):
                self._versions[path] = _TRY_AGAIN
            if self.errors.get(name) != text or not isinstance(error, OSError):
                stays = ", so its old version stays" if path.stem in self._models else ""
                logger.warning("%s cannot be served%s: %s", name, stays, text)
            self.errors[name] = text
            return False
        self.errors.pop(name, None)
        if path.stem in self._models:
            self._retire(self._models[path.stem])
        self._models[path.stem] = made
        form = made.form
        logger.info("%s: serving %s (%d x %d features)", path.stem, path.name, form.num_frames, form.num_features)
        return True

    def _serve(self, name: str, source: FighterSource) -> ServedFighter:
        fighter = source.open()
        if isinstance(source, ModelSource) and isinstance(fighter, ModelFighter):
            source = replace(source, backend=fighter.backend_name)  # all workers take the one that was measured here
        return ServedFighter(name, source, fighter)

    def _retire(self, old: ServedFighter) -> None:
        if isinstance(old.source, ModelSource):
            self._retired.append(old.source.path)


def _printable(text: str) -> str:
    """Returns a text with the names of files as it can be sent, whatever bytes are in them."""
    return text.encode(errors="backslashreplace").decode()


DEFAULT_PORT = 9999
#: Seconds that clients have to read the last replies when the server stops.
_STOP_TIMEOUT = 10.0
#: Checks for idle connections within the idle timeout.
_IDLE_CHECKS = 10


@dataclass(frozen=True)
class ServerSettings:
    """How to serve."""

    models: Path  #: Folder of model files, or one of them; the name of a model is that of its file without ending.
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT  #: 0 picks a free one.
    game: str = HOME_GAME  #: The game whose scripted fighters are served too.
    backend: str = AUTO  #: One of `sb3_pvp.policies.export.inference.BACKENDS`, or ``"auto"``.
    device: str = "cpu"  #: PyTorch device of the models.
    workers: int = 0  #: Processes that run batches; 0: the event loop does, the fastest on few cores.
    max_batch_size: int = 256  #: Requests in a batch.
    reload_interval: float = 1.0  #: Seconds between looks into the folder; 0: never.
    metrics_port: int | None = None  #: Of ``/health`` and ``/metrics``; 0 picks a free one, ``None``: none.
    is_strict: bool = False  #: Close the connection at a bad request without a word, as the original does.
    limits: Limits = field(default_factory=Limits)


class Server:
    """A server while it runs: what its connections share. Use it as an asynchronous context manager.

    Raises, when it is entered, `OSError` if an address cannot be bound or there is no folder of models, and
    `ValueError` for other impossible settings.
    """

    batcher: Batcher
    port: int  #: That it listens on.
    metrics_port: int | None = None  #: Of ``/health`` and ``/metrics``.

    def __init__(self, settings: ServerSettings) -> None:
        self.settings, self.is_strict = settings, settings.is_strict
        self.limits = replace(settings.limits, max_connections=most_connections(settings.limits.max_connections))
        self.figures = ServerFigures()
        self.fighters: Mapping[str, ServedFighter] = {}  #: Those served at this moment, by name.
        # Where all connections receive: a new one per read would take as long as the rest of the event loop.
        self.buffer = memoryview(bytearray(1 << 16))
        self._connections: set[Connection] = set()
        self._start, self._is_stopping = time.monotonic(), False
        self._closing = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Server:
        """Loads the models, then accepts connections."""
        settings, loop = self.settings, asyncio.get_running_loop()
        try:
            # Before the models are loaded, which takes time: an address in use should fail at once.
            self._listener = await loop.create_server(
                lambda: Connection(self), settings.host, settings.port, backlog=ACCEPTED_AT_ONCE, start_serving=False
            )
            self._closing.callback(self._listener.close)
            self.port = self._listener.sockets[0].getsockname()[1]
            self._folder = ModelFolder(settings.models, settings.game, settings.backend, settings.device)
            self._closing.callback(self._folder.close)
            self.fighters = self._folder.scripts
            self.batcher = Batcher(settings.workers, settings.max_batch_size)
            self._closing.callback(self.batcher.close)
            await self._refresh()
            if settings.metrics_port is not None:
                given = settings.host, settings.metrics_port, self.figures, self.health
                self.metrics_port, self.batcher.count = await self._closing.enter_async_context(metrics_server(*given))
            await start_accepting(self._listener)
        except BaseException:
            await self._closing.aclose()
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
        await self._closing.aclose()

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

    async def _refresh(self) -> None:
        """Serves what is in the folder now."""
        fighters = await asyncio.get_running_loop().run_in_executor(None, self._folder.refresh)
        if fighters is not None:
            await self.batcher.prepare(fighter.source for fighter in fighters.values())
            self.fighters = fighters

    async def _watch_folder(self) -> None:
        while True:
            await asyncio.sleep(self.settings.reload_interval)
            try:
                await self._refresh()
            except Exception:  # the present models stay
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
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)  # until the loop is closed
    async with Server(settings) as server:
        on_listening(server)
        await stop.wait()
