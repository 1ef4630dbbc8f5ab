"""The server's side of a connection: lines in, replies out in the same order, and limits."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from sb3_pvp.serving.batching import Batcher
from sb3_pvp.serving.figures import ServerFigures
from sb3_pvp.serving.protocol import Memory, Request, RequestError, ServedFighter, error_line, read_request

logger = logging.getLogger(__name__)

#: Maximum of unanswered requests per connection; further ones wait in the client's socket.
MAX_UNANSWERED = 128
#: Maximum of sessions per connection and stateful fighter: each keeps a state.
MAX_SESSIONS = 128


@dataclass(frozen=True)
class Limits:
    """Limits of a server."""

    max_line: int = 65536  #: Bytes of a request.
    max_connections: int = 1024  #: At the same time.
    #: Requests per second of a connection, with bursts of one second; more are delayed. 0: no limit.
    max_rate: float = 0.0
    #: Seconds after which a connection is closed that sends no request, or reads no replies. 0: never.
    idle_timeout: float = 600.0


class Shared(Protocol):
    """What all connections of a server share, see `sb3_pvp.serving.server.Server`."""

    limits: Limits
    is_strict: bool
    buffer: memoryview
    figures: ServerFigures
    fighters: Mapping[str, ServedFighter]
    batcher: Batcher

    def add(self, connection: Connection) -> bool:
        """Adds a connection, unless there are as many as allowed."""

    def remove(self, connection: Connection) -> None:
        """Removes a connection, if it was added."""


class Connection(asyncio.BufferedProtocol):
    """Passes requests on and writes replies in order.

    Reading pauses while the client does not read its replies, or sends requests faster than they are answered, or than
    it may. So what a connection keeps in memory is limited.
    """

    def __init__(self, server: Shared) -> None:
        self._server, self._limits = server, server.limits

        self._transport: asyncio.Transport | None = None
        self._partial = bytearray()
        self._is_skipping = False  # the rest of a line that was too long
        self._lines: deque[bytes | None] = deque()  # not handled yet; None is a line that was too long
        self._unanswered: deque[Request] = deque()
        self._is_behind = False  # the client does not read its replies
        self._memories: dict[ServedFighter, dict[str, Memory]] = {}  # by session
        self._held: tuple[ServedFighter, Request] | None = None  # waits for the state that the one before it leaves
        self._has_ended = False  # no more requests: the client or the server said so
        self._is_paused = False
        self._timer: asyncio.Handle | None = None  # until the next line may be handled
        self._allowance = self._burst = max(1.0, self._limits.max_rate)
        self._last = time.perf_counter()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accepts the connection, unless there are too many."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not self._server.add(self):
            if not self._server.is_strict:
                transport.write(error_line(f"the server has {self._limits.max_connections} connections, its limit"))
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets everything; replies to requests on their way are dropped."""
        self._transport = None
        self._has_ended = True
        if self._timer is not None:
            self._timer.cancel()
        self._lines.clear()
        self._unanswered.clear()
        self._held = None
        self._memories.clear()
        self._server.remove(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Returns the buffer for the next bytes."""
        return self._server.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Handles the lines that are complete."""
        if self._has_ended:
            return
        data = bytes(self._server.buffer[:nbytes])  # the next connection that receives overwrites the buffer
        if self._partial or self._is_skipping:
            data = self._complete(data)
        *lines, rest = data.split(b"\n")
        self._lines.extend(lines)
        if rest:
            self._is_skipping = not self._keep(rest)
        self.advance()

    def eof_received(self) -> bool:
        """Handles the last line, even without its end; the connection stays open until all replies are written."""
        if self._partial and not self._has_ended:
            self._lines.append(bytes(self._partial))
        self._has_ended = True
        self.advance()
        return True

    def pause_writing(self) -> None:
        """Pauses: the client does not read its replies."""
        self._is_behind = True

    def resume_writing(self) -> None:
        """Resumes: the client has read its replies."""
        self._is_behind = False
        self.advance()

    def finish(self) -> None:
        """Reads no more; closes the connection as soon as everything received is answered."""
        self._has_ended = True
        self.advance()

    def close_if_idle(self, now: float) -> None:
        """Closes the connection if its client has sent no request for too long, or reads no replies."""
        if now - self._last > self._limits.idle_timeout and self._transport is not None:
            if self._transport.get_write_buffer_size():
                self._transport.abort()  # closing would wait until it has read them
            elif not self._unanswered and not self._lines:
                self._transport.close()

    def abort(self) -> None:
        """Closes the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def advance(self) -> None:
        """Handles lines and writes replies, until it has to wait for something.

        Whatever fails ends this connection only: the caller may be about to tell others of their replies.
        """
        try:
            self._advance()
        except Exception:
            logger.exception("a connection is closed, because its next line or reply cannot be handled")
            self._lines.clear()
            self.abort()

    def _advance(self) -> None:
        lines, unanswered = self._lines, self._unanswered
        if unanswered and unanswered[0].reply is not None:
            self._write()
        self._submit_held()
        while lines and not self._must_wait():
            self._handle(lines.popleft())
        if unanswered and unanswered[0].reply is not None:
            self._write()
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        must_pause = bool(lines) or self._is_behind or len(unanswered) >= MAX_UNANSWERED
        if must_pause != self._is_paused:
            self._is_paused = must_pause
            (transport.pause_reading if must_pause else transport.resume_reading)()
        if self._has_ended and not unanswered and not lines:
            transport.close()

    def _write(self) -> None:
        """Writes the replies that are next in order."""
        unanswered, ready = self._unanswered, []
        while unanswered and (reply := unanswered[0].reply) is not None:
            unanswered.popleft()
            ready.append(reply)
            if not reply:  # an error, at which the original closes the connection
                self._has_ended = True
                self._lines.clear()
                unanswered.clear()
        if ready and self._transport is not None and not self._transport.is_closing():
            self._transport.write(ready[0] if len(ready) == 1 else b"".join(ready))

    def _complete(self, data: bytes) -> bytes:
        """Adds the end of a line that has begun before; returns what follows it."""
        end, newline, rest = data.partition(b"\n")
        if self._is_skipping or not self._keep(end):
            self._is_skipping = not newline
        elif newline:
            self._lines.append(bytes(self._partial))
            self._partial.clear()
        return rest

    def _keep(self, part: bytes) -> bool:
        """Keeps a part of a line; of one that is too long nothing but the error, and returns false."""
        self._partial += part
        if len(self._partial) <= self._limits.max_line:
            return True
        self._lines.append(None)
        self._partial.clear()
        return False

    def _must_wait(self) -> bool:
        if self._is_behind or self._timer is not None or len(self._unanswered) >= MAX_UNANSWERED:
            return True
        if self._held is not None:
            return True
        if not self._limits.max_rate:
            return False
        now = time.perf_counter()
        self._allowance = min(self._burst, self._allowance + (now - self._last) * self._limits.max_rate)
        self._last = now
        if self._allowance >= 1:
            self._allowance -= 1
            return False
        wait = (1 - self._allowance) / self._limits.max_rate
        self._timer = asyncio.get_running_loop().call_later(wait, self._go_on)
        return True

    def _go_on(self) -> None:
        self._timer = None
        self.advance()

    def _memory_of(self, fighter: ServedFighter, request: Request) -> Memory:
        """Returns what a fighter remembers of a session; of other versions of it nothing is kept but that it began."""
        if fighter not in self._memories:
            older = {other: each for other, each in self._memories.items() if other.name == fighter.name}
            begun = {session: Memory() for each in older.values() for session in each}
            self._memories = {other: each for other, each in self._memories.items() if other not in older}
            self._memories[fighter] = begun
        sessions, session = self._memories[fighter], request.session
        if session not in sessions:
            if session and not request.is_start:
                raise RequestError(f"unknown session {session!r}: begin it with episodeStart")
            if len(sessions) >= MAX_SESSIONS:
                raise RequestError(f"a connection has at most {MAX_SESSIONS} sessions: begin one of them again")
            sessions[session] = Memory()
        return sessions[session]

    def _submit_held(self) -> None:
        """Submits the request that had to wait for the one before it, if that has its reply."""
        if self._held is None:
            return
        fighter, request = self._held
        if request.memory is not None and not request.memory.is_busy:
            self._held, request.memory.last = None, request
            self._server.batcher.submit(fighter, request)

    def _handle(self, line: bytes | None) -> None:
        self._last = time.perf_counter()
        try:
            if line is None or len(line) > self._limits.max_line:
                raise RequestError(f"the line is longer than {self._limits.max_line} bytes")
            fighter, request = read_request(line, self._server.fighters)
            if fighter.form.is_stateful:
                request.memory = self._memory_of(fighter, request)
        except RequestError as error:
            logger.debug("bad request: %s", error)  # not a warning: any client could fill the log
            self._server.figures.bad_requests += 1
            self._unanswered.append(Request(reply=b"" if self._server.is_strict else error_line(str(error))))
            # Errors wait for nothing, so a flood of them would leave no time for other connections: one per turn.
            self._timer = asyncio.get_running_loop().call_soon(self._go_on)
            return
        request.tell, request.received = self.advance, self._last
        self._unanswered.append(request)
        if request.memory is None:
            self._server.batcher.submit(fighter, request)
        else:
            self._held = fighter, request
            self._submit_held()
