"""``sb3-pvp rsps``."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from sb3_pvp.common.errors import refusals
from sb3_pvp.games.osrs.remote.address import DEFAULT_PORT
from sb3_pvp.games.osrs.remote.launcher import DEFAULT_GAME_PORT, RspsServer


def rsps(
    command: Annotated[list[str], typer.Argument(help="How to start the server; behind --.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="REMOTE_ENV_PORT; 0 picks a free one.")] = DEFAULT_PORT,
    sync: Annotated[bool, typer.Option("--sync/--no-sync", help="SYNC_TRAINING: ticks wait for all agents.")] = True,
    tick_rate: Annotated[int | None, typer.Option(min=1, help="TICK_RATE, in ms; 1 if synchronous.")] = None,
    game_port: Annotated[
        int, typer.Option(min=0, max=65535, help="GAME_PORT; 0 picks a free one.")
    ] = DEFAULT_GAME_PORT,
    log_file: Annotated[Path | None, typer.Option(help="Where its output goes; default: rsps-PORT.log.")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds until it must listen.")] = 300.0,
    cwd: Annotated[Path | None, typer.Option(help="Where the command runs.", exists=True, file_okay=False)] = None,
) -> None:
    """Run a server of your own until interrupted.

    Sets its environment, waits until it listens, and in the end stops all that it has started. A variable that is
    set in your environment wins over the options.
    """
    from sb3_pvp.games.osrs.remote import RemoteError

    with refusals():
        server = RspsServer(command, port, game_port, sync, tick_rate, log_file, timeout, cwd=cwd)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        with server:
            typer.echo(f"{server.address} is ready; its output is in {server.log_file}")
            code = server.wait()
    except RemoteError as error:
        typer.echo(f"sb3-pvp: error: {error}", err=True)
        raise typer.Exit(1) from error
    raise typer.Exit(code)


def _interrupt(number: int, frame: Any) -> None:
    raise SystemExit(128 + number)
