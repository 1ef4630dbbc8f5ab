"""The server on a real socket: framing, disconnects, shutdown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sb3_pvp.games.osrs.remote.messages import MAX_LINE
from sb3_pvp.games.osrs.remote.wire_server import serve
from tests.games.osrs.remote.fake_world import FakeWorld

TIMEOUT = 10


class Client:
    """A connection with one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, line: bytes) -> Any:
        self.writer.write(line)
        reply = await asyncio.wait_for(self.reader.readline(), TIMEOUT)
        return json.loads(reply) if reply else None


@asynccontextmanager
async def server(worlds: list[FakeWorld] | None = None) -> AsyncIterator[Callable[[], Awaitable[Client]]]:
    """Runs a server and yields a function that connects to it."""

    def make_world(num_fights: int, seed: int, *, contract: str) -> FakeWorld:
        world = FakeWorld(num_fights, seed, contract=contract)
        if worlds is not None:
            worlds.append(world)
        return world

    listening: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(serve(port=0, make_world=make_world, on_listening=listening.set_result))
    port = await asyncio.wait_for(listening, TIMEOUT)

    async def connect() -> Client:
        return Client(*await asyncio.open_connection("127.0.0.1", port))

    yield connect
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def request(agent: str, action: str, body: Any = None, pad: int = 0) -> bytes:
    """Returns a request line, made longer by ``pad`` bytes."""
    return json.dumps({"action": action, "body": body, "meta": {"id": agent}, "pad": "x" * pad}).encode() + b"\n"


LOGIN = {"agentType": "NhEnv"}
RESET = {"target": "baseline", "resetParams": {}}
STEP = {"action": [0] * 12}


def test_any_connection_may_send_requests_for_an_agent() -> None:
    async def scenario() -> None:
        async with server() as connect:
            first = await connect()
            assert await first.ask(request("1", "login", LOGIN)) == {}
            assert "body" in await first.ask(request("1", "reset", RESET))
            first.writer.close()
            second = await connect()
            assert (await second.ask(request("1", "step", STEP)))["body"]["meta"]["episodeTicks"] == 2

    asyncio.run(scenario())


def test_lines_may_be_split_joined_and_end_with_crlf() -> None:
    async def scenario() -> None:
        async with server() as connect:
            client = await connect()
            client.writer.write(request("1", "login", LOGIN).replace(b"\n", b"\r\n") + request("1", "reset", RESET)[:9])
            assert await asyncio.wait_for(client.reader.readline(), TIMEOUT) == b"{}\n"
            assert "body" in await client.ask(request("1", "reset", RESET)[9:])

    asyncio.run(scenario())


@pytest.mark.parametrize(("length", "answered"), [(MAX_LINE, True), (MAX_LINE + 1, False), (100_000, False)])
def test_length_of_a_line(length: int, answered: bool) -> None:
    async def scenario() -> None:
        async with server() as connect:
            client = await connect()
            line = request("1", "debug", pad=length - len(request("1", "debug")) + 1)
            assert len(line) == length + 1
            assert await client.ask(line) == ({"body": []} if answered else None)

    asyncio.run(scenario())


def test_nonsense_closes_this_connection_only() -> None:
    async def scenario() -> None:
        async with server() as connect:
            good, bad = await connect(), await connect()
            assert await good.ask(request("1", "login", LOGIN)) == {}
            assert await bad.ask(b"{bad\n" + request("1", "debug")) is None
            assert "body" in await good.ask(request("1", "reset", RESET))

    asyncio.run(scenario())


def test_shutdown_closes_connections_and_the_world() -> None:
    async def scenario() -> None:
        worlds: list[FakeWorld] = []
        async with server(worlds) as connect:
            client = await connect()
            assert await client.ask(request("1", "login", LOGIN)) == {}
        assert await asyncio.wait_for(client.reader.read(), TIMEOUT) == b""
        assert all(world.closed for world in worlds)

    asyncio.run(scenario())
