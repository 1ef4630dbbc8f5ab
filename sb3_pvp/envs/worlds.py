"""Where fights take place: worlds by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sb3_pvp.contract import load_contract
from sb3_pvp.envs.checks import require_known
from sb3_pvp.rsps import RemoteWorld
from sb3_pvp.rsps.address import is_address, parse_address
from sb3_pvp.world import World

#: Called with ``num_fights``, ``seed``, ``reset_params`` and ``contract``.
WorldFactory = Callable[..., World]


def _sim_world(**options: Any) -> World:
    from sb3_pvp.sim import SimWorld  # here, because it imports numba

    return SimWorld(**options)


WORLDS: dict[str, WorldFactory] = {"sim": _sim_world}


def check_world_name(world: str | WorldFactory) -> None:
    """Raises `ValueError` unless ``world`` is a known name, the address of a server or a factory."""
    if isinstance(world, str) and is_address(world):
        parse_address(world)
    elif not callable(world):
        require_known("world", world, (*WORLDS, "rsps://host:port"))


def make_world(
    world: str | WorldFactory,
    num_fights: int,
    seed: int = 0,
    reset_params: Mapping[str, Any] | None = None,
    contract: str = "NhEnv",
) -> World:
    """Builds a world of ``num_fights`` fights.

    Args:
        world: ``"sim"``, the embedded world; ``"rsps://host:port"``, a server (`sb3_pvp.rsps.RemoteWorld`); or a
            callable that returns a `World` when it is called with the keyword arguments ``num_fights``, ``seed``,
            ``reset_params`` and ``contract``.
        seed: fight ``i`` is seeded with ``seed + i`` until a reset brings another seed.
        reset_params: how fights start, under the names of the wire (protocol.md §3).
        contract: what is played: the name of a registered contract.

    Raises:
        ValueError: for unknown names and impossible values, and if a factory makes a world with another contract.
    """
    check_world_name(world)
    params = dict(reset_params or {})
    options: dict[str, Any] = {"num_fights": num_fights, "seed": seed, "reset_params": params, "contract": contract}
    if not callable(world):
        return RemoteWorld(world, **options) if is_address(world) else WORLDS[world](**options)
    made = world(**options)
    if made.contract != load_contract(contract):
        made.close()
        raise ValueError(f"the world that was made plays {made.contract.name}, but the contract is {contract!r}")
    return made
