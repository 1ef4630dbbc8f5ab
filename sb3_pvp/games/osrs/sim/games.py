"""The games of the embedded world, by the names of their contracts.

They share one engine. Each adds its loadouts, orders, masks, observations and bot, compiled into its own kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from sb3_pvp.games.osrs.sim import parameters


@dataclass(frozen=True)
class SimGame:
    """The parts of a game that differ: kernels, names of builds and of reset parameters."""

    reset_fights: Callable[..., None]
    step_fights: Callable[..., None]
    build_names: tuple[str, ...]
    reset_parameters: tuple[str, ...]


@cache
def game_of(contract: str) -> SimGame:
    """Returns the game of a contract's name; raises `ValueError` for an unknown one."""
    # Imported here: a process that plays one game does not load the rules of the other.
    if contract == "NhEnv":
        from sb3_pvp.games.osrs.sim import builds, kernels

        names = parameters.RESET_PARAMETER_NAMES
        return SimGame(kernels.reset_fights, kernels.step_fights, builds.BUILD_NAMES, names)
    if contract == "DharokEnv":
        from sb3_pvp.games.osrs.sim.dharok import kernels as dharok_kernels
        from sb3_pvp.games.osrs.sim.dharok.loadout import BUILD_NAMES

        names = parameters.DHAROK_RESET_PARAMETER_NAMES
        return SimGame(dharok_kernels.reset_fights, dharok_kernels.step_fights, BUILD_NAMES, names)
    raise parameters.unknown_name("contract of the embedded world", contract, ("NhEnv", "DharokEnv"))
