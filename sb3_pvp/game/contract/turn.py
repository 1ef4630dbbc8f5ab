"""The actions of a tick: the checks that worlds make, and a script's view of its turn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.common.arguments import COUNT
from sb3_pvp.game.contract.model import Contract
from sb3_pvp.game.contract.rules import Booleans


def fight_numbers(fights: ArrayLike | None, num_fights: int) -> NDArray[np.int64]:
    """Converts numbers, bools ``(F,)`` or ``None`` (all ``F``) to numbers, int64 ``(N,)``; `ValueError` for others."""
    if fights is None:
        return np.arange(num_fights)
    array = np.atleast_1d(np.asarray(fights))
    if array.dtype == np.bool_ and array.shape == (num_fights,):
        return np.flatnonzero(array)
    # What is empty, such as ``[]``, may have any kind.
    if array.dtype.kind in "iu" or not array.size:
        numbers = array.astype(np.int64, copy=False)
        if not _any_outside(numbers, np.uint64(num_fights)):
            return numbers
    raise ValueError(f"fights must be numbers from 0 to {num_fights - 1}, or a bool for each, not {fights!r}")


def fight_seeds(seeds: Sequence[int], count: int) -> list[int]:
    """Returns ``count`` seeds; `ValueError` for another number of them, or if one is no non-negative integer."""
    if len(seeds) != count:
        raise ValueError(f"give one seed for each fight: got {len(seeds)} for {count}")
    return [COUNT.read("a seed", seed) for seed in seeds]


def joint_actions(actions: ArrayLike, count: int, contract: Contract) -> NDArray[Any]:
    """Returns the actions of both seats as a contiguous, writeable array ``(count, 2, heads)``."""
    array = np.ascontiguousarray(check_actions(actions, contract, count, 2))
    # Numba compiles another version of a kernel for read-only arrays. That takes long, and two versions, one of them
    # from the cache, have crashed.
    return array if array.flags.writeable else array.copy()


def check_actions(actions: ArrayLike, contract: Contract, *leading: int) -> NDArray[Any]:
    """Returns actions ``(*leading, heads)`` of the contract's ``action_dtype``, numbers cut to -1 and 1.

    Raises `ValueError` for another shape or dtype, a wrong choice, or NaN. Masks are not checked: the world decides
    what a masked choice does.
    """
    array, shape = np.asarray(actions), (*leading, contract.num_heads)
    if array.shape != shape:
        raise ValueError(f"actions must have shape {shape} (the last are the heads), got {array.shape}")
    if contract.numbers.size:
        return _with_numbers(array, contract)
    if array.dtype.kind not in "iu":
        raise ValueError(f"actions must be integers, got {array.dtype}")
    array = array.astype(np.int64, copy=False)
    if _any_outside(array, _ends(contract.head_sizes, leading)):
        raise _wrong_choice(array, (array < 0) | (array >= np.asarray(contract.head_sizes)), contract)
    return array


def _with_numbers(array: NDArray[Any], contract: Contract) -> NDArray[np.float32]:
    checked = array.astype(np.float32)
    checked[..., contract.numbers] = 0
    wrong = ~((checked >= 0) & (checked < contract.head_sizes) & (checked == np.floor(checked)))
    if wrong.any():
        raise _wrong_choice(array, wrong, contract)
    numbers = array[..., contract.numbers]
    if np.isnan(numbers).any():
        raise ValueError(f"the actions of {contract.name} have NaN where numbers from -1 to 1 should be")
    checked[..., contract.numbers] = numbers.clip(-1, 1)
    return checked


def _wrong_choice(array: NDArray[Any], wrong: Booleans, contract: Contract) -> ValueError:
    where = tuple(np.argwhere(wrong)[0])
    head = contract.heads[where[-1]]
    return ValueError(f"head {head.id!r} has the actions 0 to {len(head.actions) - 1}, got {array[where]}")


@lru_cache(8)
def _ends(sizes: tuple[int, ...], leading: tuple[int, ...]) -> NDArray[np.uint64]:
    # For all rows: NumPy compares arrays of one shape twice as fast as many rows with one.
    return np.tile(np.array(sizes, np.uint64), (*leading, 1))


def _any_outside(numbers: NDArray[np.int64], ends: NDArray[np.uint64] | np.uint64) -> bool:
    # Called in every tick: as unsigned integers negative numbers are huge, so that one comparison is enough.
    return bool(np.count_nonzero(numbers.view(np.uint64) >= ends))


class Turn:
    """One tick of N fights as a script sees it, by the ids of the contract.

    ``observation`` is float32 ``(N, D)``, ``masks`` flat, bool ``(N, A)``, and ``chance`` a random number from [0, 1)
    for each fight, float64 ``(N,)``.
    """

    def __init__(
        self, contract: Contract, observation: NDArray[np.float32], masks: Booleans, chance: NDArray[np.float64]
    ) -> None:
        self._contract, self.observation, self._masks, self.chance = contract, observation, masks, chance
        self._chosen = np.zeros((len(observation), contract.num_flat_actions), bool)
        self._numbers: dict[int, ArrayLike] = {}

    def see(self, observation: str) -> NDArray[np.float32]:
        """Returns the values of an observation, float32 ``(N,)``."""
        return self.observation[:, self._contract.observation_index(observation)]

    def agent(self, agent: str) -> NDArray[np.float32]:
        """Returns what an agent of a team sees, float32 ``(N, its observations)``."""
        return self.observation[:, slice(*self._contract.agents[self._contract.agent_index(agent)].observations)]

    def can(self, action: str) -> Booleans:
        """Returns in which fights a sub-action is not masked, bool ``(N,)``."""
        return self._masks[:, self._contract.flat_index(action)]

    def choose(self, action: str, where: Booleans) -> None:
        """Chooses a sub-action in the fights ``where``, bool ``(N,)``; of several in one head, the first counts."""
        self._chosen[:, self._contract.flat_index(action)] |= where

    def choose_at_random(self) -> None:
        """Chooses among what is not masked in the first head, in each fight, by `chance`."""
        size = self._contract.head_sizes[0]
        self._chosen[np.arange(len(self._masks)), random_entries(self._masks[:, :size], self.chance)] = True

    def set(self, head: str, numbers: ArrayLike) -> None:
        """Sets a head that is a number, from -1 to 1, to one for all fights, or to one for each ``(N,)``."""
        self._numbers[self._contract.head_index(head)] = numbers

    def actions(self) -> NDArray[Any]:
        """Returns the chosen actions ``(N, num_heads)``; a head without a choice takes entry 0, or the number 0."""
        borders = pairwise(self._contract.head_offsets)
        chosen = np.stack([self._chosen[:, begin:end].argmax(axis=1) for begin, end in borders], axis=1)
        decided = chosen.astype(self._contract.action_dtype, copy=False)
        for head, numbers in self._numbers.items():
            decided[:, head] = numbers
        return decided


def random_entries(masks: Booleans, chance: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns a true entry of each mask ``(N, A)``, int64 ``(N,)``: all are as likely, and ``chance`` decides."""
    rows, entries = np.nonzero(masks)
    counts = np.bincount(rows, minlength=len(masks))
    # All masks one behind the other: where each begins, and a place in it.
    chosen: NDArray[np.int64] = entries[np.cumsum(counts) - counts + (chance * counts).astype(np.int64)]
    return chosen
