"""The server's side of a connection: request lines in, reply lines out, with back-pressure (``protocol.md`` §1)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque

from sb3_pvp.games.osrs.remote.lobby import Lobby
from sb3_pvp.games.osrs.remote.messages import MAX_LINE, error_reply, parse_request
from sb3_pvp.games.osrs.remote.wire_errors import ENVIRONMENT, FramingError, WireRequestError

logger = logging.getLogger(__name__)

#: Maximum of unanswered requests per connection; reading resumes when half of them are answered. No more agents that
#: wait for each other may share a connection.
MAX_UNANSWERED = 4096
#: Lines of a connection that are handled before it is the turn of others.
_LINES_PER_TURN = 128


class Connections:
    """The open connections of a server, at most so many."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: set[ServerConnection] = set()

    def add(self, connection: ServerConnection) -> None:
        """Adds a connection; raises `WireRequestError` if there are too many."""
        if len(self._open) >= self._most:
            raise WireRequestError(ENVIRONMENT, f"the server has {self._most} connections, its limit; try again later")
        self._open.add(connection)

    def discard(self, connection: ServerConnection) -> None:
        """Forgets a connection, if it was added."""
        self._open.discard(connection)

    def close_silent(self, seconds: float) -> None:
        """Closes those that owe the client no reply and have got no complete line for so long.

        Also those whose clients have not read their replies for so long.
        """
        now = time.monotonic()
        for connection in [*self._open]:
            connection.close_if_silent(now - seconds)

    def close(self) -> None:
        """Closes all, after the replies that are written already."""
        for connection in [*self._open]:
            connection.close()


class ServerConnection(asyncio.Protocol):
    """Passes requests to the lobby and writes its replies. Any connection may send requests for any agent.

    Reading pauses while the client does not read its replies, or sends requests faster than they are answered.
    """

    def __init__(self, lobby: Lobby, connections: Connections) -> None:
        self._lobby = lobby
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._lines: deque[bytes] = deque()
        self._unanswered = 0
        self._is_behind = False  # The client does not read its replies.
        self._is_flooded = False  # Too many requests are unanswered.
        self._is_resting = False  # It is the turn of other connections.
        self._last_line = time.monotonic()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Stores the transport, unless there are too many connections."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        try:
            self._connections.add(self)
        except WireRequestError as error:
            transport.write(error_reply(error))
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Drops pending requests and replies; the agents stay logged in (protocol-observed.md, surprise 8)."""
        self._transport = None
        self._drop_input()
        self._connections.discard(self)
        if self._unanswered:
            self._lobby.drop_reply(self.send)

    def data_received(self, data: bytes) -> None:
        """Handles the lines that are complete."""
        # The last part is an incomplete line, or empty.
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        self._lines.extend(lines)
        self._handle_lines()

    def pause_writing(self) -> None:
        """Pauses reading: the client does not read its replies."""
        self._is_behind = True
        self._pause()

    def resume_writing(self) -> None:
        """Resumes reading: the client has read its replies."""
        self._is_behind = False
        self._resume()

    def send(self, line: bytes) -> None:
        """Writes a reply line, unless the connection is closed."""
        self._unanswered -= 1
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(line)
            if self._is_flooded and self._unanswered <= MAX_UNANSWERED // 2:
                self._is_flooded = False
                # Not at once: the lobby may be in the middle of a tick, and new requests would change its agents.
                asyncio.get_running_loop().call_soon(self._resume)

    def close_if_silent(self, since: float) -> None:
        """Closes the connection if nothing has happened on it since that time of ``time.monotonic()``."""
        if self._transport is not None and self._last_line < since:
            if self._is_behind:
                self._transport.abort()  # closing would wait until the client has read its replies
            elif not self._unanswered:
                self.close()

    def close(self) -> None:
        """Closes the connection after the replies that are written already."""
        self._drop_input()
        if self._transport is not None:
            self._transport.close()

    def _handle_lines(self) -> None:
        try:
            # Lines that had arrived before reading paused are kept, and handled when it resumes.
            for _ in range(_LINES_PER_TURN):
                if not self._lines or self._is_behind or self._is_flooded:
                    break
                self._handle_line(self._lines.popleft().removesuffix(b"\r"))
            else:
                self._is_resting = True
                self._pause()
                asyncio.get_running_loop().call_soon(self._take_turn)
            if len(self._buffer.removesuffix(b"\r")) > MAX_LINE:
                raise FramingError("line too long")
        except FramingError as error:
            # Not a warning: any client could fill the log.
            logger.info("connection closed: %s", error)
            self.close()

    def _handle_line(self, line: bytes) -> None:
        if len(line) > MAX_LINE:
            raise FramingError("line too long")
        request, self._last_line = parse_request(line), time.monotonic()
        self._unanswered += 1
        if self._unanswered >= MAX_UNANSWERED:
            self._is_flooded = True
            self._pause()
        self._lobby.handle(request, self.send)

    def _pause(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def _take_turn(self) -> None:
        self._is_resting = False
        self._resume()

    def _resume(self) -> None:
        if self._is_resting:
            return
        self._handle_lines()
        must_wait = self._is_behind or self._is_flooded or self._is_resting
        if self._transport is not None and not (must_wait or self._transport.is_closing()):
            self._transport.resume_reading()

    def _drop_input(self) -> None:
        self._buffer = b""
        self._lines.clear()
