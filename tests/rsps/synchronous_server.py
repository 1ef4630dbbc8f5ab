"""A server that waits for every agent before it plays a tick, as the reference server does, with a reset that takes
several ticks: whoever stays silent stops everybody (protocol-observed.md, surprises 1 and 2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from sb3_pvp.rsps.arena import Arenas
from sb3_pvp.rsps.messages import Request, parse_request
from sb3_pvp.rsps.synchronous_lobby import SynchronousLobby
from tests.rsps.living_world import LivingWorld

RESET_TICKS = 4
Message = tuple[Request, Callable[[bytes], None]]


class SynchronousServer:
    """``ticks`` counts the ticks of the world."""

    def __init__(self) -> None:
        self._lobby = SynchronousLobby(Arenas(LivingWorld, 0, 8), lambda is_last: None)
        self._arrivals: list[Message] = []
        #: Of each agent in the world: messages that are not handed on yet, and whether it waits for an answer.
        self._inbox: dict[str, list[tuple[int, Message]]] = {}
        self._unanswered: dict[str, int] = {}
        self.ticks = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves a connection."""
        while line := await reader.readline():
            self._take(parse_request(line.strip()), writer.write)
            self._play()

    def _take(self, request: Request, send: Callable[[bytes], Any]) -> None:
        def reply(line: bytes) -> None:
            send(line.replace(b',"independentFights":true', b""))  # They are not.

        if request.action == "login":
            self._arrivals.append((request, reply))
            return
        agent = "" if request.action == "debug" else request.agent_id
        if request.action in ("logout", "debug") or agent not in self._inbox:
            self._inbox.pop(agent, None)
            self._unanswered.pop(agent, None)
            self._lobby.handle(request, reply)
            return
        self._unanswered[agent] += 1

        def answer(line: bytes) -> None:
            if agent in self._unanswered:
                self._unanswered[agent] -= 1
            reply(line)

        delay = RESET_TICKS if request.action == "reset" else 0
        self._inbox[agent].append((self.ticks + delay, (request, answer)))

    def _play(self) -> None:
        """Plays ticks as long as everybody has sent something."""
        while all(self._unanswered.values()) and (self._arrivals or self._inbox):
            arrivals, self._arrivals = self._arrivals, []
            self.ticks += 1
            for request, reply in arrivals:
                self._inbox[request.agent_id] = []
                self._unanswered[request.agent_id] = 0
                self._lobby.handle(request, reply)
            for messages in self._inbox.values():
                while messages and messages[0][0] < self.ticks:
                    self._lobby.handle(*messages.pop(0)[1])
            self._lobby.play()
            if not arrivals and not any(self._inbox.values()) and all(self._unanswered.values()):
                return  # Everybody waits for somebody who is not there.
