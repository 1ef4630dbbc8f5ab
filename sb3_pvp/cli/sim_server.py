"""``sb3-pvp sim-server``."""

from __future__ import annotations

from typing import Annotated

import typer

from sb3_pvp.cli.usage import UsageError


def sim_server(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")] = 7070,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the world.")] = 0,
) -> None:
    """Serve the embedded world on the wire protocol, until interrupted."""
    from sb3_pvp.rsps import run_server

    try:
        run_server(host=host, port=port, seed=seed)
    except OSError as error:
        raise UsageError(f"cannot listen on {host}:{port}: {error}") from error
