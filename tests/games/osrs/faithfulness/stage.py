"""Two agents on a server, both controlled: what a scenario is played with."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Callable, Iterator
from typing import Any

from sb3_pvp.game.contract import load_contract
from tests.games.osrs.faithfulness.reference import Json
from tests.games.osrs.faithfulness.wire_entries import Key, Sides, matched_tick

CONTRACT = load_contract("NhEnv")
TIMEOUT = 60.0
#: Reset parameters of all scenarios.
OPEN_RULES = {
    **dict.fromkeys(("randomizeGear", "randomizeBuild", "randomizeFightType"), False),
    **dict.fromkeys(("onlySwitchPrayerWhenAboutToAttack", "onlySwitchGearWhenAttackSoon"), False),
    **dict.fromkeys(("allowMovingIfCanAttack", "allowSmite", "allowRedemption"), True),
}
REQUEST_FLAGS = {"training": True, "maintainTargetEnvironment": True, "deathMatch": True}
LONGEST_WALK = 12

#: Sub-actions that are ordered together; an empty order does nothing.
Order = tuple[str, ...]
WAIT: Order = ()
STEP_BESIDE: Order = ("move_next_to_target",)


def farcast(tiles: int) -> Order:
    """Walk to a tile that far away."""
    return ("move_to_farcast_tile", f"farcast_{tiles}_tiles")


def action(order: Order) -> list[int]:
    """The joint action, masks ignored."""
    chosen = [0] * CONTRACT.num_heads
    for name in order:
        head, index = CONTRACT.action_index(name)
        chosen[head] = index
    return chosen


class Over(Exception):
    """The fight has ended."""


class Client:
    """One agent on one connection."""

    def __init__(self, address: tuple[str, int], agent: str) -> None:
        self.agent = agent
        self.socket = socket.create_connection(address, TIMEOUT)
        self._lines = self.socket.makefile("rb")

    def send(self, request: str, body: Json | None = None) -> None:
        message = {"action": request, "body": body, "meta": {"id": self.agent}}
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> Any:
        """The body of the next reply, or ``{"error": ...}``."""
        reply = json.loads(self._lines.readline())
        return {"error": reply["message"]} if reply.get("error") else reply.get("body") or {}

    def close(self) -> None:
        self.send("logout")
        self.receive()
        self._lines.close()
        self.socket.close()


class Stage:
    """A fight of two agents, A and B, in lock-step; ``ticks`` collects what was seen."""

    def __init__(self, address: tuple[str, int], number: int, build: str, case: str, episode_id: str | None) -> None:
        self.build, self.case = build, case
        self.clients = [Client(address, str(2 * number)), Client(address, str(2 * number + 1))]
        self.replies: list[Json] = [{}, {}]
        self.ticks: list[tuple[Key, Sides]] = []
        self.phase("start")
        gear = {} if episode_id is None else {"randomizeGear": True, "episodeId": episode_id}
        self._resets = [self._reset_body(0, gear), self._reset_body(1, {})]
        for client in self.clients:
            client.send("login", {"agentType": "NhEnv"})
            client.receive()
        self.reset()

    def _reset_body(self, side: int, gear: dict[str, Any]) -> Json:
        agent, target = self.clients[side].agent, self.clients[1 - side].agent
        params = {**OPEN_RULES, **gear, "accountBuild": self.build, "agent": agent, "target": target}
        return {"target": target, **REQUEST_FLAGS, "resetParams": params}

    def reset(self) -> None:
        """A new fight: one agent is answered at once, and steps; in that tick the other one is answered."""
        self.clients[0].send("reset", self._resets[0])
        self._await_message_of_a()  # Two lines on two connections may overtake each other.
        self.clients[1].send("reset", self._resets[1])
        (readable,), *_ = select.select([client.socket for client in self.clients], [], [], TIMEOUT)
        first = [client.socket for client in self.clients].index(readable)
        self.clients[first].receive()
        self.clients[first].send("step", {"action": action(WAIT)})
        self.replies = [client.receive() for client in self.clients]
        self._tick = 0
        self._note([action(WAIT) if side == first else None for side in (0, 1)])

    def _await_message_of_a(self) -> None:
        a, b = self.clients
        is_there = False
        while not is_there:
            b.send("debug")
            is_there = any(info["pendingMessage"] for info in b.receive() if info["id"] == a.agent)

    def phase(self, name: str) -> None:
        """Ticks are counted from here."""
        self._phase, self._tick = name, 0

    def sees(self, side: int, observation: str) -> float:
        """An entry of the last observation of a side."""
        return float(self.replies[side]["obs"][CONTRACT.observation_index(observation)])

    def tick(self, a: Order = WAIT, b: Order = WAIT) -> None:
        """Both step; `Over` at the end of the fight."""
        actions = [action(a), action(b)]
        for client, chosen in zip(self.clients, actions, strict=True):
            client.send("step", {"action": chosen})
        self.replies = [client.receive() for client in self.clients]
        self._tick += 1
        self._note(actions)
        if any("terminalState" in reply for reply in self.replies):
            raise Over

    def _note(self, actions: list[Any]) -> None:
        exchanges = [{"action": chosen, "reply": reply} for chosen, reply in zip(actions, self.replies, strict=True)]
        tick = matched_tick([self.build, self.case, self._phase, self._tick], exchanges)
        if tick is not None:
            self.ticks.append(tick)

    def wait(self, ticks: int) -> None:
        """Nobody orders anything."""
        for _ in range(ticks):
            self.tick()

    def walk_to_distance(self, tiles: int) -> None:
        """A walks to a distance (1: beside B) and stands still; `setup` ticks, which are not compared."""
        phase = self._phase
        self.phase("setup")
        for _ in self.until(lambda: self._is_at(tiles), LONGEST_WALK):
            self.tick(STEP_BESIDE if tiles == 1 else farcast(tiles))
        self.tick()
        self.phase(phase)

    def _is_at(self, tiles: int) -> bool:
        if tiles == 1:
            return self.sees(0, "player_location_can_melee") == 1
        return bool(self.replies[0]["meta"]["distance"] == tiles)

    @staticmethod
    def until(done: Callable[[], bool], limit: int) -> Iterator[int]:
        """Counts ticks, at most ``limit``, until something has happened."""
        for number in range(limit):
            if done():
                return
            yield number
        assert done(), f"not after {limit} ticks"

    def shoot_until_hurt(self, health: float, phase: str, limit: int = 80) -> None:
        """B shoots until A's health falls below a fraction; ticks of a phase that is not compared."""
        self.phase(phase)
        shoot = ("ranged_attack", "basic_ranged_attack")
        for _ in self.until(lambda: self.sees(0, "player_health_percent") < health, limit):
            self.tick(WAIT, shoot)

    def close(self) -> None:
        """Both log out."""
        for client in self.clients:
            client.close()
