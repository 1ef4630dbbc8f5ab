"""Clients that are silent, gone, too fast or too slow must not disturb others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sb3_pvp.games.osrs.remote.messages import WireRequest
from sb3_pvp.games.osrs.remote.served_games import ServedGames
from sb3_pvp.games.osrs.remote.server_connection import MAX_UNANSWERED, Connections, ServerConnection
from sb3_pvp.games.osrs.remote.synchronous_lobby import SynchronousLobby
from sb3_pvp.games.osrs.remote.ticked_lobby import TickedLobby
from sb3_pvp.games.osrs.remote.wire_server import serve
from tests.games.osrs.remote.fake_world import FakeWorld
from tests.games.osrs.remote.wire import NO_OP, Wire, error, only

TIMEOUT = 20
DEBUG = b'{"action":"debug"}\n'
LONG_DEBUG = b'{"action":"debug","pad":"' + b"x" * 4000 + b'"}\n'
HIGH_WATER = 1000


def test_a_silent_agent_is_logged_out_and_its_opponent_loses_its_target() -> None:
    wire = Wire()
    wire.pair()
    wire.step("1")
    waiting = wire.send_step("1")
    wire.lobby.log_out_silent(5, 10)
    wire.lobby.log_out_silent(10, 10)
    wire.lobby.play()
    assert only(waiting)["body"]["terminalState"] == "TARGET_LOST"
    assert "no agent is logged in" in error(wire.send_step("2"))
    # An agent that waits for a reply is not silent.
    wire.lobby.log_out_silent(19, 10)
    assert "body" in only(wire.reset("1", "baseline"))


def test_every_message_counts() -> None:
    wire = Wire()
    wire.login("1")
    wire.reset("1", "baseline")
    for now in range(6, 40, 6):
        wire.lobby.log_out_silent(now, 10)
        assert "body" in wire.step("1")[0]
    wire.lobby.log_out_silent(46, 10)
    assert only(wire.ask(None, "debug")) == {"body": []}


def test_an_agent_waiting_for_an_opponent_stays_while_its_connection_is_open() -> None:
    wire = Wire()
    wire.login("1", "2")
    answers: dict[str, list[Any]] = {"1": [], "2": []}
    for agent in answers:
        wire.lobby.handle(reset_request(agent), answers[agent].append)
    wire.lobby.drop_reply(answers["1"].append)
    for now in (5, 10, 15):
        wire.lobby.log_out_silent(now, 10)
    assert [info["id"] for info in only(wire.ask(None, "debug"))["body"]] == ["2"]
    assert answers == {"1": [], "2": []}


def reset_request(agent: str) -> WireRequest:
    """A reset that waits for an opponent who never comes."""
    return WireRequest("reset", {"id": agent}, {"target": "absent", "resetParams": {}})


class SlowReader(asyncio.Transport):
    """A client that reads only when `read_all` is called."""

    def __init__(self, connection: ServerConnection) -> None:
        super().__init__()
        self.connection = connection
        self.unread = 0
        self.lines = 0
        self.is_read_from = True

    def write(self, data: Any) -> None:
        self.unread += len(data)
        self.lines += 1
        if self.unread > HIGH_WATER:
            self.connection.pause_writing()

    def read_all(self) -> None:
        self.unread = 0
        self.connection.resume_writing()

    def pause_reading(self) -> None:
        self.is_read_from = False

    def resume_reading(self) -> None:
        self.is_read_from = True

    def is_closing(self) -> bool:
        return False


def test_a_client_that_does_not_read_gets_no_more_replies() -> None:
    connection = ServerConnection(SynchronousLobby(ServedGames(FakeWorld), lambda is_last: None), Connections(1))
    transport = SlowReader(connection)
    connection.connection_made(transport)
    connection.data_received(DEBUG * 1000)
    assert HIGH_WATER < transport.unread < 2 * HIGH_WATER
    assert not transport.is_read_from
    reads = 0
    while transport.lines < 1000:
        transport.read_all()
        reads += 1
    assert 10 < reads < 30
    transport.read_all()
    assert transport.is_read_from


def test_a_flood_of_requests_is_handled_in_turns_with_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "HIGH_WATER", 10**9)

    async def scenario() -> None:
        connection = ServerConnection(SynchronousLobby(ServedGames(FakeWorld), lambda is_last: None), Connections(1))
        transport = SlowReader(connection)
        connection.connection_made(transport)
        connection.data_received(DEBUG * 1000)
        answered = []
        while not answered or answered[-1] < 1000:
            answered.append(transport.lines)
            await asyncio.sleep(0)
        assert 5 < len(answered) < 20
        assert transport.is_read_from

    asyncio.run(scenario())


def test_a_flood_of_requests_is_not_queued_without_bound() -> None:
    async def scenario() -> None:
        lobby = TickedLobby(ServedGames(FakeWorld))
        connection = ServerConnection(lobby, Connections(1))
        transport = SlowReader(connection)
        connection.connection_made(transport)
        connection.data_received(DEBUG * 3 * MAX_UNANSWERED)
        assert not transport.is_read_from
        answered = []
        while transport.lines < 3 * MAX_UNANSWERED:
            for _ in range(MAX_UNANSWERED):  # more than the turns that it takes
                await asyncio.sleep(0)
            lobby.tick()
            answered.append(transport.lines)
            transport.read_all()
        await asyncio.sleep(0)
        assert answered[0] == MAX_UNANSWERED
        assert len(answered) < 10
        assert transport.is_read_from

    asyncio.run(scenario())


@asynccontextmanager
async def server(**options: Any) -> AsyncIterator[Callable[[], Any]]:
    """Runs a server and yields a function that connects to it."""
    listening: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    options = {"make_world": FakeWorld, **options}
    running = asyncio.ensure_future(serve(port=0, on_listening=listening.set_result, **options))
    port = await asyncio.wait_for(listening, TIMEOUT)
    try:
        yield lambda: asyncio.open_connection("127.0.0.1", port)
    finally:
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


class Agent:
    """One agent with its own connection."""

    def __init__(self, name: str, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self.name = name
        self.reader, self.writer = streams

    async def ask(self, action: str, body: Any = None) -> Any:
        line = json.dumps({"action": action, "body": body, "meta": {"id": self.name}})
        self.writer.write(line.encode() + b"\n")
        return json.loads(await asyncio.wait_for(self.reader.readline(), TIMEOUT))

    async def start(self) -> None:
        assert await self.ask("login", {"agentType": "NhEnv"}) == {}
        assert "body" in await self.ask("reset", {"target": "baseline", "resetParams": {}})

    async def step(self) -> int:
        return int((await self.ask("step", {"action": NO_OP}))["body"]["meta"]["episodeTicks"])


@pytest.fixture(autouse=True)
def endless_fights(monkeypatch: pytest.MonkeyPatch) -> None:
    """No fight ends in these tests."""
    monkeypatch.setattr("tests.games.osrs.remote.fake_world.DEATH_TICK", -1)


async def steps_of_a_good_client(agent: Agent, trouble: asyncio.Task[Any]) -> None:
    """Steps while there is trouble; no step may be lost."""
    ticks = 1
    while not trouble.done() or ticks < 50:
        ticks += 1
        assert await agent.step() == ticks
    await trouble


def test_many_rapid_connections_cost_no_step() -> None:
    async def scenario() -> None:
        async with server() as connect:
            good = Agent("1", await connect())
            await good.start()

            async def trouble() -> None:
                for number in range(500):
                    _, writer = await connect()
                    writer.write((b"", b"{bad\n", b'{"action":"st', b"x" * 9000)[number % 4])
                    writer.close()

            await steps_of_a_good_client(good, asyncio.ensure_future(trouble()))

    asyncio.run(scenario())


def test_half_lines_and_unread_replies_cost_no_step() -> None:
    async def scenario() -> None:
        async with server() as connect:
            good = Agent("1", await connect())
            await good.start()

            async def slow_loris() -> None:
                _, writer = await connect()
                for byte in DEBUG[:-1]:
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0.001)

            async def unread() -> int:
                """Sends as many requests as the server accepts, and reads the replies only then."""
                agent = Agent("2", await connect())
                for number in range(20):
                    agent.name = f"idle {number}"
                    assert await agent.ask("login", {"agentType": "NhEnv"}) == {}
                sent = 0
                with contextlib.suppress(asyncio.TimeoutError):
                    while True:
                        agent.writer.write(LONG_DEBUG * 100)
                        sent += 100
                        await asyncio.wait_for(agent.writer.drain(), 0.3)
                for _ in range(sent):
                    assert b"body" in await agent.reader.readline()
                return sent

            trouble = asyncio.ensure_future(asyncio.gather(slow_loris(), unread()))
            await steps_of_a_good_client(good, trouble)
            assert trouble.result()[1] > 500

    asyncio.run(scenario())


def test_all_games_are_compiled_before_the_first_client_connects() -> None:
    """At the first log-in to another game, the fights of all agents would wait for a minute."""
    made: list[str] = []

    def make_world(num_fights: int, seed: int, *, contract: str) -> FakeWorld:
        made.append(contract)
        return FakeWorld(num_fights, seed, contract=contract)

    async def scenario() -> None:
        async with server(make_world=make_world):
            assert made == ["NhEnv", "DharokEnv"]

    asyncio.run(scenario())


def test_the_idle_timeout_of_a_server() -> None:
    async def scenario() -> None:
        async with server(idle_timeout=0.3) as connect:
            agent = Agent("1", await connect())
            await agent.start()
            for _ in range(20 * TIMEOUT):
                if not (await agent.ask("debug"))["body"]:
                    break
                await asyncio.sleep(0.05)
            assert "no agent is logged in" in (await agent.ask("step", {"action": NO_OP}))["message"]
            await agent.start()
            assert await agent.step() == 2

    asyncio.run(scenario())


def test_silent_and_half_spoken_connections_are_closed_and_waiting_ones_are_not() -> None:
    async def scenario() -> None:
        async with server(idle_timeout=1.0) as connect:
            silent, half, unread = [await connect() for _ in range(3)]
            waiting = Agent("1", await connect())
            assert await waiting.ask("login", {"agentType": "NhEnv"}) == {}
            reset = {"action": "reset", "body": {"target": "absent", "resetParams": {}}, "meta": {"id": "1"}}
            waiting.writer.write(json.dumps(reset).encode() + b"\n")
            unread[1].write(LONG_DEBUG * 20_000)  # more replies than the buffers of both sides hold
            started = asyncio.get_running_loop().time()

            async def trickle() -> None:
                while asyncio.get_running_loop().time() < started + TIMEOUT:
                    half[1].write(b" ")
                    await asyncio.sleep(0.05)

            trickling = asyncio.ensure_future(trickle())
            for reader, _ in (silent, half):
                with contextlib.suppress(ConnectionResetError):
                    assert await asyncio.wait_for(reader.read(), TIMEOUT) == b""
            trickling.cancel()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(waiting.reader.readline(), 2.0)
            _, writer = await connect()
            writer.close()

    asyncio.run(scenario())


def test_connections_beyond_the_limit_are_told_so() -> None:
    async def scenario() -> None:
        async with server(max_connections=2) as connect:
            agents = [Agent(str(number), await connect()) for number in range(2)]
            for agent in agents:
                await agent.start()
            reader, _ = await connect()
            reply = json.loads(await asyncio.wait_for(reader.readline(), TIMEOUT))
            assert "the server has 2 connections, its limit" in reply["message"]
            assert await reader.read() == b""
            assert await agents[0].step() == 2
            agents[1].writer.close()
            await asyncio.sleep(0.2)
            await Agent("3", await connect()).start()

    asyncio.run(scenario())


@pytest.mark.slow
def test_more_clients_than_files_may_be_open() -> None:
    """Those that fight go on, the log stays short, and there is room again when the others have left."""
    command = ["-c", 'ulimit -n 256; exec "$@"', "sh", sys.executable, "-m", "sb3_pvp.cli", "sim-server", "--port", "0"]
    with subprocess.Popen(["sh", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        address = "127.0.0.1", int(process.stdout.readline().rsplit(":", 1)[1])
        try:
            with socket.create_connection(address, TIMEOUT) as good, contextlib.ExitStack() as stack:
                for _ in range(600):
                    stack.enter_context(socket.create_connection(address, TIMEOUT))
                for _ in range(3):
                    good.sendall(DEBUG)
                    assert good.recv(100) == b'{"body":[]}\n'
            for _ in range(20 * TIMEOUT):  # until the server has seen that they are gone
                with socket.create_connection(address, TIMEOUT) as late:
                    late.sendall(DEBUG)
                    if late.recv(100) == b'{"body":[]}\n':
                        break
                time.sleep(0.05)
            else:
                pytest.fail("no client is accepted any more")
        finally:
            process.terminate()
        assert process.wait(TIMEOUT) == 0
        assert len(process.stderr.read().splitlines()) < 10


@pytest.mark.parametrize(
    ("options", "words"),
    [({"tick_rate": 0}, "more than 0 milliseconds"), ({"idle_timeout": -1}, "0 seconds or more")],
)
def test_times_that_make_no_sense(options: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        asyncio.run(serve(port=0, make_world=FakeWorld, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_signals_end_the_command_cleanly(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "sb3_pvp.cli", "sim-server", "--port", "0", "--tick-rate", "50"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        announcement = process.stdout.readline()
        port = int(announcement.rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port), TIMEOUT) as client:
            client.sendall(DEBUG)
            assert client.recv(100) == b'{"body":[]}\n'
            process.send_signal(number)
            assert client.recv(100) == b""
        assert process.wait(TIMEOUT) == 0
        # The first start on a machine compiles the rules of both games, and says so.
        assert [line for line in process.stderr if "compiling the rules" not in line] == []
    assert announcement == f"sb3-pvp sim-server listens on 127.0.0.1:{port}\n"
