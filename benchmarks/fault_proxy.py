"""A TCP proxy that injects faults into the lines that clients and server exchange.

::

    proxy = FaultProxy(7070, RandomFaults(dict.fromkeys(KINDS, 0.01)), seed=1)
    port = await proxy.start()      # let clients connect there
    ...
    await proxy.stop()
    print(proxy.injected)           # Counter({('reply', 'drop'): 12, ...})
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from benchmarks.garbling import garbled
from sb3_pvp.common.errors import require_all_known

#: From the client to the server, and back.
DIRECTIONS = ("request", "reply")
#: What can happen to a line.
KINDS: dict[str, str] = {
    "delay": "it and all later ones arrive late",
    "drop": "it never arrives",
    "half_close": "the receiver gets an end of file; the other direction continues",
    "close": "the connection is closed in its place, on both sides",
    "reset": "the connection is reset in its place, on both sides",
    "truncate": "its end is missing; then the next one follows, or a line ending, or the connection is closed",
    "duplicate": "it arrives twice",
    "split": "it arrives in several pieces, with pauses between them",
    "garble": "another line arrives: noise, no JSON, or JSON of a wrong shape (`benchmarks.garbling`)",
    "flood": "many nonsense lines arrive before it, or one line without an end",
}

#: Longest line that is passed on; endless ones end the connection.
MAX_LINE = 1 << 22
FLOOD_LINES = 1000
SPLIT_PARTS = 4
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Line:
    """A line on its way through the proxy.

    Attributes:
        connection: number of the connection, counted from 0.
        direction: one of `DIRECTIONS`.
        data: the line with its line ending.
        request: the last request on this connection; of a request the line itself.
    """

    connection: int
    direction: str
    data: bytes
    request: bytes


#: What happens to a line: one of `KINDS`, or other bytes in its place; ``None``: it arrives as it is.
Fault = str | bytes | None
Chooser = Callable[[Line, Generator], Fault]


class RandomFaults:
    """Gives each line at most one fault, with a probability per kind.

    Args:
        rates: probabilities by kind.
        directions: the directions with faults.

    Raises:
        ValueError: for an unknown kind or direction, a negative probability, or a sum above 1.
    """

    def __init__(self, rates: Mapping[str, float], directions: Iterable[str] = DIRECTIONS) -> None:
        self._directions = frozenset(directions)
        require_all_known("kind of fault", rates, KINDS)
        require_all_known("direction", self._directions, DIRECTIONS)
        if not (all(rate >= 0 for rate in rates.values()) and sum(rates.values()) <= 1):
            raise ValueError(f"the rates of faults must be 0 or more, and 1 at most in all, got {dict(rates)}")
        self._kinds = list(rates)
        self._bounds = np.cumsum(list(rates.values()))

    def __call__(self, line: Line, random: Generator) -> Fault:
        """The fault of this line."""
        # One random number for all kinds: their probabilities add up, and at most one fault happens.
        place = int(np.searchsorted(self._bounds, random.random(), side="right"))
        if place == len(self._kinds) or line.direction not in self._directions:
            return None
        return self._kinds[place]


class FaultProxy:
    """Passes the lines of all connections on to a server, and back, except where ``choose`` wants a fault.

    Args:
        port: of the server.
        choose: decides what happens to each line, such as `RandomFaults`.
        host: of the server.
        seed: of the random generators. Each direction of each connection has its own, so that faults do not depend on
            the order in which connections send.
        max_delay: longest delay, seconds.
        pause: between the pieces of a split line, seconds.
        flood_bytes: length of an endless line.

    Attributes:
        injected: number of faults by direction and kind; the kind is ``replace`` if bytes replaced a line.
        connections: number of connections so far.
    """

    def __init__(
        self,
        port: int,
        choose: Chooser,
        *,
        host: str = "127.0.0.1",
        seed: int = 0,
        max_delay: float = 1.0,
        pause: float = 0.01,
        flood_bytes: int = 3 << 20,
    ) -> None:
        self.place = (host, port)
        self.choose = choose
        self.seed = seed
        self.max_delay = max_delay
        self.pause = pause
        self.flood_bytes = flood_bytes
        self.injected: Counter[tuple[str, str]] = Counter()
        self.connections = 0
        self._server: asyncio.Server | None = None
        self._links: set[asyncio.Task[None]] = set()

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Listens, and returns the port; raises `OSError` if that is not possible."""
        self._server = await asyncio.start_server(self.handle, host, port, limit=MAX_LINE)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stops listening and closes all connections."""
        if self._server is not None:
            self._server.close()
        links = list(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one client; for `asyncio.start_server`."""
        number, self.connections = self.connections, self.connections + 1
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        writers = [writer]
        try:
            server_reader, server_writer = await asyncio.open_connection(*self.place, limit=MAX_LINE)
            writers.append(server_writer)
            link = _Link(self, number)
            await link.run((reader, server_writer), (server_reader, writer))
        except (OSError, ValueError, _HangUp) as error:  # `ValueError`: an endless line
            if isinstance(error, _Reset):
                reset_on_close(writers)
        except asyncio.CancelledError:
            pass  # by `stop`; asyncio started this task and would report the cancellation as an error
        finally:
            self._links.discard(task)
            for each in writers:
                each.close()


class _HangUp(Exception):
    """The connection ends here."""


class _Reset(_HangUp):
    """It ends with a reset."""


class _Link:
    """One client, and its connection to the server."""

    def __init__(self, proxy: FaultProxy, number: int) -> None:
        self.proxy = proxy
        self.number = number
        self.request = b""

    async def run(self, *ends: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        """Passes lines on in both directions until both have ended."""
        pipes = [
            asyncio.ensure_future(_Pipe(self, direction, *pair).run())
            for direction, pair in zip(DIRECTIONS, ends, strict=True)
        ]
        try:
            await asyncio.gather(*pipes)
        finally:
            for pipe in pipes:
                pipe.cancel()
            await asyncio.gather(*pipes, return_exceptions=True)


class _Pipe:
    """One direction of a link."""

    def __init__(self, link: _Link, direction: str, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        self._link = link
        self._proxy = link.proxy
        self._direction = direction
        self._source = source
        self._sink = sink
        self._random = np.random.default_rng([self._proxy.seed, link.number, DIRECTIONS.index(direction)])
        self._is_shut = False
        self._faults: dict[str, Callable[[bytes], Awaitable[None]]] = {
            kind: getattr(self, f"_{kind}") for kind in KINDS
        }

    async def run(self) -> None:
        """Passes lines on until there are no more."""
        while data := await self._source.readline():
            if self._direction == "request":
                self._link.request = data
            # After a half-close lines are still read, so that the sender is not blocked, and dropped.
            if not self._is_shut:
                await self._pass(data)
        self._shut()

    async def _pass(self, data: bytes) -> None:
        line = Line(self._link.number, self._direction, data, self._link.request)
        fault = self._proxy.choose(line, self._random)
        if fault is None:
            await self._send(data)
            return
        self._proxy.injected[self._direction, fault if isinstance(fault, str) else "replace"] += 1
        await (self._faults[fault](data) if isinstance(fault, str) else self._send(fault))

    async def _send(self, data: bytes) -> None:
        self._sink.write(data)
        await self._sink.drain()

    def _shut(self) -> None:
        if not self._is_shut and self._sink.can_write_eof():
            self._sink.write_eof()
        self._is_shut = True

    # What can happen to a line.

    async def _delay(self, data: bytes) -> None:
        await asyncio.sleep(self._random.uniform(0, self._proxy.max_delay))
        await self._send(data)

    async def _drop(self, data: bytes) -> None:
        pass

    async def _half_close(self, data: bytes) -> None:
        self._shut()

    async def _close(self, data: bytes) -> None:
        raise _HangUp

    async def _reset(self, data: bytes) -> None:
        raise _Reset

    async def _truncate(self, data: bytes) -> None:
        # Without an end, with a line ending, or (`None`) with the end of the connection.
        end = self._random.choice(np.array([b"", b"\n", None], object))
        length = self._random.integers(max(len(data.rstrip()), 1))
        await self._send(data[:length] + (end or b""))
        if end is None:
            raise _HangUp

    async def _duplicate(self, data: bytes) -> None:
        await self._send(data * 2)

    async def _split(self, data: bytes) -> None:
        cuts = sorted(self._random.integers(len(data) + 1, size=SPLIT_PARTS - 1).tolist())
        for start, end in itertools.pairwise([0, *cuts, len(data)]):
            await self._send(data[start:end])
            await asyncio.sleep(self._proxy.pause)

    async def _garble(self, data: bytes) -> None:
        await self._send(garbled(data, self._random))

    async def _flood(self, data: bytes) -> None:
        if self._random.random() < 0.5:
            await self._send(garbled(data, self._random) * FLOOD_LINES)
        else:
            for _ in range(0, self._proxy.flood_bytes, _CHUNK):
                await self._send(b"x" * _CHUNK)
        await self._send(data)


def reset_on_close(writers: Iterable[asyncio.StreamWriter]) -> None:
    """Makes the connections end with a reset: a socket that lingers for 0 seconds sends RST instead of FIN."""
    for writer in writers:
        with contextlib.suppress(OSError):  # it may be closed already
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
