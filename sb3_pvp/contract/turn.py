"""What a scripted fighter sees and chooses, by the ids of a contract."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.contract import Contract

Booleans = NDArray[np.bool_]


class Turn:
    """One tick of N fights, as a script sees it: observations, availability and choices, all by id.

    Args:
        contract: the ids.
        observation: float32 ``(N, D)``.
        masks: flat masks, bool ``(N, A)``.
        chance: a number from [0, 1) per fight.
    """

    def __init__(
        self, contract: Contract, observation: NDArray[np.float32], masks: Booleans, chance: NDArray[np.float64]
    ) -> None:
        self._contract, self._observation, self._masks, self.chance = contract, observation, masks, chance
        self._chosen = np.zeros((len(observation), contract.num_flat_actions), bool)

    def see(self, observation: str) -> NDArray[np.float32]:
        """The values of an observation, ``(N,)``."""
        return self._observation[:, self._contract.observation_index(observation)]

    def can(self, action: str) -> Booleans:
        """Where the sub-action is available, ``(N,)``."""
        return self._masks[:, self._contract.flat_index(action)]

    def choose(self, action: str, where: Booleans) -> None:
        """Selects the sub-action in the fights ``where``, bool ``(N,)``."""
        self._chosen[:, self._contract.flat_index(action)] |= where

    def actions(self) -> NDArray[np.int64]:
        """What was chosen, ints ``(N, heads)``; heads without a choice take entry 0."""
        borders = pairwise(self._contract.head_offsets)
        return np.stack([self._chosen[:, begin:end].argmax(axis=1) for begin, end in borders], axis=1)
