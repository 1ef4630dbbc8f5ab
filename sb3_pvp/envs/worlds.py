"""Where fights take place: worlds by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sb3_pvp.contract import Contract, load_contract
from sb3_pvp.envs.checks import require_known
from sb3_pvp.rsps import RemoteWorld
from sb3_pvp.rsps.address import is_address, parse_address
from sb3_pvp.world import World

#: Called with ``num_fights``, ``seed``, ``reset_params`` and ``contract``; may have an attribute ``contract`` itself.
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


def contract_of(world: str | WorldFactory, contract: str | Contract) -> Contract:
    """What is played in the world: the factory's own contract if it has one, else the given one.

    Raises `ContractError`, a `ValueError`, for an unknown name.
    """
    return load_contract(getattr(world, "contract", contract))


def make_world(
    world: str | WorldFactory,
    num_fights: int,
    seed: int = 0,
    reset_params: Mapping[str, Any] | None = None,
    contract: str | Contract = "NhEnv",
) -> World:
    """Builds a world of ``num_fights`` fights.

    Args:
        world: ``"sim"``, the embedded world; ``"rsps://host:port"``, a server (`sb3_pvp.rsps.RemoteWorld`); or a
            callable that returns a `World` when it is called with the keyword arguments ``num_fights``, ``seed``,
            ``reset_params`` and ``contract``.
        seed: fight ``i`` is seeded with ``seed + i`` until a reset brings another seed.
        reset_params: how fights start, under the names of the wire (protocol.md §3).
        contract: what is played: a contract or the name of a registered one. A factory with an attribute ``contract``
            brings its own, whatever is said here.

    Raises:
        ValueError: for unknown names and impossible values, and if a factory makes a world with another contract.
    """
    check_world_name(world)
    params = dict(reset_params or {})
    options: dict[str, Any] = {"num_fights": num_fights, "seed": seed, "reset_params": params, "contract": contract}
    if not callable(world):
        return RemoteWorld(world, **options) if is_address(world) else WORLDS[world](**options)
    made = world(**options)
    expected = contract_of(world, contract)
    if made.contract != expected:
        made.close()
        raise ValueError(f"the world that was made plays {made.contract.name}, but the contract is {expected.name!r}")
    return made
