"""Fights to give out. A world has a fixed number of fights, so the pool adds a twice as large one when it runs out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import World

FIRST_SIZE = 64


class ServedWorld(World, Protocol):
    """A world that a server can play on: it also tells what a login keeps and what a seat will see."""

    #: Records ``(F, 2)``; ``target_hp`` is the opponent's health as the seat's next observation will show it, ``ticks``
    #: is counted up and shown as ``episode_ticks``.
    state: NDArray[np.void]

    def login(self, fight: int, seat: int) -> Any:
        """What the fighter on this seat takes along to its next fight."""


class WorldFactory(Protocol):
    """Makes a world of ``num_fights`` fights with a ``seed`` for agents of the ``contract`` of this name."""

    def __call__(self, num_fights: int, seed: int, *, contract: str) -> ServedWorld:
        """`ValueError` for a contract that the world does not know."""


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """One fight of one world."""

    world: ServedWorld
    fight: int


class FightPool:
    """Gives out and takes back fights. Fight ``n`` of the pool is seeded with ``seed + n``."""

    def __init__(
        self, make_world: WorldFactory, seed: int = 0, first_size: int = FIRST_SIZE, contract: str = "NhEnv"
    ) -> None:
        self._make_world = make_world
        self._contract = contract
        self._seed = seed
        self._next_size = first_size
        #: Fights that are given out.
        self.num_in_use = 0
        self._worlds: list[ServedWorld] = []
        self._free: list[Slot] = []
        self._grow()

    def take(self) -> Slot:
        """A fight that nobody uses."""
        if not self._free:
            self._grow()
        self.num_in_use += 1
        return self._free.pop()

    def release(self, slot: Slot) -> None:
        """The fight is over and may be given out again."""
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
        self._free.extend(Slot(world, fight) for fight in reversed(range(world.num_fights)))
        self._next_size *= 2
