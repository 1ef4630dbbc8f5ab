"""Talks to a `Lobby` without sockets."""

from __future__ import annotations

from typing import Any

import orjson

from sb3_pvp.games.osrs.remote.fight_pool import WorldFactory
from sb3_pvp.games.osrs.remote.messages import WireRequest
from sb3_pvp.games.osrs.remote.served_games import ServedGames
from sb3_pvp.games.osrs.remote.synchronous_lobby import SynchronousLobby
from tests.games.osrs.remote.fake_world import FakeWorld

NO_OP = [0] * 12


class Wire:
    """`ask` returns a list to which the reply is added when it comes; `lobby.play()` plays a tick."""

    def __init__(self, first_size: int = 4, make_world: WorldFactory | None = None) -> None:
        self.worlds: list[FakeWorld] = []
        #: Whether all fights were ready, each time that one was.
        self.scheduled: list[bool] = []
        games = ServedGames(make_world or self._make_world, seed=7, first_size=first_size)
        self.lobby = SynchronousLobby(games, self._schedule)

    def _make_world(self, num_fights: int, seed: int, *, contract: str) -> FakeWorld:
        self.worlds.append(FakeWorld(num_fights, seed, contract=contract))
        return self.worlds[-1]

    def _schedule(self, is_last: bool) -> None:
        self.scheduled.append(is_last)

    def ask(self, agent: str | None, action: str, body: Any = None) -> list[dict[str, Any]]:
        replies: list[dict[str, Any]] = []
        meta = None if agent is None else {"id": agent}
        self.lobby.handle(WireRequest(action, meta, body), lambda line: replies.append(orjson.loads(line)))
        return replies

    def login(self, *agents: str) -> None:
        for agent in agents:
            assert self.ask(agent, "login", {"agentType": "NhEnv"}) == [{}]

    def reset(self, agent: str, target: str, **body: Any) -> list[dict[str, Any]]:
        return self.ask(agent, "reset", {"target": target, "resetParams": {}, **body})

    def send_step(self, agent: str, action: Any = NO_OP) -> list[dict[str, Any]]:
        return self.ask(agent, "step", {"action": action})

    def step(self, *agents: str) -> list[dict[str, Any]]:
        """Steps all agents in one tick, and returns their replies."""
        replies = [self.send_step(agent) for agent in agents]
        self.lobby.play()
        return [only(reply) for reply in replies]

    def pair(self, **body: Any) -> None:
        """Starts a fight of agents 1 and 2; only the reset of 1 is answered yet."""
        self.login("1", "2")
        first = self.reset("1", "2", **body)
        assert first == []
        self.second = self.reset("2", "1", **body)
        assert "body" in only(first)


def only(replies: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the only reply."""
    assert len(replies) == 1
    return replies[0]


def error(replies: list[dict[str, Any]]) -> str:
    """Returns the message of the only reply, an error."""
    reply = only(replies)
    assert reply["error"] is True
    return str(reply["message"])
