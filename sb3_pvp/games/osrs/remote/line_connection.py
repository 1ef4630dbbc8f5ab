"""A connection of one agent, with one request at a time: one line each way."""

from __future__ import annotations

import asyncio

from sb3_pvp.common.errors import command_line
from sb3_pvp.games.osrs.remote.address import RemoteSettings
from sb3_pvp.games.osrs.remote.client_errors import HungUp, Lost, NoServer, Silent

#: Maximum bytes of a reply line. Real ones have at most about ten thousand.
MAX_REPLY = 1 << 20


class LineConnection(asyncio.Protocol):
    """Sends request lines and returns their reply lines. After a fault every request raises that fault, a `Lost`."""

    # Replies carry no id (protocol-observed.md), so after an unexpected line none can be matched to its request any
    # more: it ends the connection.

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._pending_reply: asyncio.Future[bytes] | None = None
        self._buffer = b""
        self._fault: Lost | None = None

    @classmethod
    async def open(cls, settings: RemoteSettings) -> LineConnection:
        """Connects; raises `NoServer` if no connection is accepted within the time-out."""
        loop = asyncio.get_running_loop()
        connection = cls()
        connecting = loop.create_task(loop.create_connection(lambda: connection, settings.host, settings.port))
        try:
            # Not `wait_for`: before Python 3.12 it may swallow a cancellation that comes as the connection opens.
            await asyncio.wait([connecting], timeout=settings.connect_timeout)
            if not connecting.done():
                raise TimeoutError(f"no answer within {settings.connect_timeout:g} s")
            connecting.result()
        except OSError as error:
            raise NoServer(
                f"no server can be reached at {settings.host_port} ({error}); start one, for example with: "
                f"{command_line('sim-server', '--port', settings.port)}",
                is_gone=isinstance(error, ConnectionRefusedError),
            ) from error
        except asyncio.CancelledError:
            connection.close()
            raise
        finally:
            connecting.cancel()
        return connection

    async def request(self, line: bytes, timeout: float) -> bytes:
        """Sends a request line and returns the reply line; raises `Lost` if none comes within ``timeout`` seconds."""
        if self._fault is not None or self._transport is None:
            raise self._fault or Lost("not connected")
        loop = asyncio.get_running_loop()
        self._pending_reply = loop.create_future()
        timer = loop.call_later(timeout, self._abort, f"no answer within {round(timeout, 1):g} s", Silent)
        self._transport.write(line)
        try:
            return await self._pending_reply
        except asyncio.CancelledError:
            # The reply may still come, and would be taken for that of the next request.
            self._abort("a request was cancelled")
            raise
        finally:
            timer.cancel()
            self._pending_reply = None

    def close(self) -> None:
        """Closes the connection; a request in flight fails."""
        self._abort("the connection was closed")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Stores the transport, unless `close` came first: `open` may be cancelled before the connection is made."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._fault is not None:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fails the request in flight with `HungUp`."""
        self._abort(f"the server closed the connection ({exc})" if exc else "the server closed the connection", HungUp)

    def data_received(self, data: bytes) -> None:
        """Hands a complete line to the request in flight."""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            if self._pending_reply is None or self._pending_reply.done():
                self._abort("the server sent a line without a request")
                return
            self._pending_reply.set_result(line)
        if len(self._buffer) > MAX_REPLY:
            self._abort("the server sent an endless line")

    def _abort(self, fault: str, kind: type[Lost] = Lost) -> None:
        self._fault = self._fault or kind(fault)  # The first fault is the cause; `abort` brings on others.
        self._buffer = b""
        if self._transport is not None:
            self._transport.abort()
        if self._pending_reply is not None and not self._pending_reply.done():
            self._pending_reply.set_exception(self._fault)
