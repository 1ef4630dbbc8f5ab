"""``sb3-pvp sim-server``."""

from __future__ import annotations

from typing import Annotated

import typer

from sb3_pvp.common.errors import Refusal, refusals
from sb3_pvp.games.osrs.remote.address import DEFAULT_PORT, PORT_VARIABLE

_TICK_RATE = """Milliseconds between two ticks of the world, as on a live server (600 there). Whoever misses more than 3
ticks has to reset. Without this option each fight waits for its own agents and runs as fast as these send."""
_IDLE_TIMEOUT = """Seconds after which an agent that sends nothing is logged out and its opponent told that its target
is lost; 0 lets everybody wait for ever, as the reference server does."""


def sim_server(
    host: Annotated[
        str, typer.Option(help="Address to listen on. Anybody who can reach it may use the server.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, envvar=PORT_VARIABLE, help="Port to listen on; 0 picks a free one.")
    ] = DEFAULT_PORT,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the world.")] = 0,
    tick_rate: Annotated[float | None, typer.Option(help=" ".join(_TICK_RATE.split()))] = None,
    idle_timeout: Annotated[float, typer.Option(help=" ".join(_IDLE_TIMEOUT.split()))] = 600.0,
) -> None:
    """Serve the embedded world to remote agents, until interrupted.

    Any client of the original remote environment can fight here, as NhEnv or as DharokEnv: against the bot ("baseline")
    or against another client's agent, not against "attacker", since no players are in this world.
    """
    from sb3_pvp.games.osrs.remote.server import check_times, run_server

    with refusals():
        check_times(tick_rate, idle_timeout)
    try:
        run_server(host=host, port=port, seed=seed, tick_rate=tick_rate, idle_timeout=idle_timeout)
    except OSError as error:
        raise Refusal(f"cannot listen on {host}:{port}: {error}") from error
