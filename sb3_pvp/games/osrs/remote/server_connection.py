"""One client of the server: lines in, lines out, and never more of either than it takes (``protocol.md`` §1)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from sb3_pvp.games.osrs.remote.errors import FramingError
from sb3_pvp.games.osrs.remote.lobby import Lobby
from sb3_pvp.games.osrs.remote.messages import MAX_LINE, parse_request

logger = logging.getLogger(__name__)

#: So many requests of one connection may wait for their answers; more are read as soon as half of them are answered.
#: Agents that share a connection and wait for each other must not be more.
MAX_UNANSWERED = 4096


class Connection(asyncio.Protocol):
    """Agents are not bound to connections: any connection may speak for any agent.

    From a client that does not read its answers, or asks faster than it is answered, nothing more is read until it has
    caught up.
    """

    def __init__(self, lobby: Lobby, connections: set[Connection]) -> None:
        self._lobby = lobby
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._lines: deque[bytes] = deque()
        self._unanswered = 0
        self._is_write_paused = False
        self._has_too_many_unanswered = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remembers where to write to."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Answers that are still to come are dropped; the agents stay logged in."""
        self._transport = None
        self._drop_input()
        self._connections.discard(self)
        if self._unanswered:
            self._lobby.drop_reply(self.send)

    def data_received(self, data: bytes) -> None:
        """Handles the complete lines of what has arrived so far."""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        self._lines.extend(lines)
        self._handle_lines()

    def pause_writing(self) -> None:
        """The client does not read what was sent."""
        self._is_write_paused = True
        self._pause()

    def resume_writing(self) -> None:
        """The client has read what was sent."""
        self._is_write_paused = False
        self._resume()

    def send(self, line: bytes) -> None:
        """Writes a reply line, unless the client is gone."""
        self._unanswered -= 1
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(line)
            if self._has_too_many_unanswered and self._unanswered <= MAX_UNANSWERED // 2:
                self._has_too_many_unanswered = False
                asyncio.get_running_loop().call_soon(self._resume)

    def close(self) -> None:
        """Sends what is still to be sent and hangs up."""
        self._drop_input()
        if self._transport is not None:
            self._transport.close()

    def _handle_lines(self) -> None:
        try:
            while self._lines and not (self._is_write_paused or self._has_too_many_unanswered):
                self._handle_line(self._lines.popleft().removesuffix(b"\r"))
            if len(self._buffer.removesuffix(b"\r")) > MAX_LINE:
                raise FramingError("line too long")
        except FramingError as error:
            # No warning: strangers could fill the log.
            logger.info("connection closed: %s", error)
            self.close()

    def _handle_line(self, line: bytes) -> None:
        if len(line) > MAX_LINE:
            raise FramingError("line too long")
        request = parse_request(line)
        self._unanswered += 1
        if self._unanswered >= MAX_UNANSWERED:
            self._has_too_many_unanswered = True
            self._pause()
        self._lobby.handle(request, self.send)

    def _pause(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def _resume(self) -> None:
        self._handle_lines()
        if self._transport is not None and not (
            self._is_write_paused or self._has_too_many_unanswered or self._transport.is_closing()
        ):
            self._transport.resume_reading()

    def _drop_input(self) -> None:
        self._buffer = b""
        self._lines.clear()
