"""No agent stays on a server when its client is idle, was killed, or was killed together with its guard."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.synchronous_server import SynchronousServer
from sb3_pvp.game import DesyncReason, Outcome
from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.remote import RemoteError, RemoteSettings, RemoteWorld, remote_agent, remote_runner
from sb3_pvp.games.osrs.remote.agent_ids import AgentIds
from sb3_pvp.games.osrs.remote.client_errors import NoServer
from sb3_pvp.games.osrs.remote.fight_setup import SharedState
from sb3_pvp.games.osrs.remote.guard_process import LOGGED_IN, LOGGED_OUT, LOGGING_IN, agents_in
from sb3_pvp.games.osrs.remote.journal import Journal, stale_journals
from sb3_pvp.games.osrs.remote.line_connection import LineConnection
from tests.games.osrs.remote.living_world import LivingWorld
from tests.games.osrs.remote.served import ask, handler_server, logged_in, world_server
from tests.waiting import is_alive, wait_until

BOT = {"bots": (None, "baseline")}
QUICK = "reset_timeout=5&step_timeout=5"
pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals and locks")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of journals, in a temporary cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "sb3_pvp" / "agents"


@pytest.fixture
def port() -> Iterator[int]:
    """Port of our own server."""
    with world_server() as port:
        yield port


def remote(port: int, num_fights: int = 1, options: str = QUICK) -> RemoteWorld:
    """Returns a world on this port, with options of its address."""
    return RemoteWorld(f"rsps://127.0.0.1:{port}?{options}", num_fights)


def no_op(world: RemoteWorld) -> np.ndarray[Any, Any]:
    """Returns actions ``(F, 2, heads)`` that do nothing."""
    return np.zeros((world.num_fights, 2, world.contract.num_heads), np.int64)


# Idle clients


def test_an_idle_world_does_not_stop_a_synchronous_server() -> None:
    with handler_server(SynchronousServer(LivingWorld).handle) as port, ThreadPoolExecutor(1) as pool:
        idle = remote(port, 2, f"{QUICK}&idle_logout=0.3")
        idle.reset(options=BOT)
        idle.step(no_op(idle))
        playing = remote(port, 2)
        start = pool.submit(playing.reset, None, BOT)
        start.result(10)  # not before the idle agents have logged out
        for _ in range(20):
            playing.step(no_op(playing))
            assert not (playing.outcome >= Outcome.TARGET_LOST).any()
            playing.reset(np.flatnonzero(playing.outcome[:, 0]), BOT)
        playing.close()
        idle.step(no_op(idle))
        assert (idle.outcome == Outcome.DESYNC).all() and (idle.desync_reason == DesyncReason.IDLE).all()
        idle.reset(options=BOT)
        while (idle.outcome == Outcome.RUNNING).any():
            idle.step(no_op(idle))
        assert not (idle.outcome >= Outcome.TARGET_LOST).any()
        idle.close()
        assert logged_in(port) == []


def test_idle_agents_leave_with_idle_logout_and_stay_on_our_own_server(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_runner, "IDLE_SECONDS", 0.05)
    staying = remote(port)
    staying.reset(options=BOT)
    leaving = remote(port, 1, f"{QUICK}&idle_logout=0.05&truncate_on_desync=false")
    leaving.reset()
    assert len(logged_in(port)) == 3
    wait_until(lambda: len(logged_in(port)) == 1)
    with pytest.raises(RemoteError, match="no step came for too long"):
        leaving.step(no_op(leaving))
    staying.step(no_op(staying))
    assert (staying.outcome == Outcome.RUNNING).all()
    staying.close()


# On our own server no fight is played before it has started


class _SlowWorld(LivingWorld):
    """A world whose resets take so long that others become visible as zeros."""

    def reset(self, fights: Any = None, options: Any = None) -> None:
        if options is not None:
            time.sleep(0.03)
        super().reset(fights, options)


@pytest.mark.parametrize("options", [BOT, {}], ids=["bot", "pair"])
def test_on_our_own_server_every_fight_has_started_when_a_reset_returns(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FINAL_STEP_SECONDS", "SHARED_TICK_SECONDS"):
        monkeypatch.setattr(remote_runner, name, 0.001)
    blank = {}
    with world_server(_SlowWorld) as port:
        for extra in ("", "&defer_resets=true"):
            world = remote(port, 6, QUICK + extra)
            world.reset(options=options)
            seen = [world.obs[:, :, 1].any(axis=1).copy()]
            for _ in range(12):
                world.step(no_op(world))
                over = np.flatnonzero(world.outcome[:, 0])
                if over.size:
                    world.reset(over, options)
                # One of the two seats of a fight shows a 1 there; before the start none does.
                seen.append(world.obs[:, :, 1].any(axis=1).copy())
            blank[extra] = int((~np.array(seen)).sum())
            world.close()
    assert blank[""] == 0
    assert blank["&defer_resets=true"] > 0


def test_opening_a_connection_can_be_cancelled_at_any_moment(port: int) -> None:
    async def give_up() -> None:
        settings = RemoteSettings("127.0.0.1", port)
        for turns in range(12):
            opening = asyncio.get_running_loop().create_task(LineConnection.open(settings))
            for _ in range(turns):
                await asyncio.sleep(0)
            was_open = opening.done()
            opening.cancel()
            await asyncio.wait([opening])
            assert opening.cancelled() is not was_open, turns
            if was_open:
                opening.result().close()

    asyncio.run(give_up())


def test_a_world_is_closed_whatever_the_server_says() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            writer.write(b'{"error":true,"message":"no"}\n')
        writer.close()

    with handler_server(handle) as port:
        world = remote(port, 4, "reset_timeout=5&attempts=2&backoff=0")
        with pytest.raises(RemoteError, match="refused a login: no"):
            world.reset(options=BOT)


# Clients that are gone


@pytest.mark.parametrize(("others_wait", "longest"), [(True, 0.5), (False, 5.0)])
def test_log_outs_are_repeated_quickly_only_where_others_may_wait(
    others_wait: bool, longest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unknown(settings: RemoteSettings, agent: remote_agent.RemoteAgent) -> None:
        """Its log-in was lost: the server does not know it, and may still carry out the log-in."""

    async def pause(settings: RemoteSettings, attempt: int, longest: float) -> None:
        pauses.add(longest)
        await asyncio.sleep(0)

    async def leave() -> None:
        shared: Any = SimpleNamespace(settings=RemoteSettings(), not_independent=asyncio.Event())
        if others_wait:
            shared.not_independent.set()
        agent = remote_agent.RemoteAgent("it", shared)
        agent._logged_in = True
        await agent.leave()

    pauses: set[float] = set()
    monkeypatch.setattr(remote_agent, "retry_pause", pause)
    monkeypatch.setattr(remote_agent, "log_out", unknown)
    monkeypatch.setattr(remote_agent, "LOGOUT_RETRY_SECONDS", 0.01)
    asyncio.run(leave())
    assert pauses == {longest}


def test_reported_independence_counts_until_the_server_is_gone() -> None:
    shared = SharedState(RemoteSettings(restart_timeout=60), load_contract("NhEnv"), AgentIds(1, None), Any)  # type: ignore[arg-type]
    waits = []
    for independent in (False, True, False):  # the first and the last reply were corrupted
        shared.record_independence(independent)
        waits.append(shared.not_independent.is_set())
    shared.server_reached()
    shared.server_unreachable(NoServer("no server", is_gone=True))
    shared.record_independence(False)
    assert [*waits, shared.not_independent.is_set()] == [True, False, False, True]


def test_a_journal_holds_the_agents_that_are_left(cache: Path) -> None:
    journal = Journal("::1", 7)
    for sign, agent in [(LOGGING_IN, "1"), (LOGGING_IN, "2"), (LOGGED_IN, "1"), (LOGGING_IN, "3"), (LOGGED_OUT, "3")]:
        journal.record(sign, agent)
    assert agents_in(journal.descriptor) == {"1": LOGGED_IN, "2": LOGGING_IN}
    with stale_journals("::1", 7) as left:
        assert left == {}  # its process is alive
    journal.close(remove=False)
    with stale_journals("::1", 70) as left:
        assert left == {}
    with stale_journals("::1", 7) as left:
        assert left == {journal.path: ["1", "2"]}
    assert journal.path.parent == cache


def test_journals_without_a_cache_folder_are_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    journal = Journal("h", 1)
    assert journal.path.parent == tmp_path
    journal.close(remove=True)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_world_that_was_closed_leaves_no_journal(port: int, cache: Path) -> None:
    world = remote(port, 2)
    world.reset()
    assert len(list(cache.iterdir())) == 1
    world.close()
    assert list(cache.iterdir()) == []


_PLAYER = """
import sys, time
import numpy as np
from sb3_pvp.games.osrs.remote import RemoteWorld
world = RemoteWorld(f"rsps://127.0.0.1:{sys.argv[1]}", 2)
world.reset()
print(world._runner._guard._process.pid, flush=True)
for line in sys.stdin:
    world.reset()
    print(world._runner._guard._process.pid, flush=True)
"""


@pytest.fixture
def player(port: int) -> Iterator[subprocess.Popen[str]]:
    """A process that plays two fights of two agents."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PLAYER, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    yield process
    process.kill()
    process.wait()


def _guard_of(player: subprocess.Popen[str]) -> int:
    """Returns the process id of the player's guard."""
    assert player.stdout is not None
    return int(player.stdout.readline())


def test_agents_of_a_client_killed_with_its_guard_are_logged_out_by_the_next_run(
    port: int, player: subprocess.Popen[str], cache: Path
) -> None:
    guard = _guard_of(player)
    left = set(logged_in(port))
    assert len(left) == 4
    os.kill(guard, signal.SIGKILL)
    player.kill()
    player.wait()
    wait_until(lambda: not is_alive(guard))
    assert set(logged_in(port)) == left
    world = remote(port)
    world.reset(options=BOT)
    assert not left & set(logged_in(port)) and len(logged_in(port)) == 1
    world.close()
    assert list(cache.iterdir()) == []


def test_a_guard_that_was_killed_is_replaced(port: int, player: subprocess.Popen[str]) -> None:
    first = _guard_of(player)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not is_alive(first))
    for agent in logged_in(port):
        ask(port, "logout", agent)  # so that the next fights need new agents
    assert player.stdin is not None
    player.stdin.write("again\n")
    player.stdin.flush()
    assert _guard_of(player) != first
    wait_until(lambda: len(logged_in(port)) == 4)  # earlier agents may still be logging out
    player.kill()
    wait_until(lambda: logged_in(port) == [])
