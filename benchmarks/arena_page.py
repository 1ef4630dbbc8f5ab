"""``python -m benchmarks arena --page``: the arena's page with many viewers, live fights, and people who play."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

import numpy as np
import psutil
import websockets

from benchmarks.report import Row
from sb3_pvp.game import controls_of, find_game

#: Fights at once, viewers of the first one, and of these who never read.
FIGHTS, VIEWERS, DEAD = 20, 200, 20
#: Seconds of a tick, and before a tick at which a scripted person sends an order.
TICK, LEAD = 0.6, 0.05
#: Seconds in which the viewers of a fight come, one after another.
ARRIVAL = 10.0
#: Seconds that are not measured: all processes and fights start.
START = 15.0
_SERVER = """
import sys
from sb3_pvp.arena.page.demo import make_demo
from sb3_pvp.arena.page.page_server import serving_page
with make_demo(sys.argv[1]) as arena, serving_page(arena, port=0, guarded=False) as address:
    print(address, flush=True)
    sys.stdin.read()
"""


@dataclass
class Seen:
    """What one client saw: by tick how late it was told, and when it came; of a person also orders that were played."""

    late: list[float] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    orders: int = 0
    played: int = 0

    def delays(self) -> list[float]:
        """Returns seconds from when each tick was due to its arrival, but for the least time on the way."""
        dues = np.array(self.at) - np.array(self.late) - TICK * np.arange(len(self.at))
        return (np.array(self.late) + dues - dues.min()).tolist() if len(dues) else []


def bench_page(game: str, seconds: float, people: int) -> list[Row]:
    """Returns the delays of ticks by kind of client, orders that came too late, and the server's memory and CPU."""
    with _page_process(game) as (address, server):
        return asyncio.run(_Load(address, server, game, people).run(seconds))


@contextmanager
def _page_process(game: str) -> Iterator[tuple[str, psutil.Process]]:
    """Serves the page of the demonstration in a process of its own; yields its address, and the process."""
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER, game], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdin is not None and server.stdout is not None
    try:
        yield server.stdout.readline().strip(), psutil.Process(server.pid)
    finally:
        server.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            server.wait(20)
        server.kill()


class _Load:
    """Clients of a page: viewers of one fight, one viewer of each other fight, dead ones, and people who play."""

    def __init__(self, address: str, server: psutil.Process, game: str, people: int) -> None:
        self._address, self._server, self._people = address, server, people
        found = find_game(game)
        self._heads = [[each.id for each in head.actions] for head in found.contract.heads]
        self._controls = [each for group in controls_of(found.viewer, found.contract) for each in group.controls]
        self._seen: dict[str, list[Seen]] = {"viewer": [], "fight": [], "person": []}
        self._memory = list[tuple[float, float]]()
        self._sockets = list[Any]()
        self._is_on, self._measures = True, False

    async def run(self, seconds: float) -> list[Row]:
        """Plays fights for so long, after a start that is not measured."""
        names = [each["player"] for each in await self._ask("/api/leaderboard")]
        tasks = [asyncio.create_task(self._fights(names, n)) for n in range(FIGHTS)]
        tasks += [asyncio.create_task(self._person(names)) for _ in range(self._people)]
        await asyncio.sleep(START)
        self._measures, cpu, began = True, self._cpu(), time.monotonic()
        while time.monotonic() - began < seconds:
            self._memory.append((time.monotonic() - began, self._megabytes()))
            await asyncio.sleep(5)
        cpu, wall = self._cpu() - cpu, time.monotonic() - began
        self._is_on = False
        for each in tasks:
            each.cancel()
        for wrong in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(wrong, Exception):
                raise wrong
        rows = [_row(name, seen) for name, seen in self._seen.items() if seen]
        at, megabytes = np.array(self._memory).T
        half = len(at) // 2  # what grows for ever also grows in the second half
        growth = np.polyfit(at[half:], megabytes[half:], 1)[0] * 600 if half > 2 else 0.0
        memory = {"mb_start": megabytes[0], "mb_end": megabytes[-1], "mb_per_10_min": growth}
        return [*rows, Row(case="server", cpu_s=cpu, wall_s=wall, **memory)]

    async def _fights(self, names: Sequence[str], number: int) -> None:
        """Begins one fight after the other, each with its viewers; the first place has all the others."""
        for turn in count(number):
            pair = {"first": names[turn % len(names)], "second": names[(turn + 1) % len(names)]}
            fight = await self._ask("/api/live", pair)
            kind, many = ("viewer", VIEWERS) if number == 0 else ("fight", 1)
            watching = [self._watch(fight["id"], kind, ARRIVAL * n / many) for n in range(many)]
            if number == 0:
                watching += [self._dead(fight["id"]) for _ in range(DEAD)]
            await asyncio.gather(*watching)

    async def _watch(self, fight: str, kind: str, after: float) -> None:
        await asyncio.sleep(after)
        seen = Seen()
        self._seen[kind].append(seen)
        async with websockets.connect(self._socket(fight), max_size=None) as watched:
            await watched.recv()  # what has been before
            async for text in watched:
                self._told(seen, json.loads(text))

    async def _dead(self, fight: str) -> None:
        """Connects, and never reads; what the system would take in its place is little."""
        host, port = self._address.removeprefix("http://").split(":")
        dead = socket.socket()
        dead.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        dead.connect((host, int(port)))
        reader, writer = await asyncio.open_connection(sock=dead)
        lines = (
            f"GET /api/live/{fight}/watch HTTP/1.1",
            f"Host: {self._address.removeprefix('http://')}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        )
        writer.write("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        self._sockets.append(writer)

    async def _person(self, names: Sequence[str]) -> None:
        """Plays one fight after the other: orders something that is allowed just before each tick."""
        for turn in count():
            person = {"person": {}, "second": names[turn % len(names)]}
            fight = await self._ask("/api/live", person)
            seen, sent = Seen(), ""
            self._seen["person"].append(seen)
            async with websockets.connect(f"{self._socket(fight['id'])}?key={fight['key']}", max_size=None) as playing:
                async for text in playing:
                    message = json.loads(text)
                    if message["first"]:  # not what has been before
                        self._told(seen, message)
                    if not message["moments"] or message["state"] == "over":
                        continue
                    moment = message["moments"][-1]
                    if sent and self._measures:
                        seen.orders, seen.played = seen.orders + 1, seen.played + (sent in moment["played"])
                    allowed = self._allowed(moment["can"])
                    sent = allowed[turn % len(allowed)] if allowed else ""
                    await asyncio.sleep(max(message["wait"] - LEAD, 0.0))
                    if sent:
                        await playing.send(json.dumps({"do": [sent]}))

    def _allowed(self, can: Sequence[str]) -> list[str]:
        """Returns the controls of which everything is allowed."""
        flags = dict(zip(chain(*self._heads), (bit == "1" for bit in "".join(can)), strict=True))
        return [each.action for each in self._controls if all(flags[part] for part in (each.action, *each.also))]

    def _told(self, seen: Seen, message: dict[str, Any]) -> None:
        if self._measures and len(message["moments"]) == 1 and message["state"] == "running":
            seen.late.append(TICK - message["wait"])
            seen.at.append(time.monotonic())

    async def _ask(self, path: str, order: dict[str, Any] | None = None) -> Any:
        data = None if order is None else json.dumps(order).encode()
        request = urllib.request.Request(self._address + path, data, {"content-type": "application/json"})

        def answer() -> Any:
            with urllib.request.urlopen(request, timeout=60) as found:
                return json.load(found)

        return await asyncio.to_thread(answer)

    def _socket(self, fight: str) -> str:
        return f"ws{self._address.removeprefix('http')}/api/live/{fight}/watch"

    def _family(self) -> list[psutil.Process]:
        return [self._server, *self._server.children(recursive=True)]

    def _cpu(self) -> float:
        return sum(sum(each.cpu_times()[:2]) for each in self._family())

    def _megabytes(self) -> float:
        return sum(each.memory_info().rss for each in self._family()) / 2**20


def _row(name: str, seen: Sequence[Seen]) -> Row:
    delays = np.array([each for one in seen for each in one.delays()]) * 1000
    found: Row = {"case": name, "n": len(seen), "ticks": len(delays)}
    if len(delays):
        found |= {f"p{share:g}_ms": float(np.percentile(delays, share)) for share in (50, 99, 99.9)}
    if any(each.orders for each in seen):
        found |= {"orders": sum(each.orders for each in seen), "played": sum(each.played for each in seen)}
    return found
