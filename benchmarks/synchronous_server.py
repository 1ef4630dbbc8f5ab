"""A server that waits for every agent before it plays a tick, as the reference server does, and whose resets take
several ticks: one silent agent stops all fights (protocol-observed.md, surprises 1 and 2).

It also replies as the reference server does: agent by agent, in random order, spread over time. `rsps_timing.json` has
recorded times, a list of ticks for each number of agents: the milliseconds between the last request and the first
reply, and then between each reply and the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from pathlib import Path

from sb3_pvp.games.osrs.remote.fight_pool import WorldFactory
from sb3_pvp.games.osrs.remote.messages import EMPTY_REPLY, MAX_LINE, WireRequest, error_reply, parse_request
from sb3_pvp.games.osrs.remote.served_games import ServedGames
from sb3_pvp.games.osrs.remote.synchronous_lobby import SynchronousLobby
from sb3_pvp.games.osrs.remote.wire_errors import FramingError, WireRequestError

#: Ticks until the reply to a reset, of an agent that has just logged in and of one that has fought (protocol.md §5.3).
FIRST_RESET_TICKS = (1, 2)
RESET_TICKS = (8, 9)
Message = tuple[WireRequest, Callable[[bytes], None]]
_TIMING = {
    int(agents): ticks for agents, ticks in json.loads(Path(__file__).with_name("rsps_timing.json").read_text()).items()
}


class SynchronousServer:
    """One world for all agents.

    Args:
        make_world: makes the world of the fights.
        slowness: response time as a multiple of the reference server's; 0: all replies at once.
        seed: of the order and the times of replies, and of the world.

    Attributes:
        ticks: number of ticks so far.
        longest_wait: longest time that the world waited for a message of an agent, seconds.
        slowest_answer: longest time that the replies of a tick took, seconds.
    """

    def __init__(self, make_world: WorldFactory, slowness: float = 0.0, seed: int = 0) -> None:
        self._lobby = SynchronousLobby(ServedGames(make_world, seed, 8), lambda is_last: None)
        self._slowness = slowness
        self._random = random.Random(seed)
        self._arrivals: list[Message] = []
        #: Messages by agent, each with the tick after which it is passed on.
        self._inbox: dict[str, list[tuple[int, Message]]] = {}
        #: Number of messages without a reply, by agent; the world ticks when it is positive for all agents.
        self._unanswered: dict[str, int] = {}
        #: Agents that have fought, whose resets take longer.
        self._veterans: set[str] = set()
        self._outgoing: list[tuple[Callable[[bytes], None], bytes]] = []
        self._news = asyncio.Event()
        self._clock: asyncio.Task[None] | None = None
        self.ticks = 0
        self.longest_wait = 0.0
        self.slowest_answer = 0.0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves a connection; a line that is no request closes it without a reply (protocol-observed.md)."""
        if self._clock is None:
            self._clock = asyncio.get_running_loop().create_task(self._run())

        def send(line: bytes) -> None:
            if not writer.is_closing():
                writer.write(line)

        # `ValueError`: an endless line. Agents stay logged in when their connection ends.
        with contextlib.suppress(FramingError, ValueError, OSError):
            while (line := await reader.readline()).endswith(b"\n"):
                if len(line) > MAX_LINE:
                    raise FramingError("line too long")
                self._take(parse_request(line.strip()), send)
                self._news.set()
        writer.close()

    def _take(self, request: WireRequest, send: Callable[[bytes], None]) -> None:
        def reply(line: bytes) -> None:
            send(line.replace(b',"independentFights":true', b""))  # here they are not

        try:
            agent = "" if request.action == "debug" else request.agent_id
        except WireRequestError as error:
            reply(error_reply(error))
            return
        if request.action == "login":
            self._arrivals.append((request, reply))
        elif agent in self._inbox and request.action != "logout":
            self._take_message(agent, request, reply)
        else:
            if request.action == "logout":
                self._forget(agent)
            self._lobby.handle(request, reply)

    def _forget(self, agent: str) -> None:
        self._inbox.pop(agent, None)
        self._unanswered.pop(agent, None)
        self._veterans.discard(agent)

    def _take_message(self, agent: str, request: WireRequest, reply: Callable[[bytes], None]) -> None:
        inbox, unanswered = self._inbox[agent], self._unanswered
        unanswered[agent] += 1

        def answer(line: bytes) -> None:
            # Another agent may have logged in with this id in the meantime.
            if self._inbox.get(agent) is inbox:
                unanswered[agent] -= 1
            self._outgoing.append((reply, line))

        delay = 0
        if request.action == "step":
            self._veterans.add(agent)
        elif request.action == "reset":
            delay = self._random.choice(RESET_TICKS if agent in self._veterans else FIRST_RESET_TICKS)
        inbox.append((self.ticks + delay, (request, answer)))

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            waits_since = loop.time()
            # The world ticks when it has an unanswered message of every agent in it.
            while not (self._arrivals or self._inbox) or not all(self._unanswered.values()):
                self._news.clear()
                await self._news.wait()
            self.longest_wait = max(self.longest_wait, loop.time() - waits_since if self.ticks else 0.0)
            before = len(self._arrivals)
            self._tick()
            replies, self._outgoing = self._outgoing, []
            if not replies and not before and not any(self._inbox.values()):
                self._news.clear()
                await self._news.wait()  # all agents wait for opponents that have not logged in
            began = loop.time()
            await self._answer(replies)
            self.slowest_answer = max(self.slowest_answer, loop.time() - began)

    def _tick(self) -> None:
        arrivals, self._arrivals = self._arrivals, []
        self.ticks += 1
        for request, reply in arrivals:
            self._lobby.handle(request, partial(self._welcome, request.agent_id, reply))
        for messages in self._inbox.values():
            while messages and messages[0][0] < self.ticks:
                self._lobby.handle(*messages.pop(0)[1])
        self._lobby.play()

    def _welcome(self, agent: str, reply: Callable[[bytes], None], line: bytes) -> None:
        """Passes on the reply to a log-in; from an accepted one on, the world waits for the agent."""
        if line == EMPTY_REPLY:
            self._inbox[agent] = []
            self._unanswered[agent] = 0
        self._outgoing.append((reply, line))

    async def _answer(self, replies: list[tuple[Callable[[bytes], None], bytes]]) -> None:
        """Sends the replies of a tick as the reference server would."""
        self._random.shuffle(replies)
        loop = asyncio.get_running_loop()
        start = loop.time()
        for (reply, line), due in zip(replies, self._moments(len(replies)), strict=True):
            if (delay := start + due - loop.time()) > 0:
                await asyncio.sleep(delay)
            reply(line)
        await asyncio.sleep(0)  # without delays nothing above has given way to the connections

    def _moments(self, count: int) -> list[float]:
        """Seconds after which each reply of a tick is sent, from a recorded tick with about as many agents."""
        recorded = _TIMING[min(_TIMING, key=lambda agents: abs(agents - len(self._inbox)))]
        pause, *gaps = self._random.choice(recorded)
        steps = [pause, *self._random.choices(gaps, k=count)][:count]
        return [self._slowness * milliseconds / 1000 for milliseconds in accumulate(steps)]
