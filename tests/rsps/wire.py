"""Talks to a `Lobby` without sockets."""

from __future__ import annotations

from typing import Any

import orjson

from sb3_pvp.games.osrs.remote.arena import Arenas
from sb3_pvp.games.osrs.remote.fight_pool import WorldFactory
from sb3_pvp.games.osrs.remote.messages import Request
from sb3_pvp.games.osrs.remote.synchronous_lobby import SynchronousLobby
from tests.rsps.fake_world import FakeWorld

NO_OP = [0] * 12


class Wire:
    """`ask` returns the list that the reply is put into, when it comes; `play` lets the world tick once."""

    def __init__(self, first_size: int = 4, make_world: WorldFactory | None = None) -> None:
        self.worlds: list[FakeWorld] = []
        #: For each time that a fight was ready: whether all were.
        self.scheduled: list[bool] = []
        arenas = Arenas(make_world or self._make_world, seed=7, first_size=first_size)
        self.lobby = SynchronousLobby(arenas, self._schedule)

    def _make_world(self, num_fights: int, seed: int, *, contract: str) -> FakeWorld:
        self.worlds.append(FakeWorld(num_fights, seed, contract=contract))
        return self.worlds[-1]

    def _schedule(self, is_last: bool) -> None:
        self.scheduled.append(is_last)

    def ask(self, agent: str | None, action: str, body: Any = None) -> list[dict[str, Any]]:
        replies: list[dict[str, Any]] = []
        meta = None if agent is None else {"id": agent}
        self.lobby.handle(Request(action, meta, body), lambda line: replies.append(orjson.loads(line)))
        return replies

    def login(self, *agents: str) -> None:
        for agent in agents:
            assert self.ask(agent, "login", {"agentType": "NhEnv"}) == [{}]

    def reset(self, agent: str, target: str, **body: Any) -> list[dict[str, Any]]:
        return self.ask(agent, "reset", {"target": target, "resetParams": {}, **body})

    def send_step(self, agent: str, action: Any = NO_OP) -> list[dict[str, Any]]:
        return self.ask(agent, "step", {"action": action})

    def step(self, *agents: str) -> list[dict[str, Any]]:
        """All agents step in one tick; their replies."""
        replies = [self.send_step(agent) for agent in agents]
        self.lobby.play()
        return [only(reply) for reply in replies]

    def pair(self, **body: Any) -> None:
        """Agents 1 and 2 fight each other; 1 has been answered, 2 has not."""
        self.login("1", "2")
        first = self.reset("1", "2", **body)
        assert first == []
        self.second = self.reset("2", "1", **body)
        assert "body" in only(first)


def only(replies: list[dict[str, Any]]) -> dict[str, Any]:
    """The one reply that has come."""
    assert len(replies) == 1
    return replies[0]


def error(replies: list[dict[str, Any]]) -> str:
    """The text of the error reply that has come."""
    reply = only(replies)
    assert reply["error"] is True
    return str(reply["message"])
