"""A pool of fights. A world has a fixed number of fights, so the pool adds one of twice the size when it runs out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import World

#: Fights of the first world.
FIRST_SIZE = 64


class ServedWorld(World, Protocol):
    """A world that a server can play on: it also exposes its state and what a login keeps between fights."""

    #: Records ``(F, 2)``: ``target_hp`` is the opponent's health as the seat's next observation will show it, ``ticks``
    #: the counter behind ``episode_ticks``.
    state: NDArray[np.void]

    def login(self, fight: int, seat: int) -> Any:
        """Returns what the fighter on this seat keeps for its next fight."""


class WorldFactory(Protocol):
    """Makes a world of ``num_fights`` fights with a ``seed``, for agents of the ``contract`` with this name."""

    def __call__(self, num_fights: int, seed: int, *, contract: str) -> ServedWorld:
        """Returns the world; raises `ValueError` for a contract that it does not know."""


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """One fight of one world."""

    world: ServedWorld
    fight: int


class FightPool:
    """Lends fights. Fight ``n`` of the pool is seeded with ``seed + n``."""

    def __init__(
        self, make_world: WorldFactory, seed: int = 0, first_size: int = FIRST_SIZE, contract: str = "NhEnv"
    ) -> None:
        self._make_world = make_world
        self._contract = contract
        self._seed = seed
        self._next_size = first_size
        self.num_in_use = 0
        self._worlds: list[ServedWorld] = []
        self._free: list[Slot] = []
        self._grow()

    def take(self) -> Slot:
        """Returns an unused fight, after adding a world if there is none."""
        if not self._free:
            self._grow()
        self.num_in_use += 1
        return self._free.pop()

    def release(self, slot: Slot) -> None:
        """Takes back a fight that is over."""
        self.num_in_use -= 1
        self._free.append(slot)

    def close(self) -> None:
        """Closes all worlds."""
        for world in self._worlds:
            world.close()

    def _grow(self) -> None:
        seed = self._seed + sum(world.num_fights for world in self._worlds)
        world = self._make_world(self._next_size, seed, contract=self._contract)
        self._worlds.append(world)
        # Reversed, since `take` pops from the end and fight 0 comes first.
        self._free.extend(Slot(world, fight) for fight in reversed(range(world.num_fights)))
        self._next_size *= 2
