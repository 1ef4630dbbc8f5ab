"""The proxy alone, between a client that sends three lines and a server that sends them back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import numpy as np
import pytest

from benchmarks.fault_proxy import DIRECTIONS, KINDS, Chooser, FaultProxy, Line, RandomFaults, reset_on_close
from tests.games.osrs.remote.one_fault import OneFault

TIMEOUT = 20
REQUESTS = [b'{"action":"step","body":1}\n', b'{"action":"step","body":{"action":[2,2]}}\n', b'{"action":"step"}\n']


@dataclass
class Trace:
    """The lines that arrived on each side; ``was_reset``: the client's connection was reset."""

    at_server: bytes = b""
    at_client: bytes = b""
    was_reset: bool = False
    injected: dict[tuple[str, str], int] = field(default_factory=dict)


def trace_of(choose: Chooser, seed: int = 0) -> Trace:
    return asyncio.run(asyncio.wait_for(_play(choose, seed), TIMEOUT))


async def _play(choose: Chooser, seed: int) -> Trace:
    trace = Trace()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            trace.at_server += data
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    proxy = FaultProxy(server.sockets[0].getsockname()[1], choose, seed=seed, max_delay=0.05, flood_bytes=1 << 17)
    reader, writer = await asyncio.open_connection("127.0.0.1", await proxy.start())
    try:
        writer.write(b"".join(REQUESTS))
        writer.write_eof()
        while data := await reader.read(1 << 16):
            trace.at_client += data
    except ConnectionError:
        trace.was_reset = True
    writer.close()
    await proxy.stop()
    server.close()
    trace.injected = dict(proxy.injected)
    return trace


def spoilt(kind: str, direction: str, seed: int = 0) -> Trace:
    """The second line is spoiled."""
    choose = OneFault(kind, at=2, direction=direction)
    trace = trace_of(choose, seed)
    assert choose.has_happened
    assert trace.injected == {(direction, kind): 1}
    return trace


def test_without_faults_everything_arrives() -> None:
    everything = b"".join(REQUESTS)
    assert trace_of(RandomFaults({})) == Trace(everything, everything)


@pytest.mark.parametrize("kind", ["delay", "split"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_what_is_late_or_in_pieces_arrives_whole(kind: str, direction: str) -> None:
    assert spoilt(kind, direction).at_client == b"".join(REQUESTS)


@pytest.mark.parametrize(
    ("kind", "arrives"),
    [
        ("drop", [REQUESTS[0], REQUESTS[2]]),
        ("duplicate", [REQUESTS[0], REQUESTS[1], REQUESTS[1], REQUESTS[2]]),
        ("half_close", REQUESTS[:1]),
    ],
)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_what_arrives_beside_a_lost_or_doubled_line(kind: str, arrives: list[bytes], direction: str) -> None:
    trace = spoilt(kind, direction)
    assert trace.at_client == b"".join(arrives)
    assert trace.at_server == b"".join(arrives if direction == "request" else REQUESTS)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_connection_that_is_closed_ends_for_both(direction: str) -> None:
    trace = spoilt("close", direction)
    assert trace.at_server.startswith(REQUESTS[0])
    assert trace.at_client in (b"", REQUESTS[0])
    assert not trace.was_reset


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_connection_that_is_reset(direction: str) -> None:
    assert spoilt("reset", direction).was_reset


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_truncated_line_is_followed_by_the_next_one_or_a_line_ending_or_nothing(direction: str) -> None:
    ends = set()
    for seed in range(12):
        arrived = spoilt("truncate", direction, seed).at_client
        rest = arrived.removeprefix(REQUESTS[0])
        ends.add("close" if not rest.endswith(REQUESTS[2]) else "line ending" if rest.count(b"\n") == 2 else "next")
        assert REQUESTS[1].startswith(rest.removesuffix(REQUESTS[2]).rstrip(b"\n"))
    assert ends == {"close", "line ending", "next"}


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_garbled_line_takes_the_place_of_the_right_one(direction: str) -> None:
    first, second, third = spoilt("garble", direction).at_client.splitlines(keepends=True)
    assert (first, third) == (REQUESTS[0], REQUESTS[2])
    assert second != REQUESTS[1]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_flood_is_many_lines_or_one_without_an_end(direction: str) -> None:
    counts = set()
    for seed in range(8):
        arrived = spoilt("flood", direction, seed).at_client
        assert len(arrived) >= 1000
        assert arrived.endswith(REQUESTS[1] + REQUESTS[2])
        counts.add(arrived.count(b"\n"))
    assert counts == {3, 1003}


def test_other_bytes_in_the_place_of_a_line() -> None:
    trace = trace_of(OneFault(b"else\n", at=1))
    assert trace.at_client == b"else\n" + REQUESTS[1] + REQUESTS[2]
    assert trace.injected == {("reply", "replace"): 1}


def test_a_server_that_is_not_there() -> None:
    async def ask() -> bytes:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        proxy = FaultProxy(port, RandomFaults({}))
        reader, writer = await asyncio.open_connection("127.0.0.1", await proxy.start())
        answer = await reader.read()
        writer.close()
        await proxy.stop()
        return answer

    assert asyncio.run(asyncio.wait_for(ask(), TIMEOUT)) == b""


def test_a_connection_that_is_closed_can_be_reset_as_well() -> None:
    async def reset() -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.close()
        await writer.wait_closed()
        reset_on_close([writer])
        server.close()

    asyncio.run(asyncio.wait_for(reset(), TIMEOUT))


def drawn(faults: RandomFaults, direction: str, count: int = 4000) -> list[object]:
    random = np.random.default_rng(1)
    return [faults(Line(0, direction, b"\n", b"\n"), random) for _ in range(count)]


def test_random_faults_have_their_rates_and_their_direction() -> None:
    faults = RandomFaults({"drop": 0.1, "close": 0.3}, ["request"])
    assert drawn(faults, "reply") == [None] * 4000
    seen = drawn(faults, "request")
    assert seen.count("drop") == pytest.approx(400, abs=80)
    assert seen.count("close") == pytest.approx(1200, abs=150)
    assert drawn(RandomFaults(dict.fromkeys(KINDS, 0.1)), "reply").count(None) == 0


@pytest.mark.parametrize(
    ("rates", "directions", "message"),
    [
        ({"dorp": 0.1}, DIRECTIONS, "did you mean 'drop'"),
        ({"drop": 0.1}, ["sideways"], "unknown direction"),
        ({"drop": -0.1}, DIRECTIONS, "0 or more"),
        ({"drop": float("nan")}, DIRECTIONS, "0 or more"),
        ({"drop": 0.6, "close": 0.6}, DIRECTIONS, "1 at most"),
    ],
)
def test_wrong_rates_are_refused(rates: dict[str, float], directions: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RandomFaults(rates, directions)
