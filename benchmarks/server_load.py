"""Clients that keep a server busy: fighters on lasting connections, and short connections that send nonsense."""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter
from collections.abc import Callable, Iterator

from benchmarks.server_talk import Fault, RandomChoices, Speaker
from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.remote.client_requests import AgentRequest, Step, request_line

Address = tuple[str, int]

#: Seconds that the replies to the last steps may take.
REPLY_TIMEOUT = 30.0
#: Connections that are opened at the same time.
AT_ONCE = 50
#: What a short connection sends before it closes; the last one is too long for a request.
NONSENSE = (b"", b"\x00\xff\n", b'{"action": "st', b"GET / HTTP/1.1\r\n\r\n", b'{"action":"step"}\n', b"[" * 9000)


class Load:
    """Connections that fight without end: some against the bot, the others in pairs, with both views on the wire.

    Args:
        address: host and port of the server.
        connections: number of connections.
        pairs: share of the connections that fight each other.
        pace: requests per second of each connection; ``None``: the next one follows the reply at once.
        seed: of the random actions.

    Attributes:
        latencies: seconds from a step to its reply; in a pair, from the later of both steps.
        faults: number of missing or wrong replies, by reason.
    """

    def __init__(self, address: Address, connections: int, pairs: float, pace: float | None, seed: int) -> None:
        self.size = connections
        self.num_paired = 2 * min(round(connections * pairs / 2), connections // 2)
        self.latencies = array("d")
        self.faults: Counter[str] = Counter()
        self.interval = 0.0 if pace is None else 1 / pace
        self._address = address
        choices = RandomChoices(load_contract("NhEnv"), seed)
        opponents = [index ^ 1 if index < self.num_paired else None for index in range(connections)]
        speakers = [Speaker(index, opponent, connections, choices) for index, opponent in enumerate(opponents)]
        self._fighters = [Fighter(speaker, self) for speaker in speakers]
        for fighter in self._fighters[: self.num_paired]:
            fighter.opponent = self._fighters[fighter.speaker.index ^ 1]

    async def start(self) -> None:
        """Opens all connections; returns when every fighter has taken a step, or counts a fault."""
        for first in range(0, len(self._fighters), AT_ONCE):
            group = self._fighters[first : first + AT_ONCE]
            await asyncio.gather(*(fighter.connect(self._address) for fighter in group))
        if not await self._wait_until(lambda: all(fighter.has_begun for fighter in self._fighters)):
            self.faults["a fighter could not begin"] += 1

    async def connect_rapidly(self, count: int) -> int:
        """Opens ``count`` more connections, `AT_ONCE` at a time, most of which send some nonsense and all of which
        close at once; returns how many the server accepted."""
        numbers = iter(range(count))
        return sum(await asyncio.gather(*(_connect_rapidly(self._address, numbers) for _ in range(AT_ONCE))))

    async def end(self) -> None:
        """Closes all connections after the reply to the current step; a missing reply is a fault."""
        for fighter in self._fighters:
            fighter.speaker.is_leaving = True
        await self._wait_until(lambda: not any(fighter.is_stepping for fighter in self._fighters))
        for fighter in self._fighters:
            fighter.hang_up()

    async def _wait_until(self, condition: Callable[[], bool]) -> bool:
        """Waits for the condition, at most as long as a log-in, a reset and two steps may take; returns it."""
        now = asyncio.get_running_loop().time
        deadline = now() + REPLY_TIMEOUT + 4 * self.interval
        while not condition() and now() < deadline:
            await asyncio.sleep(0.05)
        return condition()


class Fighter(asyncio.Protocol):
    """A connection of a `Load`. It closes after its first fault."""

    def __init__(self, speaker: Speaker, load: Load) -> None:
        self.speaker, self._load = speaker, load
        self._talk = speaker.talk()
        self._transport: asyncio.WriteTransport | None = None
        self._buffer = b""
        self._sent_at = 0.0
        #: Since when the server could have replied.
        self._due = 0.0
        self.opponent: Fighter | None = None
        #: A step waits for its reply.
        self.is_stepping = False
        #: The first step has got its reply.
        self.has_begun = False

    async def connect(self, address: Address) -> None:
        """Opens the connection and schedules the first request."""
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, *address)
        # Spread over an interval: in step, all requests of a paced load would arrive as one burst.
        loop.call_later(self._load.interval * self.speaker.index / self.speaker.speakers, self._send, *next(self._talk))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport for requests."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Counts a fault if the server has closed the connection."""
        if self._transport is not None:
            self._fault("the server closed the connection")

    def data_received(self, data: bytes) -> None:
        """Sends the next request when the reply is complete and the interval is over."""
        self._buffer += data
        # There is one reply at a time, so a line ending can only be the end of it.
        if not self._buffer.endswith(b"\n"):
            return
        loop = asyncio.get_running_loop()
        if self.is_stepping:
            self.is_stepping, self.has_begun = False, True
            self._load.latencies.append(loop.time() - self._due)
        if self._load.interval:
            loop.call_at(self._sent_at + self._load.interval, self._send_next)
        else:
            self._send_next()

    def hang_up(self) -> None:
        """Closes the connection; a step without a reply is a fault."""
        if self.is_stepping:
            self._fault("a step got no reply")
        self._close()

    def on_opponent_step(self, moment: tuple[int, int], now: float) -> None:
        """Starts the clock of this fighter's step, if the opponent's step is of the same tick: the server plays the
        tick of a pair when it has both steps."""
        if self.is_stepping and self.speaker.moment == moment:
            self._due = now

    def _send_next(self) -> None:
        if self._transport is None:
            return
        reply, self._buffer = self._buffer, b""
        try:
            self._send(*self._talk.send(reply))
        except StopIteration:
            self._close()
        except Fault as fault:
            self._fault(str(fault))

    def _send(self, agent: str, request: AgentRequest) -> None:
        if self._transport is not None:
            self.is_stepping = isinstance(request, Step)
            self._sent_at = self._due = asyncio.get_running_loop().time()
            if self.is_stepping and self.opponent is not None:
                self.opponent.on_opponent_step(self.speaker.moment, self._sent_at)
            self._transport.write(request_line(request, agent))

    def _fault(self, reason: str) -> None:
        self._load.faults[reason] += 1
        self._close()

    def _close(self) -> None:
        self.is_stepping = False
        if self._transport is not None:
            self._transport.close()
            self._transport = None


async def _connect_rapidly(address: Address, numbers: Iterator[int]) -> int:
    accepted = 0
    for number in numbers:
        try:
            _, writer = await asyncio.open_connection(*address)
        except OSError:
            continue
        accepted += 1
        writer.write(NONSENSE[number % len(NONSENSE)])
        # Every other round of nonsense ends with a reset instead of an orderly close.
        (writer.transport.abort if number // len(NONSENSE) % 2 else writer.close)()
    return accepted
