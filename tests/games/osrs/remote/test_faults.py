"""`RemoteWorld` on a server behind a `FaultProxy`."""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.fault_proxy import KINDS, Fault, FaultProxy, RandomFaults
from sb3_pvp.game import Outcome
from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.remote import RemoteError, RemoteSettings, RemoteWorld, remote_agent
from sb3_pvp.games.osrs.remote.agent_ids import AgentIds
from sb3_pvp.games.osrs.remote.client_errors import Lost, NoServer, Refused, Silent
from sb3_pvp.games.osrs.remote.fight_setup import SharedState
from sb3_pvp.games.osrs.remote.guard import Guard
from sb3_pvp.games.osrs.remote.remote_agent import RemoteAgent
from sb3_pvp.games.osrs.remote.remote_fight import RemoteFight
from tests.games.osrs.remote.fake_world import DEATH_TICK
from tests.games.osrs.remote.one_fault import OneFault
from tests.games.osrs.remote.served import handler_server, logged_in, world_server

BOT: dict[str, Any] = {"bots": (None, "baseline")}
OPPONENTS = pytest.mark.parametrize("options", [BOT, {}], ids=["bot", "pair"])
BROKEN = (Outcome.TARGET_LOST, Outcome.DESYNC)
ERROR = b'{"error":true,"message":"java.lang.IllegalStateException: Can\'t attack target\\n\\tat Some.java:1"}\n'
OTHER_CONTRACT = b'{"body":{"obs":[1],"actionMasks":[],"meta":{}}}\n'
#: Faults that always end the fight.
FATAL: list[Fault] = [kind for kind in KINDS if kind not in ("delay", "split", "garble")]
FATAL += [ERROR, OTHER_CONTRACT, b"\x00\xff{{\n", b"{}\n", b"\n"]


@pytest.fixture
def port() -> Iterator[int]:
    """Port of our own server."""
    with world_server() as port:
        yield port


def remote(port: int, num_fights: int, **options: Any) -> RemoteWorld:
    """Returns a world on this port, with options of its address."""
    query = "&".join(f"{name}={value}" for name, value in options.items())
    return RemoteWorld(f"rsps://127.0.0.1:{port}?{query}", num_fights)


def no_op(world: RemoteWorld) -> NDArray[np.int64]:
    """Returns actions ``(F, 2, heads)`` that do nothing."""
    return np.zeros((world.num_fights, 2, world.contract.num_heads), np.int64)


def outcomes(world: RemoteWorld) -> list[list[Outcome]]:
    """Returns the outcomes of both seats of each fight."""
    return [[Outcome(value) for value in fight] for fight in world.outcome]


def assert_no_agent_left(port: int) -> None:
    """Waits until all agents are logged out."""
    deadline = time.monotonic() + 60
    while logged_in(port) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert logged_in(port) == []


@pytest.mark.parametrize("fault", FATAL, ids=lambda fault: str(fault)[:20])
@OPPONENTS
def test_a_corrupted_reply_breaks_only_its_fight(port: int, fault: Fault, options: dict[str, Any]) -> None:
    proxy = FaultProxy(port, OneFault(fault))
    with handler_server(proxy.handle) as proxy_port:
        world = remote(proxy_port, 1, reset_timeout=30, step_timeout=2 if fault == "drop" else 30)
        world.reset(options=options)
        seen = []
        for _ in range(DEATH_TICK):
            world.step(no_op(world))
            seen += outcomes(world)
        assert seen[-1][0] in BROKEN and seen[-1][1] in BROKEN
        assert not {Outcome.WON, Outcome.LOST, Outcome.TIED} & {outcome for pair in seen for outcome in pair}
        assert not world.meta["damage_dealt"].any()
        world.reset(options=options)
        for _ in range(DEATH_TICK):
            world.step(no_op(world))
        assert set(outcomes(world)[0]) == {Outcome.WON, Outcome.LOST}
        world.close()
        assert_no_agent_left(port)


@pytest.mark.parametrize("kind", ["delay", "split"])
@OPPONENTS
def test_a_slow_reply_breaks_nothing(port: int, kind: str, options: dict[str, Any]) -> None:
    proxy = FaultProxy(port, OneFault(kind), max_delay=0.2)
    with handler_server(proxy.handle) as proxy_port:
        world = remote(proxy_port, 1)
        world.reset(options=options)
        for _ in range(DEATH_TICK):
            world.step(no_op(world))
        assert set(outcomes(world)[0]) == {Outcome.WON, Outcome.LOST}
        assert sum(proxy.injected.values()) == 1
        world.close()


@pytest.mark.parametrize(
    ("direction", "fault"),
    [("reply", "close"), ("reply", "drop"), ("reply", b"[]\n"), ("reply", ERROR), ("request", "drop")],
    ids=["close", "drop", "list", "error", "request"],
)
@pytest.mark.parametrize("action", ["login", "reset"])
def test_a_failed_start_is_repeated(port: int, direction: str, fault: Fault, action: str) -> None:
    proxy = FaultProxy(port, OneFault(fault, at=1, action=action, direction=direction))
    with handler_server(proxy.handle) as proxy_port:
        world = remote(proxy_port, 1, reset_timeout=0.3, step_timeout=5, backoff=0.01)
        world.reset(options=BOT)
        world.step(no_op(world))
        assert outcomes(world) == [[Outcome.RUNNING] * 2]
        world.close()
        assert_no_agent_left(port)


def play_on(world: RemoteWorld, options: dict[str, Any], steps: int) -> list[bool]:
    """Plays fight after fight, and returns whether each was decided; the others broke off. Only seat 1 of the server's
    fight ever dies, in tick `DEATH_TICK`."""
    decided = []
    for _ in range(steps):
        world.step(no_op(world))
        over = np.flatnonzero(world.outcome[:, 0])
        for fight in over:
            decided.append(world.outcome[fight, 0] not in BROKEN)
            if decided[-1]:
                assert sorted(world.outcome[fight].tolist()) == [Outcome.WON, Outcome.LOST]
                assert world.meta["episode_ticks"][fight].tolist() == [DEATH_TICK] * 2
        if over.size:
            world.reset(over, options)
    return decided


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kinds", "options"),
    [*(([kind], {}) for kind in KINDS), (list(KINDS), {}), (list(KINDS), BOT)],
    ids=[*KINDS, "all", "all-bot"],
)
def test_many_faults(port: int, kinds: list[str], options: dict[str, Any]) -> None:
    faults = RandomFaults(dict.fromkeys(kinds, 0.03 / len(kinds)))
    proxy = FaultProxy(port, faults, max_delay=0.3, flood_bytes=1 << 21)
    with handler_server(proxy.handle) as proxy_port:
        world = remote(proxy_port, 4, reset_timeout=0.3, step_timeout=0.2, backoff=0.01, attempts=30)
        world.reset(options=options)
        decided = play_on(world, options, 25)
        assert sum(proxy.injected.values()) > 5
        assert any(decided)
        proxy.choose = RandomFaults({})
        assert not all(decided) or kinds in (["split"], ["delay"])
        assert any(play_on(world, options, 2 * DEATH_TICK + 2))
        world.close()
        assert_no_agent_left(port)


def test_a_lost_log_out_is_repeated_after_the_step_timeout(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A synchronous world is blocked until the agent is gone, while the time-outs of other clients run."""
    monkeypatch.setattr(remote_agent, "LOGOUT_TIMEOUT", 120.0)
    lost = OneFault("drop", at=2, action="logout", direction="request")  # the first one frees the name
    with handler_server(FaultProxy(port, lost).handle) as proxy_port:
        world = remote(proxy_port, 1, step_timeout=0.3)
        world.reset(options=BOT)
        assert len(logged_in(port)) == 1
        start = time.monotonic()
        world.leave([0])
        assert_no_agent_left(port)
        assert lost.has_happened
        assert time.monotonic() - start < 60
        world.close()


def test_a_server_counts_as_not_independent_only_until_it_reports_independent_fights(port: int) -> None:
    corrupted = OneFault(b'{"error":true,"message":"No player found for: x"}\n', at=1, action="logout")
    with handler_server(FaultProxy(port, corrupted).handle) as proxy_port:
        world = remote(proxy_port, 1)
        world.reset(options=BOT)
        assert world._runner is not None and world._runner._shared.not_independent.is_set()
        world.leave([0])
        world.reset(options=BOT)
        assert not world._runner._shared.not_independent.is_set()
        world.close()


def fight_of(port: int) -> RemoteFight:
    """A fight without agents, inside an event loop."""
    settings = RemoteSettings(host="127.0.0.1", port=port)
    return RemoteFight(0, SharedState(settings, load_contract("NhEnv"), AgentIds(1, None), Guard("127.0.0.1", port)))


async def lose(*_: Any) -> Any:
    """Fails like a connection that is lost after a moment."""
    await asyncio.sleep(0.01)
    raise Lost("the line is dead")


def test_a_fight_with_two_filler_steps_breaks_off_once() -> None:
    """Both seats may get a filler step at different moments of one call, before a line is lost."""

    async def scenario() -> RemoteFight:
        fight = fight_of(1)
        fight._filler_steps = {seat: asyncio.ensure_future(lose()) for seat in range(2)}
        fight._resets, fight._late_seat = [asyncio.ensure_future(lose()) for _ in range(2)], 1
        await asyncio.gather(fight.take_filler_replies(1.0), fight.take_filler_replies(1.0))
        return fight

    assert asyncio.run(scenario()).outcomes == [Outcome.DESYNC] * 2


def test_an_agent_lost_in_a_decided_fight_logs_out_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a synchronous world waits for it, while the client waits for the start of another fight."""

    async def scenario() -> None:
        fight = fight_of(1)
        monkeypatch.setattr(fight, "_exchange", lose)
        fight.agents, fight.is_ready = [RemoteAgent("1", fight._shared)], True
        fight.outcomes = [Outcome.WON, Outcome.LOST]
        fight._final_step = asyncio.ensure_future(fight._play_final_step())
        fight.ignore_final_step()
        assert fight.any_final_step is not None
        await fight.any_final_step
        assert not fight.agents
        assert fight.outcomes == [Outcome.WON, Outcome.LOST]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("message", "is_settled"),
    [
        ("EnvironmentException: Agent already exists with ID: 1", True),
        ("NullPointerException: the request has no meta.id", False),
        ("IllegalStateException: No player found for: 1", False),
    ],
)
def test_a_log_in_may_still_be_carried_out_after_an_unrelated_error(message: str, is_settled: bool) -> None:
    """E.g. the reply to a corrupted line before it; a blocked world carries it out in its next tick."""

    async def scenario() -> RemoteAgent:
        agent = RemoteAgent("1", fight_of(1)._shared)

        async def refuse(deadline: float, request: Any) -> Any:
            raise Refused(request.action, message)

        agent._request_until = refuse  # type: ignore[method-assign]
        with pytest.raises(Refused):
            await agent._log_in(0.0)
        agent.mark_logged_out(known=False)
        return agent

    agent = asyncio.run(scenario())
    assert agent.is_logged_in is not is_settled
    agent._shared.guard.close()


@pytest.mark.parametrize("error", [NoServer("gone", is_gone=True), Refused("step", "why\nwhere", True), Silent("!")])
def test_errors_reach_the_process_that_a_worker_plays_for(error: RemoteError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
