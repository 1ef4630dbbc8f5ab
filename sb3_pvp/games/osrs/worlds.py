"""The worlds where fights take place: the embedded one, and servers by their address."""

from __future__ import annotations

import warnings
from typing import Any

from sb3_pvp.common.names import require_known
from sb3_pvp.game import World, WorldFactory, contract_of

__all__ = ["EMBEDDED", "WorldFactory", "check_world_name", "contract_of", "make_world", "warn_of_sharing"]

EMBEDDED = "sim"


def check_world_name(world: str) -> None:
    """Raises `ValueError` unless ``world`` is the embedded one or the address of a server."""
    if world == EMBEDDED:
        return
    from sb3_pvp.games.osrs.remote.address import is_address, parse_address  # here, because the client is large

    if not is_address(world):
        require_known("world", world, (EMBEDDED, "rsps://host:port", "rsps://?launch=COMMAND"))
    parse_address(world)


def warn_of_sharing(world: str) -> None:
    """Warns if worlds of this name in several processes would play on the same server."""
    from sb3_pvp.games.osrs.remote.address import is_address, parse_address

    if is_address(world) and not (settings := parse_address(world)).launch:
        warnings.warn(
            f"all actors play on the server at {settings.host_port}. In its synchronous mode a server waits for all of "
            'them before each tick: let each start its own (world="rsps://?launch=COMMAND"), or use no actors',
            stacklevel=2,
        )


def make_world(world: str, **options: Any) -> World:
    """Returns the world of that name, made with ``options``; raises `ValueError` for wrong names and options."""
    check_world_name(world)
    if world != EMBEDDED:
        from sb3_pvp.games.osrs.remote import RemoteWorld

        return RemoteWorld(world, **options)
    from sb3_pvp.games.osrs.sim import SimWorld  # here, because it imports Numba

    return SimWorld(**options)
