"""The server of the embedded world, on one event loop (``protocol.md``)."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np

from sb3_pvp.common.open_files import ACCEPTED_AT_ONCE, allow_many_open_files, most_connections, start_accepting
from sb3_pvp.game import NUM_SEATS
from sb3_pvp.games.osrs.remote.fight_pool import ServedWorld, WorldFactory
from sb3_pvp.games.osrs.remote.gathering import Gathering
from sb3_pvp.games.osrs.remote.lobby import Lobby
from sb3_pvp.games.osrs.remote.messages import AGENT_TYPES
from sb3_pvp.games.osrs.remote.served_games import ServedGames
from sb3_pvp.games.osrs.remote.server_connection import Connections, ServerConnection
from sb3_pvp.games.osrs.remote.synchronous_lobby import SynchronousLobby
from sb3_pvp.games.osrs.remote.ticked_lobby import TickedLobby
from sb3_pvp.games.osrs.remote.ticker import Ticker
from sb3_pvp.games.osrs.remote.wire_errors import WireRequestError

#: Seconds after which a silent agent is logged out: the 1000 ticks of 0.6 s of a reference server with a clock
#: (protocol.md §6.5). Longer than a learner takes for its updates.
IDLE_TIMEOUT = 600.0
#: Checks for silent agents and connections within that time.
_IDLE_CHECKS = 10
#: Connections at the same time.
MAX_CONNECTIONS = 4096


async def serve(
    host: str = "127.0.0.1",
    port: int = 7070,
    seed: int = 0,
    make_world: WorldFactory | None = None,
    on_listening: Callable[[int], object] | None = None,
    tick_rate: float | None = None,
    idle_timeout: float = IDLE_TIMEOUT,
    max_connections: int = MAX_CONNECTIONS,
) -> None:
    """Serves the embedded world until the task is cancelled.

    Args:
        host: address to listen on.
        port: port to listen on; 0 picks a free one.
        seed: seed of the worlds.
        make_world: makes the worlds: one for each type of agent, and more when these are full.
        on_listening: called with the port as soon as clients can connect, which is after the world is compiled.
        tick_rate: milliseconds per tick of a world with a clock, which does not wait for agents (protocol.md §6.4). If
            not given, each fight waits for its agents and ticks as soon as they have sent their messages.
        idle_timeout: seconds after which a silent agent is logged out, so that its opponent does not wait forever, and
            a silent connection closed; 0: never, as on the reference server.
        max_connections: connections at the same time; further ones are told so and closed. At most as many as files
            may be open.

    Raises:
        OSError: if the address cannot be bound.
        ValueError: for a tick rate that is not above 0 or an idle timeout below 0.
    """
    check_times(tick_rate, idle_timeout)
    games = ServedGames(make_world or _make_sim_world, seed)
    lobby, tickers = _make_lobby(games, tick_rate, idle_timeout)
    loop, connections = asyncio.get_running_loop(), Connections(most_connections(max_connections))
    if idle_timeout:
        tickers.append(Ticker(idle_timeout / _IDLE_CHECKS, lambda: connections.close_silent(idle_timeout), loop))
    server = await loop.create_server(
        lambda: ServerConnection(lobby, connections), host, port, backlog=ACCEPTED_AT_ONCE, start_serving=False
    )
    try:
        # After binding the address and before accepting: compiling takes time, an address in use should fail before.
        # All games: at the first log-in to another one, the fights of all agents would wait until it is compiled.
        for agent_type in AGENT_TYPES:
            with contextlib.suppress(WireRequestError):  # a world that does not know it: the log-in will say so
                _ = games[agent_type]
        await start_accepting(server)
        for ticker in tickers:
            ticker.start()
        if on_listening is not None:
            on_listening(server.sockets[0].getsockname()[1])
        await asyncio.Event().wait()
    finally:
        server.close()
        for ticker in tickers:
            ticker.stop()
        connections.close()
        games.close()


def check_times(tick_rate: float | None, idle_timeout: float) -> None:
    """Raises `ValueError` for a tick rate or an idle timeout that `serve` does not accept."""
    if tick_rate is not None and not 0 < tick_rate < math.inf:
        raise ValueError(f"the tick rate must be more than 0 milliseconds, got {tick_rate:g}")
    if not 0 <= idle_timeout < math.inf:
        raise ValueError(f"the idle timeout must be 0 seconds or more, got {idle_timeout:g}")


def _make_lobby(games: ServedGames, tick_rate: float | None, idle_timeout: float) -> tuple[Lobby, list[Ticker]]:
    """Returns the lobby, and the tickers that drive it in addition to the messages of clients."""
    loop = asyncio.get_running_loop()
    lobby: Lobby
    if tick_rate is None:
        # The lobby and its scheduler need each other, hence the lambda, which is only called later.
        gathering = Gathering(lambda: synchronous.play(), loop)
        lobby = synchronous = SynchronousLobby(games, gathering.add)
        tickers = []
    else:
        lobby = ticked = TickedLobby(games)
        tickers = [Ticker(tick_rate / 1000, ticked.tick, loop)]
    if idle_timeout:
        start = loop.time()
        tickers.append(
            Ticker(idle_timeout / _IDLE_CHECKS, lambda: lobby.log_out_silent(loop.time() - start, idle_timeout), loop)
        )
    return lobby, tickers


def run_server(
    host: str = "127.0.0.1",
    port: int = 7070,
    seed: int = 0,
    tick_rate: float | None = None,
    idle_timeout: float = IDLE_TIMEOUT,
) -> None:
    """Serves the embedded world until SIGINT or SIGTERM, and prints the address when it listens (see `serve`)."""
    allow_many_open_files()

    def announce(bound_port: int) -> None:
        print(f"sb3-pvp sim-server listens on {host}:{bound_port}", flush=True)

    main = serve(host, port, seed, on_listening=announce, tick_rate=tick_rate, idle_timeout=idle_timeout)
    asyncio.run(_until_signal(main))


async def _until_signal(main: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(main)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _make_sim_world(num_fights: int, seed: int, *, contract: str) -> ServedWorld:
    # Imported here, so that importing this package does not load Numba.
    from sb3_pvp.games.osrs.sim import SimWorld

    world = SimWorld(num_fights=num_fights, seed=seed, contract=contract)
    # Compiles the world's code now, so that the first client does not wait for it.
    world.reset()
    world.step(np.zeros((num_fights, NUM_SEATS, world.contract.num_heads), np.int64))
    return world
