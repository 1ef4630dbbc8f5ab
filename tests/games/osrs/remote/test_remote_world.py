"""`RemoteWorld` and our own server."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from benchmarks.fault_proxy import FaultProxy
from benchmarks.synchronous_server import SynchronousServer
from sb3_pvp.game import DesyncReason, Outcome
from sb3_pvp.game.checks import check_world
from sb3_pvp.games.osrs.remote import RemoteError, RemoteWorld
from tests.games.osrs.remote.fake_world import DEATH_TICK
from tests.games.osrs.remote.living_world import LivingWorld
from tests.games.osrs.remote.one_fault import OneFault
from tests.games.osrs.remote.served import ask, handler_server, hear_interrupts, logged_in, world_server
from tests.reports import check_reports

BOT = {"bots": (None, "baseline")}
QUICK = "reset_timeout=5&step_timeout=5"
BROKEN = (Outcome.TARGET_LOST, Outcome.DESYNC)


@pytest.fixture
def port() -> Iterator[int]:
    """Port of our own server."""
    with world_server() as port:
        yield port


def no_op(world: RemoteWorld) -> np.ndarray[Any, Any]:
    """Returns actions ``(F, 2, heads)`` that do nothing."""
    return np.zeros((world.num_fights, 2, world.contract.num_heads), np.int64)


def remote(port: int, num_fights: int = 1, options: str = QUICK) -> RemoteWorld:
    """Returns a world on this port, with options of its address."""
    return RemoteWorld(f"rsps://127.0.0.1:{port}?{options}", num_fights)


def outcomes(world: RemoteWorld) -> list[tuple[Outcome, ...]]:
    """Returns the outcomes of both seats of each fight."""
    return [tuple(Outcome(value) for value in fight) for fight in world.outcome]


def assert_no_agent_left(port: int) -> None:
    """Waits until all agents are logged out."""
    deadline = time.monotonic() + 30
    while logged_in(port) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert logged_in(port) == []


def test_a_fight_against_the_bot_ends_in_the_tick_of_death(port: int) -> None:
    world = remote(port, 3)
    for _ in range(2):
        world.reset(options=BOT)
        assert world.meta["episode_ticks"].tolist() == [[1, 1]] * 3
        for _ in range(DEATH_TICK - 1):
            assert outcomes(world) == [(Outcome.RUNNING,) * 2] * 3
            world.step(no_op(world))
        assert outcomes(world) == [(Outcome.WON, Outcome.LOST)] * 3
        assert (world.obs[:, 0, 0] == DEATH_TICK).all()
        assert (world.meta["episode_ticks"] == DEATH_TICK).all()
        assert world.meta["current_health_percent"].tolist() == [[1.0, 0.0]] * 3
    world.close()
    assert logged_in(port) == []


def test_both_seats_see_and_act() -> None:
    worlds: list[LivingWorld] = []

    def make_world(num_fights: int, seed: int, *, contract: str) -> LivingWorld:
        worlds.append(LivingWorld(num_fights, seed, contract=contract))
        return worlds[-1]

    with world_server(make_world) as port:
        world = remote(port)
        world.reset()
        seat_on_server = world.obs[0, :, 1].astype(int).tolist()
        assert sorted(seat_on_server) == [0, 1]
        joint = no_op(world)
        for tick in range(DEATH_TICK):
            assert (world.meta["episode_ticks"] == tick).all()
            joint[0, :, 11] = tick, tick + 1
            world.step(joint)
            assert world.obs[0, :, 1].astype(int).tolist() == seat_on_server
        (ended,) = outcomes(world)
        assert [ended[seat_on_server.index(seat)] for seat in range(2)] == [Outcome.WON, Outcome.LOST]
        played = next(moves for moves in worlds[0].played if moves)
        # The agent that was answered later does not act in the first tick.
        early = seat_on_server.index(0)
        assert played[0][0][11] == early and played[0][1][11] == 0
        assert [[move[seat][11] for seat in seat_on_server] for move in played[1:]] == [[1, 2], [2, 3], [3, 4], [4, 5]]
        world.close()
        assert logged_in(port) == []


def test_check_world(port: int) -> None:
    world = remote(port, 2)
    check_world(world, ticks=20, seeded=False)
    check_reports(world, ticks=20)
    world.close()


def test_fights_start_and_end_on_their_own(port: int) -> None:
    world = remote(port, 2)
    world.reset(options=BOT)
    world.step(no_op(world)[:1], [0])
    world.step(no_op(world)[:1], [0])
    world.reset([0], BOT)
    assert world.meta["episode_ticks"][:, 0].tolist() == [1, 1]
    world.step(no_op(world))
    assert world.meta["episode_ticks"][:, 0].tolist() == [2, 2]
    world.close()


def test_no_server_listens() -> None:
    with world_server() as port:
        pass
    with pytest.raises(RemoteError, match=f"no server can be reached at 127.0.0.1:{port}.*sim-server --port {port}"):
        remote(port).reset()


def test_a_server_for_another_contract() -> None:
    async def handle(reader: Any, writer: Any) -> None:
        while await reader.readline():
            writer.write(b'{"error":true,"message":"java.util.NoSuchElementException: No value present"}\n')

    with handler_server(handle) as port, pytest.raises(RemoteError, match="does not play the contract NhEnv"):
        remote(port, options=f"{QUICK}&backoff=0.01").reset()


def test_a_start_that_is_always_refused_is_an_error(port: int) -> None:
    world = remote(port, 1, f"{QUICK}&backoff=0.01")
    with world_server(_RefusingWorld) as other, pytest.raises(RemoteError, match="refused a reset: .*no such thing"):
        remote(other, 1, f"{QUICK}&backoff=0.01").reset(options=BOT)
    with pytest.raises(RemoteError, match="reset the world first"):
        world.step(no_op(world))


class _RefusingWorld(LivingWorld):
    """A world that refuses the options of every reset."""

    def reset(self, fights: Any = None, options: Any = None) -> None:
        if options is not None:
            raise ValueError("no such thing")
        super().reset(fights, options)


def test_a_server_that_restarts() -> None:
    with world_server() as port:
        world = remote(port, 2, f"{QUICK}&backoff=0.05&restart_timeout=20")
        world.reset(options=BOT)
    world.step(no_op(world))
    assert outcomes(world) == [(Outcome.DESYNC,) * 2] * 2
    with ThreadPoolExecutor(1) as pool:
        start = pool.submit(world.reset, None, BOT)  # while there is no server
        time.sleep(0.3)
        with world_server(port=port):
            start.result()
            world.step(no_op(world))
            assert outcomes(world) == [(Outcome.RUNNING,) * 2] * 2
            world.close()


def test_a_server_that_does_not_come_back() -> None:
    with world_server() as port:
        world = remote(port, 2, f"{QUICK}&backoff=0.05&restart_timeout=0.3")
        world.reset(options=BOT)
    world.step(no_op(world))
    with pytest.raises(RemoteError, match=r"no server can be reached .* gone for 0.3 s \(\?restart_timeout="):
        world.reset(options=BOT)


def test_a_silent_server_is_given_up() -> None:
    connections = 0

    async def handle(reader: Any, writer: Any) -> None:
        nonlocal connections
        connections += 1
        while await reader.readline():
            pass

    with handler_server(handle) as silent:
        world = remote(silent, 1, "reset_timeout=0.1&attempts=3&backoff=0")
        with pytest.raises(RemoteError, match=r"in 3 attempts: no answer within 0.1 s; .*defer_resets"):
            world.reset(options=BOT)
    assert connections == 3


def test_ticks_without_our_steps(port: int) -> None:
    class Jumping(LivingWorld):
        def step(self, actions: Any, fights: Any = None) -> None:
            super().step(actions, fights)
            if self.meta["episode_ticks"].max() == 3:
                self.meta["episode_ticks"] += 10

    with world_server(Jumping) as jumping:
        world = remote(jumping)
        world.reset(options=BOT)
        world.step(no_op(world))
        assert outcomes(world) == [(Outcome.RUNNING,) * 2]
        world.step(no_op(world))
        assert outcomes(world) == [(Outcome.DESYNC,) * 2]
        assert (world.desync_reason == DesyncReason.TICK).all()
        world.close()


def test_steps_that_come_too_late(port: int) -> None:
    world = remote(port, 1, f"{QUICK}&desync_tolerance_seconds=0.2")
    world.reset(options=BOT)
    world.step(no_op(world))
    time.sleep(0.3)
    world.step(no_op(world))
    assert outcomes(world) == [(Outcome.DESYNC,) * 2]
    assert (world.desync_reason == DesyncReason.TIME).all()
    world.reset(options=BOT)
    assert not world.desync_reason.any()
    world.close()


def test_a_broken_fight_may_be_an_error(port: int) -> None:
    proxy = FaultProxy(port, OneFault("close", at=1))
    with handler_server(proxy.handle) as proxy_port:
        world = remote(proxy_port, 1, f"{QUICK}&truncate_on_desync=false")
        world.reset(options=BOT)
        with pytest.raises(RemoteError, match="a fight broke off: the server closed the connection"):
            world.step(no_op(world))
    assert logged_in(port) == []


def test_a_named_opponent_that_leaves(port: int) -> None:
    ask(port, "login", "77", {"agentType": "NhEnv"})
    world = remote(port, 1, f"{QUICK}&target=77&first_id=5000")
    with ThreadPoolExecutor(1) as pool:
        start = pool.submit(world.reset, None, {**BOT, "maintain_target_environment": False})
        while logged_in(port) != ["5000", "77"]:
            time.sleep(0.01)
        runner: Any = world._runner
        while not runner.fights[0].agents[0]._awaits_reply:  # whose reset comes first is answered first
            time.sleep(0.01)
        other = {"target": "5000", "resetParams": {}}
        with ThreadPoolExecutor(1) as asking:
            asking.submit(ask, port, "reset", "77", other)
            start.result(20)
            assert not world.obs[0, 1].any()
            step = pool.submit(world.step, no_op(world))
            ask(port, "logout", "77")
            step.result(20)
    for _ in range(2):
        world.step(no_op(world))
    assert outcomes(world) == [(Outcome.TARGET_LOST,) * 2]
    world.close()
    assert logged_in(port) == []


@pytest.mark.parametrize("options", [BOT, {}], ids=["bot", "pair"])
def test_a_synchronous_world_is_never_stopped(options: dict[str, Any]) -> None:
    server = SynchronousServer(LivingWorld)
    with handler_server(server.handle) as port:
        world = remote(port, 3)
        world.reset(options=options)
        won = 0
        for _ in range(60):
            world.step(no_op(world))
            over = np.flatnonzero(world.outcome[:, 0])
            won += len(over)
            assert not (world.outcome >= Outcome.TARGET_LOST).any()
            if over.size:
                world.reset(over, options)
        assert won >= 6
        world.close()
        assert logged_in(port) == []


def test_environments_in_lock_step_share_a_synchronous_world() -> None:
    server = SynchronousServer(LivingWorld)
    with handler_server(server.handle) as port, ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        worlds = [remote(port, 1, f"{QUICK}&defer_resets=true") for _ in range(2)]
        won = np.zeros(2, int)

        def together(work: Any) -> list[Any]:
            """Runs the work of each world in its own thread, as in worker processes, and returns the results."""
            results = [pool.submit(work, world) for pool, world in zip((one, other), worlds, strict=True)]
            return [result.result() for result in results]

        together(lambda world: world.reset(options=BOT))

        def play(world: RemoteWorld) -> int:
            world.step(no_op(world))
            assert (world.outcome < Outcome.TARGET_LOST).all()
            if over := bool(world.outcome[0, 0]):
                world.reset(options=BOT)
            return over

        for _ in range(60):
            won += together(play)
        assert (won >= 2).all()
        for world in worlds:
            world.close()
        assert logged_in(port) == []


def test_a_vain_wait_for_a_synchronous_world_ends_with_a_hint() -> None:
    server = SynchronousServer(LivingWorld)
    with handler_server(server.handle) as port, ThreadPoolExecutor(1) as other_thread:
        silent = remote(port)
        other_thread.submit(silent.reset, None, BOT).result()  # and sends no step
        with pytest.raises(RemoteError, match="add \\?defer_resets=true"):
            remote(port, 1, "reset_timeout=0.2&attempts=2&backoff=0.01").reset(options=BOT)
        # Now the world continues, and carries out the log-ins that were given up.
        silent.step(no_op(silent))
        silent.close()
        assert_no_agent_left(port)


def test_a_fight_that_continues_against_the_prediction(port: int) -> None:
    class Undead(LivingWorld):
        def _heal(self) -> None:
            super()._heal()
            if self.meta["episode_ticks"].max() == 3:
                self.meta["current_health_percent"][:, 0] = 0.0

    with world_server(Undead) as undead:
        world = remote(undead)
        world.reset(options=BOT)
        world.step(no_op(world))
        world.step(no_op(world))
        # The final step was a tick of the fight.
        assert outcomes(world) == [(Outcome.RUNNING,) * 2]
        assert world.meta["episode_ticks"][0, 0] == 4
        world.step(no_op(world))
        assert outcomes(world) == [(Outcome.WON, Outcome.LOST)]
        world.close()


def test_attacks_without_a_type_are_not_sent(port: int) -> None:
    world = remote(port)
    world.reset(options=BOT)
    actions = no_op(world)
    for attack in (1, 2, 3):
        actions[0, 0, 0] = attack
        world.step(actions)
    assert outcomes(world) == [(Outcome.RUNNING,) * 2]
    assert world.obs[0, 0, 2] == 0
    world.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"no_such_option": 1}, "unknown reset option"),
        ({"reset_params": {"accountBild": "MED"}}, "did you mean 'accountBuild'"),
        ({"reset_params": {"accountBuild": "FOO"}}, "LMS_ZERKER"),
        ({"reset_params": {"randomizeGear": 3}}, "boolean"),
        ({"seat_reset_params": [{}]}, "pair"),
        ({"bots": ("baseline", None)}, "bots of a remote world"),
        ({"death_match": "no"}, "True or False"),
        ({"seed": -1}, "non-negative"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_sent(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RemoteWorld("rsps://127.0.0.1:1").reset(options=options)


def test_a_world_without_references_logs_out(port: int) -> None:
    world = remote(port, 2)
    world.reset()
    assert len(logged_in(port)) == 4
    del world
    gc.collect()
    assert logged_in(port) == []


_PLAYER = """
import sys, time
import numpy as np
from sb3_pvp.games.osrs.remote import RemoteWorld
world = RemoteWorld(f"rsps://127.0.0.1:{sys.argv[1]}", 2)
world.reset()
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_process_leaves_no_agent_behind(port: int, number: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _PLAYER, str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=hear_interrupts,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    assert len(logged_in(port)) == 4
    process.send_signal(number)
    process.wait()
    assert_no_agent_left(port)
