"""The games of the embedded world, by the names of their contracts.

One engine plays all of them. A game adds its loadouts, orders, masks, observations and bot, compiled into its kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sb3_pvp.games.osrs.sim import kernels, parameters
from sb3_pvp.games.osrs.sim.builds import BUILD_NAMES
from sb3_pvp.games.osrs.sim.dharok import kernels as dharok_kernels
from sb3_pvp.games.osrs.sim.dharok.loadout import BUILD_NAMES as DHAROK_BUILD_NAMES


@dataclass(frozen=True)
class Game:
    """What a world needs to know of its game: kernels, names of builds, and reset parameters it knows."""

    reset_fights: Callable[..., None]
    step_fights: Callable[..., None]
    build_names: tuple[str, ...]
    reset_parameters: tuple[str, ...]


_NH = Game(kernels.reset_fights, kernels.step_fights, BUILD_NAMES, parameters.RESET_PARAMETER_NAMES)
_DHAROK = Game(
    dharok_kernels.reset_fights,
    dharok_kernels.step_fights,
    DHAROK_BUILD_NAMES,
    parameters.DHAROK_RESET_PARAMETER_NAMES,
)
_GAMES: dict[str, Game] = {"NhEnv": _NH, "DharokEnv": _DHAROK}


def game_of(contract: str) -> Game:
    """The game of a contract's name; `ValueError` for another one, with those that exist."""
    if contract not in _GAMES:
        raise parameters.unknown("contract of the embedded world", contract, _GAMES)
    return _GAMES[contract]
