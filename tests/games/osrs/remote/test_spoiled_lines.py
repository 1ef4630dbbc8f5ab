"""Findings of the faults benchmark: one corrupted line each, and how client and guard must react."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from benchmarks.fault_proxy import Chooser, FaultProxy, Line
from sb3_pvp.game import Outcome
from sb3_pvp.games.osrs.remote import RemoteError, RemoteWorld
from sb3_pvp.games.osrs.remote.client_errors import Lost
from sb3_pvp.games.osrs.remote.client_replies import parse_reply
from sb3_pvp.games.osrs.remote.guard_process import log_out
from tests.games.osrs.remote.fake_world import DEATH_TICK
from tests.games.osrs.remote.one_fault import OneFault
from tests.games.osrs.remote.served import handler_server, logged_in, world_server

BOT = {"bots": (None, "baseline")}
TIMEOUT = 20


@pytest.fixture
def port() -> Iterator[int]:
    """Port of our own server."""
    with world_server() as port:
        yield port


def play(port: int, choose: Chooser, ticks: int, options: str = "") -> tuple[RemoteWorld, Outcome]:
    """Plays a fight against the bot through a proxy, and returns the world and the fight's outcome."""
    with handler_server(FaultProxy(port, choose).handle) as proxy_port:
        world = RemoteWorld(f"rsps://127.0.0.1:{proxy_port}?step_timeout=5&reset_timeout=5&backoff=0.01{options}")
        try:
            world.reset(options=BOT)
            for _ in range(ticks):
                world.step(np.zeros((1, 2, world.contract.num_heads), np.int64))
        finally:
            world.close()
        assert logged_in(port) == []
    return world, Outcome(int(world.outcome[0, 0]))


def changed(pattern: bytes, replacement: bytes, at: int = 3) -> Callable[[Line, Any], bytes | None]:
    """Returns a chooser that changes the reply to the ``at``-th step."""
    place = OneFault("drop", at)

    def choose(line: Line, random: Any) -> bytes | None:
        return re.sub(pattern, replacement, line.data) if place(line, random) else None

    return choose


@pytest.mark.parametrize("value", [b"null", b'"?"', b'"0.5"', b"[]", b"{}", b"1e400", b"NaN"])
@pytest.mark.parametrize("field", [b"currentHealthPercent", b"currentTargetHealthPercent", b"distance", b"foodCount"])
def test_a_value_that_is_not_a_number_breaks_the_fight(port: int, field: bytes, value: bytes) -> None:
    _, outcome = play(port, changed(rb'"%b":[^,}]+' % field, b'"%b":%b' % (field, value)), 3)
    assert outcome is Outcome.DESYNC


def test_the_outcome_may_be_missing(port: int) -> None:
    world, outcome = play(port, changed(rb',"terminalState":"[A-Z]+"', b"", DEATH_TICK), DEATH_TICK)
    assert outcome is Outcome.DESYNC
    assert not world.meta["damage_dealt"].any()


@pytest.mark.parametrize(
    "request_line",
    [
        b'{"action":"login","body":{"agentType":null},"meta":{"id":"5000"}}\n',
        b'{"action":"login","body":{"agentType":"NhEn"},"meta":{"id":"5000"}}\n',
        b'{"action":"login","body":[],"meta":{"id":"5000"}}\n',
        b'{"action":"login","body":{"agentType":"NhEnv"},"meta":null}\n',
    ],
)
def test_a_login_that_is_refused_once_is_repeated(port: int, request_line: bytes) -> None:
    spoilt = OneFault(request_line, at=1, action="login", direction="request")
    _, outcome = play(port, spoilt, 1, "&first_id=5000")
    assert spoilt.has_happened
    assert outcome is Outcome.RUNNING


def test_refusals_count_as_attempts_like_other_failures(port: int) -> None:
    left = [b'{"action":"reset","body":null,"meta":{"id":"5000"}}\n'] * 5

    def choose(line: Line, random: Any) -> bytes | None:
        is_reset = line.direction == "request" and b'"reset"' in line.data
        return re.sub(b"5000", re.findall(rb'"id":"(\d+)"', line.data)[0], left.pop()) if is_reset and left else None

    _, outcome = play(port, choose, 1, "&first_id=5000&attempts=6")
    assert not left
    assert outcome is Outcome.RUNNING


@pytest.mark.parametrize(
    "request_line",
    [
        b'{"action":"logout","body":null,"meta":null}\n',
        b'{"action":"logout","body":null,"meta":{"id":[]}}\n',
        b"[]\n",
    ],
)
def test_a_corrupted_logout_is_repeated(port: int, request_line: bytes) -> None:
    breaks = OneFault(b"[]\n", at=1)
    # The first log-out is the one before the log-in.
    spoilt = OneFault(request_line, at=2, action="logout", direction="request")
    with handler_server(FaultProxy(port, lambda line, r: breaks(line, r) or spoilt(line, r)).handle) as proxy_port:
        world = RemoteWorld(f"rsps://127.0.0.1:{proxy_port}?backoff=0.01")
        world.reset(options=BOT)
        world.step(np.zeros((1, 2, world.contract.num_heads), np.int64))
        deadline = time.monotonic() + TIMEOUT
        while logged_in(port) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert spoilt.has_happened
        assert logged_in(port) == []
        world.close()


def test_an_unanswered_login_is_logged_out_even_if_the_agent_was_unknown() -> None:
    """It is carried out later, after the reply that there is no such agent."""
    unknown = b'{"error":true,"message":"IllegalStateException: No player found for: 5000"}\n'
    logouts = 0

    async def handle(reader: Any, writer: Any) -> None:
        nonlocal logouts
        while line := await reader.readline():
            logouts += b'"logout"' in line and b'"5000"' in line
            writer.write(b"{}\n" if logouts > 2 else unknown)

    with handler_server(handle) as port:
        world = RemoteWorld(f"rsps://127.0.0.1:{port}?first_id=5000&attempts=2&backoff=0.01")
        with pytest.raises(RemoteError):
            world.reset(options=BOT)
        deadline = time.monotonic() + TIMEOUT
        while logouts < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert logouts == 3


@pytest.mark.parametrize(
    ("reply", "is_gone"),
    [
        (b"{}\n", True),
        (b'{"error":true,"message":"java.lang.IllegalStateException: No player found for: 5000"}\n', True),
        (b'{"error":true,"message":"JsonSyntaxException: meta.id must be a string"}\n', False),
        (b'{"error":true,"message":[]}\n', False),
        (b"[]\n", False),
        (b"\xff\xff\n", False),
        (b"[" * 100_000 + b"\n", False),
        (b"x" * 3_000_000, False),
        (b"", False),
    ],
    ids=["done", "unknown", "misunderstood", "wordless", "list", "noise", "deep", "endless", "closed"],
)
def test_how_the_guard_takes_the_reply_to_a_logout(reply: bytes, is_gone: bool) -> None:
    async def handle(reader: Any, writer: Any) -> None:
        await reader.readline()
        writer.write(reply)
        writer.close()

    with handler_server(handle) as port:
        assert log_out(("127.0.0.1", port), "5000", is_logged_in=True) is is_gone


@pytest.mark.parametrize(
    "line",
    [
        b'{"message":"No player found for: 7"}',
        b'{"error":null,"message":"x"}',
        b'{"error":0}',
        b'{"action":"step"}',
        b'{"body":1}',
    ],
)
def test_half_an_error_is_not_a_reply(line: bytes) -> None:
    """Taken for a success of a log-out, it would leave an agent on the server."""
    with pytest.raises(Lost, match="neither an error nor empty"):
        parse_reply(line, "logout")

    async def handle(reader: Any, writer: Any) -> None:
        await reader.readline()
        writer.write(line + b"\n")

    with handler_server(handle) as port:
        assert not log_out(("127.0.0.1", port), "7", is_logged_in=True)
