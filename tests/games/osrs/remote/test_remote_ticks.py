"""`RemoteWorld` on a server with a clock, which does not wait for agents (protocol.md §6.4)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sb3_pvp.game import DesyncReason, Outcome
from sb3_pvp.games.osrs.remote import RemoteWorld, serve
from tests.games.osrs.remote.living_world import LivingWorld
from tests.games.osrs.remote.served import in_thread, logged_in

#: Long enough that a client on a busy machine is seldom late; a test that may fail by chance is repeated.
TICK_SECONDS = 0.03
BOT = {"bots": (None, "baseline")}


@pytest.fixture
def port() -> Iterator[int]:
    """Port of our own server with a clock."""

    def main(announce: Any) -> Any:
        return serve(port=0, make_world=LivingWorld, on_listening=announce, tick_rate=TICK_SECONDS * 1000)

    with in_thread(main) as port:
        yield port


def remote(port: int, num_fights: int = 1) -> RemoteWorld:
    """Returns a world on this port."""
    return RemoteWorld(f"rsps://127.0.0.1:{port}", num_fights)


def play(world: RemoteWorld, steps: int, options: dict[str, Any]) -> list[Outcome]:
    """Plays, restarting fights that end, and returns the first seat's outcomes."""
    no_op = np.zeros((world.num_fights, 2, world.contract.num_heads), np.int64)
    ended = []
    for _ in range(steps):
        world.step(no_op)
        over = np.flatnonzero(world.outcome[:, 0])
        ended += [Outcome(world.outcome[fight, 0]) for fight in over]
        if over.size:
            world.reset(over, options)
    return ended


@pytest.mark.parametrize("options", [BOT, {}], ids=["bot", "pair"])
@pytest.mark.parametrize("num_fights", [1, 3])
def test_fights_are_played_to_their_end(port: int, options: dict[str, Any], num_fights: int) -> None:
    for _ in range(3):
        world = remote(port, num_fights)
        world.reset(options=options)
        ended = play(world, 24, options)
        world.close()
        assert logged_in(port) == []
        if set(ended) <= {Outcome.WON, Outcome.LOST}:
            break
    assert set(ended) <= {Outcome.WON, Outcome.LOST}
    assert len(ended) >= num_fights


@pytest.mark.parametrize("options", [BOT, {}], ids=["bot", "pair"])
def test_a_late_step_breaks_only_its_fight(port: int, options: dict[str, Any]) -> None:
    world = remote(port)
    no_op = np.zeros((1, 2, world.contract.num_heads), np.int64)
    for _ in range(2):
        world.reset(options=options)
        world.step(no_op)
        assert world.outcome[0, 0] == Outcome.RUNNING
        time.sleep(8 * TICK_SECONDS)
        world.step(no_op)
        assert world.outcome.tolist() == [[Outcome.DESYNC] * 2]
        assert world.desync_reason.tolist() == [[DesyncReason.TICK] * 2]
        assert not world.meta["damage_dealt"].any()
    world.reset(options=options)
    assert play(world, 12, options)[0] in (Outcome.WON, Outcome.LOST)
    world.close()
    assert logged_in(port) == []
