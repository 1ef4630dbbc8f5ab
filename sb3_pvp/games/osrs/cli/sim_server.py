"""``sb3-pvp sim-server``: serves the embedded world."""

from __future__ import annotations

from typing import Annotated

import typer

from sb3_pvp.common.errors import refusals
from sb3_pvp.games.osrs.remote.address import DEFAULT_PORT, PORT_VARIABLE

_TICK_RATE = """Milliseconds per tick, as on a live server (600 there). An agent that misses more than 3 ticks has to
reset. By default there is no clock: each fight ticks as soon as its own agents have sent their actions."""
_IDLE_TIMEOUT = """Seconds after which a silent agent is logged out, and its opponent's fight ends as TARGET_LOST; 0:
never, as on the reference server."""


def sim_server(
    host: Annotated[
        str, typer.Option(help="Address to listen on. Every client that can reach it may use the server.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, envvar=PORT_VARIABLE, help="Port to listen on; 0 picks a free one.")
    ] = DEFAULT_PORT,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the world.")] = 0,
    tick_rate: Annotated[float | None, typer.Option(help=" ".join(_TICK_RATE.split()))] = None,
    idle_timeout: Annotated[float, typer.Option(help=" ".join(_IDLE_TIMEOUT.split()))] = 600.0,
) -> None:
    """Serve the embedded world to remote agents until interrupted.

    Any client of the original remote environment can fight here, in NhEnv or in DharokEnv: against the bot ("baseline")
    or another client's agent. The target "attacker" is refused, since there are no players in this world.
    """
    from sb3_pvp.games.osrs.remote.wire_server import check_times, run_server

    with refusals():  # Wrong times are usage errors; inside `run_server` they would be a traceback.
        check_times(tick_rate, idle_timeout)
    run_server(host=host, port=port, seed=seed, tick_rate=tick_rate, idle_timeout=idle_timeout)
