"""Sockets: one event loop, JSON lines in and out (``protocol.md`` §1)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable

import numpy as np

from sb3_pvp.rsps.arena import AGENT_TYPES, Arenas
from sb3_pvp.rsps.errors import FramingError
from sb3_pvp.rsps.fight_pool import ServedWorld, WorldFactory
from sb3_pvp.rsps.lobby import Lobby
from sb3_pvp.rsps.messages import MAX_LINE, parse_request
from sb3_pvp.world import NUM_SEATS

logger = logging.getLogger(__name__)


class Connection(asyncio.Protocol):
    """One client. Agents are not bound to connections: any connection may speak for any agent."""

    def __init__(self, lobby: Lobby, connections: set[Connection]) -> None:
        self._lobby = lobby
        self._connections = connections
        self._transport: asyncio.WriteTransport | None = None
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remembers where to write to."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Answers that are still to come are dropped; the agents stay logged in."""
        self._transport = None
        self._connections.discard(self)

    def data_received(self, data: bytes) -> None:
        """Handles the complete lines of what has arrived so far."""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        try:
            for line in lines:
                self._handle(line.removesuffix(b"\r"))
            if len(self._buffer) > MAX_LINE:
                raise FramingError("line too long")
        except FramingError as error:
            logger.warning("connection closed: %s", error)
            self.close()

    def _handle(self, line: bytes) -> None:
        if len(line) > MAX_LINE:
            raise FramingError("line too long")
        self._lobby.handle(parse_request(line), self.send)

    def send(self, line: bytes) -> None:
        """Writes a reply line, unless the client is gone."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(line)

    def close(self) -> None:
        """Sends what is still to be sent and hangs up."""
        self._buffer = b""
        if self._transport is not None:
            self._transport.close()


async def serve(
    host: str = "127.0.0.1",
    port: int = 7070,
    seed: int = 0,
    make_world: WorldFactory | None = None,
    on_listening: Callable[[int], object] | None = None,
) -> None:
    """Serves the embedded world until the task is cancelled.

    ``on_listening`` is called with the port (also when ``port`` was 0) as soon as clients can connect, which is after
    the world is compiled. `OSError` if the address cannot be bound.
    """
    loop = asyncio.get_running_loop()
    arenas = Arenas(make_world or _sim_world, seed)
    lobby: Lobby = Lobby(arenas, lambda: loop.call_soon(lobby.play))
    connections: set[Connection] = set()
    # Bound before the world is compiled, so that an address in use is noticed at once.
    server = await loop.create_server(lambda: Connection(lobby, connections), host, port, start_serving=False)
    try:
        arenas[AGENT_TYPES[0]]  # compiles
        await server.start_serving()
        if on_listening is not None:
            on_listening(server.sockets[0].getsockname()[1])
        await asyncio.Event().wait()
    finally:
        server.close()
        for connection in list(connections):
            connection.close()
        arenas.close()


def run_server(host: str = "127.0.0.1", port: int = 7070, seed: int = 0) -> None:
    """Serves the embedded world until SIGINT or SIGTERM, and says on standard output where it listens."""
    asyncio.run(_serve_until_signal(host, port, seed))


async def _serve_until_signal(host: str, port: int, seed: int) -> None:
    def announce(bound_port: int) -> None:
        print(f"sb3-pvp sim-server listens on {host}:{bound_port}", flush=True)

    task = asyncio.ensure_future(serve(host, port, seed, on_listening=announce))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _sim_world(num_fights: int, seed: int, *, contract: str) -> ServedWorld:
    # Imported here, so that importing this package does not load Numba.
    from sb3_pvp.sim import SimWorld

    world = SimWorld(num_fights=num_fights, seed=seed, contract=contract)
    # A tick, so that the first client does not wait for the compiler.
    world.reset()
    world.step(np.zeros((num_fights, NUM_SEATS, world.contract.num_heads), np.int64))
    return world
