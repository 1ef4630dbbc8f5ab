"""A server that replays a recording: it answers each request with the recorded reply, in the recorded order."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

Json = dict[str, Any]


class Recording:
    """A recorded session.

    Attributes:
        contract: name of the contract.
        requests: of each agent, in order.
        replies: ``(agent, line)`` of all agents, in order, but for those to log-outs.
    """

    def __init__(self, path: Path) -> None:
        self.contract = "NhEnv"
        self.requests: dict[str, list[Json]] = defaultdict(list)
        self.replies: list[tuple[str, str]] = []
        log_outs = set()
        with gzip.open(path, "rt") as file:
            for entry in map(json.loads, file):
                self.contract = entry.get("header", {}).get("env", self.contract)
                exchange = entry.get("conn"), entry.get("seq")
                if entry.get("dir") == ">":
                    self.requests[entry["conn"]].append(json.loads(entry["line"]))
                    if self.requests[entry["conn"]][-1]["action"] == "logout":
                        log_outs.add(exchange)
                elif entry.get("dir") == "<" and exchange not in log_outs:
                    self.replies.append((entry["conn"], entry["line"]))

    def actions(self, agent: str) -> list[list[list[int]]]:
        """Returns the recorded actions of each fight of an agent."""
        fights: list[list[list[int]]] = []
        for request in self.requests[agent]:
            if request["action"] == "reset":
                fights.append([])
            elif request["action"] == "step":
                fights[-1].append(request["body"]["action"])
        return fights

    def bodies(self, agent: str) -> list[Json]:
        """Returns the bodies of the replies to an agent's resets and steps."""
        replies = [json.loads(line) for who, line in self.replies if who == agent]
        return [reply["body"] for reply in replies if "body" in reply]


class ReplayServer:
    """Answers from a recording; ``received`` has the requests, without the log-outs before the log-ins."""

    def __init__(self, recording: Recording) -> None:
        self._open_requests: dict[str, list[asyncio.StreamWriter]] = defaultdict(list)
        self._replies = list(recording.replies)
        self.received: dict[str, list[Json]] = defaultdict(list)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves a connection."""
        while line := await reader.readline():
            request = json.loads(line)
            agent = request["meta"]["id"]
            if request["action"] == "logout" and not self.received[agent]:
                writer.write(b'{"error":true,"message":"IllegalStateException: No player found for: it"}\n')
                continue
            self.received[agent].append(request)
            if request["action"] == "logout":  # At once, as a server does, wherever the recording has it.
                writer.write(b"{}\n")
                continue
            self._open_requests[agent].append(writer)
            self._answer()

    def _answer(self) -> None:
        while self._replies and self._open_requests[self._replies[0][0]] and self._was_played(*self._replies[0]):
            agent, line = self._replies.pop(0)
            self._open_requests[agent].pop(0).write(line.encode() + b"\n")

    def _was_played(self, agent: str, line: str) -> bool:
        """Whether the tick of this reply was played: the other agent of a pair has sent its steps up to it."""
        others = [requests for other, requests in self.received.items() if other != agent]
        if not others or self.received[agent][-1]["action"] != "reset":
            return True
        steps = sum(request["action"] == "step" for request in others[0])
        return bool(steps >= json.loads(line).get("body", {"meta": {"episodeTicks": 0}})["meta"]["episodeTicks"])
