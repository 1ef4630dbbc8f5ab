"""Clients that keep a server busy: fighters on connections that stay, and strangers whose connections come and go."""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter
from collections.abc import Callable, Iterator

from benchmarks.server_talk import Fault, RandomChoices, Speaker
from sb3_pvp.contract import load_contract
from sb3_pvp.games.osrs.remote.client_requests import AgentRequest, Step, request_line

Address = tuple[str, int]

#: Seconds that the answers to the last steps may take.
PATIENCE = 30.0
#: So many connections are opened at the same time.
AT_ONCE = 50
#: What a stranger says before it hangs up; the last one is too long for a request.
NONSENSE = (b"", b"\x00\xff\n", b'{"action": "st', b"GET / HTTP/1.1\r\n\r\n", b'{"action":"step"}\n', b"[" * 9000)


class Load:
    """Connections that fight without end: some against the bot, the others in pairs, with both views on the wire.

    :param address: host and port of the server.
    :param connections: how many.
    :param pairs: the share of them that fight each other.
    :param pace: requests per second of each connection; ``None``: the next one follows the answer at once.
    :param seed: of what they do.

    Attributes:
        latencies: how many seconds the answers to steps took, of a pair since both had asked.
        faults: by reason, how many answers were missing or wrong.
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
            fighter.rival = self._fighters[fighter.speaker.index ^ 1]

    async def start(self) -> None:
        """Opens all connections; returns when everyone has taken a step, or there is a fault."""
        for first in range(0, len(self._fighters), AT_ONCE):
            group = self._fighters[first : first + AT_ONCE]
            await asyncio.gather(*(fighter.connect(self._address) for fighter in group))
        if not await self._comes_true(lambda: all(fighter.has_begun for fighter in self._fighters)):
            self.faults["not everybody could begin"] += 1

    async def knock(self, count: int) -> int:
        """Opens ``count`` more connections, `AT_ONCE` at a time, that hang up at once, most of them after some
        nonsense; returns how many the server took."""
        numbers = iter(range(count))
        return sum(await asyncio.gather(*(_knock(self._address, numbers) for _ in range(AT_ONCE))))

    async def end(self) -> None:
        """Everybody leaves, after the answer to the step that is under way; one that does not come is a fault."""
        for fighter in self._fighters:
            fighter.speaker.is_leaving = True
        await self._comes_true(lambda: not any(fighter.is_stepping for fighter in self._fighters))
        for fighter in self._fighters:
            fighter.hang_up()

    async def _comes_true(self, condition: Callable[[], bool]) -> bool:
        """Waits for it, but not longer than for a log-in, a reset and two steps."""
        now = asyncio.get_running_loop().time
        deadline = now() + PATIENCE + 4 * self.interval
        while not condition() and now() < deadline:
            await asyncio.sleep(0.05)
        return condition()


class Fighter(asyncio.Protocol):
    """A connection of a `Load`. After its first fault it says nothing more."""

    def __init__(self, speaker: Speaker, load: Load) -> None:
        self.speaker, self._load = speaker, load
        self._talk = speaker.talk()
        self._transport: asyncio.WriteTransport | None = None
        self._buffer = b""
        self._asked = 0.0
        #: Since when the server could have answered.
        self._due = 0.0
        self.rival: Fighter | None = None
        #: A step is under way.
        self.is_stepping = False
        #: The first step was answered.
        self.has_begun = False

    async def connect(self, address: Address) -> None:
        """Opens the connection and says the first word, everyone at a moment of its own."""
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, *address)
        loop.call_later(self._load.interval * self.speaker.index / self.speaker.speakers, self._ask, *next(self._talk))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remembers where to write to."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """The server is not to hang up first."""
        if self._transport is not None:
            self._fault("the server closed the connection")

    def data_received(self, data: bytes) -> None:
        """Goes on when the answer is complete (there is one at a time), or when it is time for the next request."""
        self._buffer += data
        if not self._buffer.endswith(b"\n"):
            return
        loop = asyncio.get_running_loop()
        if self.is_stepping:
            self.is_stepping, self.has_begun = False, True
            self._load.latencies.append(loop.time() - self._due)
        if self._load.interval:
            loop.call_at(self._asked + self._load.interval, self._go_on)
        else:
            self._go_on()

    def hang_up(self) -> None:
        """Closes the connection; a step that is still under way is lost."""
        if self.is_stepping:
            self._fault("a step was not answered")
        self._close()

    def opponent_asked(self, moment: tuple[int, int], now: float) -> None:
        """A tick of a pair begins when both have asked: no answer was due before, if this is the tick waited for."""
        if self.is_stepping and self.speaker.moment == moment:
            self._due = now

    def _go_on(self) -> None:
        if self._transport is None:
            return
        reply, self._buffer = self._buffer, b""
        try:
            self._ask(*self._talk.send(reply))
        except StopIteration:
            self._close()
        except Fault as fault:
            self._fault(str(fault))

    def _ask(self, agent: str, request: AgentRequest) -> None:
        if self._transport is not None:
            self.is_stepping = isinstance(request, Step)
            self._asked = self._due = asyncio.get_running_loop().time()
            if self.is_stepping and self.rival is not None:
                self.rival.opponent_asked(self.speaker.moment, self._asked)
            self._transport.write(request_line(request, agent))

    def _fault(self, reason: str) -> None:
        self._load.faults[reason] += 1
        self._close()

    def _close(self) -> None:
        self.is_stepping = False
        if self._transport is not None:
            self._transport.close()
            self._transport = None


async def _knock(address: Address, numbers: Iterator[int]) -> int:
    taken = 0
    for number in numbers:
        try:
            _, writer = await asyncio.open_connection(*address)
        except OSError:
            continue
        taken += 1
        writer.write(NONSENSE[number % len(NONSENSE)])
        # Every other one does not even say goodbye.
        (writer.transport.abort if number // len(NONSENSE) % 2 else writer.close)()
    return taken
