"""``sb3-pvp rsps``: starts and stops a server for training."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from sb3_pvp.common.errors import refusals
from sb3_pvp.games.osrs.remote.address import DEFAULT_PORT
from sb3_pvp.games.osrs.remote.launcher import DEFAULT_GAME_PORT, RspsServer


def rsps(
    command: Annotated[list[str], typer.Argument(help="Command that starts the server, after --.")],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port for agents (REMOTE_ENV_PORT); 0 picks a free one.")
    ] = DEFAULT_PORT,
    sync: Annotated[
        bool, typer.Option("--sync/--no-sync", help="Whether each tick waits for all agents (SYNC_TRAINING).")
    ] = True,
    tick_rate: Annotated[
        int | None,
        typer.Option(min=1, help="Milliseconds per tick (TICK_RATE). By default 1 with --sync, else the server's own."),
    ] = None,
    game_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port for players (GAME_PORT); 0 picks a free one.")
    ] = DEFAULT_GAME_PORT,
    log_file: Annotated[
        Path | None, typer.Option(help="File for the server's output; rsps-PORT.log if not given.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds within which the server must listen.")] = 300.0,
    cwd: Annotated[
        Path | None, typer.Option(help="Working directory of the command.", exists=True, file_okay=False)
    ] = None,
) -> None:
    """Run your own server until interrupted.

    Sets the environment variables for training, waits until the server listens, and at the end stops it with all its
    processes. A variable that is already set in your environment takes precedence over the option.
    """
    from sb3_pvp.games.osrs.remote import RemoteError

    with refusals():
        server = RspsServer(command, port, game_port, sync, tick_rate, log_file, timeout, cwd=cwd)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # SIGHUP: the terminal was closed.
        signal.signal(number, _interrupt)
    try:
        with server:
            typer.echo(f"{server.address} is ready; its output is in {server.log_file}")
            code = server.wait()
    except RemoteError as error:
        # Not a `Refusal`, whose exit code is 2: the command line was right, but the server did not come up.
        typer.echo(f"sb3-pvp: error: {error}", err=True)
        raise typer.Exit(1) from error
    raise typer.Exit(code)  # The server has ended on its own.


def _interrupt(number: int, frame: Any) -> None:
    # An exception, so that the server is stopped on the way out; the exit code is that of a shell for this signal.
    raise SystemExit(128 + number)
