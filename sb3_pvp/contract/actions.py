"""Masks and the rules between heads (contract.md §2), the checks of actions in worlds, and turns of scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from sb3_pvp.contract.model import Contract, Head

Booleans = NDArray[np.bool_]


class ContractError(ValueError):
    """Raised for an invalid contract or contract file, an unknown id, and masks or choices that do not fit."""


@dataclass(frozen=True, eq=False)
class DependencyTables:
    """The rules between heads as read-only bool arrays ``(num_flat_actions, num_flat_actions)`` (contract.md §2.2).

    Flat entry j is allowed if all entries in ``require_all[j]`` were chosen before it, at least one in
    ``require_any[j]`` (if it has any), and none in ``require_none[j]``.
    """

    require_all: Booleans
    require_any: Booleans
    require_none: Booleans

    def satisfied(self, chosen: Booleans) -> Booleans:
        """Returns which entries the rules allow, given those ``chosen``; both bool ``(..., num_flat_actions)``."""
        counts = np.asarray(chosen, dtype=np.int64)  # a product of bools would not count
        has_all = counts @ self.require_all.T == self.require_all.sum(axis=1)
        has_any = (counts @ self.require_any.T > 0) | ~self.require_any.any(axis=1)
        has_none = counts @ self.require_none.T == 0
        return np.asarray(has_all & has_any & has_none)


def compile_dependencies(heads: Sequence[Head]) -> DependencyTables:
    """Compiles the rules; raises `ContractError` if one names anything but sub-actions of earlier heads."""
    heads_of = {action.id: number for number, head in enumerate(heads) for action in head.actions}
    # Ids are unique in the whole contract, so that the order of this dictionary is the flat order.
    positions = {name: flat for flat, name in enumerate(heads_of)}
    tables = DependencyTables(*np.zeros((3, len(positions), len(positions)), np.bool_))
    for rule, table in vars(tables).items():
        for action in (action for head in heads for action in head.actions):
            for required in getattr(action, rule):
                what = f"{rule} of sub-action {action.id!r} names {required!r}, which is"
                if required not in positions:
                    raise ContractError(f"{what} not a sub-action")
                if heads_of[required] >= heads_of[action.id]:
                    raise ContractError(f"{what} not decided before it: move the head of {required!r} forward")
                table[positions[action.id], positions[required]] = True
        table.setflags(write=False)
    return tables


def split_mask(contract: Contract, flat_mask: ArrayLike) -> list[Booleans]:
    """Splits a flat mask ``(..., num_flat_actions)`` into one per head, bool ``(..., size of the head)``."""
    return np.split(_checked_mask(contract, flat_mask), contract.head_offsets[1:-1], axis=-1)


def conditional_mask(contract: Contract, flat_mask: ArrayLike, chosen: ArrayLike) -> Booleans:
    """Returns the mask of head h, bool ``(..., size of head h)``, after the choices of the heads before it.

    ``flat_mask`` is bool ``(..., num_flat_actions)``, ``chosen`` ints ``(..., h)``. Where mask and rules leave nothing,
    entry 0 is legal (contract.md §2.3). Raises `ContractError` for wrong shapes, dtypes and choices.
    """
    mask, choices = _checked_mask(contract, flat_mask), np.asarray(chosen)
    if not choices.ndim or choices.shape[-1] >= contract.num_heads:
        raise ContractError(f"{contract.name} takes 0 to {contract.num_heads - 1} earlier choices, not {choices.shape}")
    if choices.size and choices.dtype.kind not in "iu":
        raise ContractError(f"choices of {contract.name} must be integers, not {choices.dtype}")
    if ((choices < 0) | (choices >= contract.head_sizes[: choices.shape[-1]])).any():
        raise ContractError(f"a choice is out of range: the heads of {contract.name} have sizes {contract.head_sizes}")
    return _allowed(contract, mask, choices.astype(np.int64))


def random_action(contract: Contract, flat_mask: ArrayLike, rng: np.random.Generator) -> NDArray[np.int64]:
    """Samples an action per mask, int64 ``(..., num_heads)``, each head uniformly from its `conditional_mask`."""
    mask = _checked_mask(contract, flat_mask)
    action = np.zeros((*mask.shape[:-1], contract.num_heads), dtype=np.int64)
    for head in range(contract.num_heads):
        allowed = _allowed(contract, mask, action[..., :head])
        # -1 for forbidden entries, because `random` may return 0.0 for an allowed one.
        action[..., head] = np.where(allowed, rng.random(allowed.shape), -1.0).argmax(axis=-1)
    return action


def _checked_mask(contract: Contract, flat_mask: ArrayLike) -> Booleans:
    mask = np.asarray(flat_mask)
    if mask.ndim == 0 or mask.shape[-1] != contract.num_flat_actions:
        expected = f"(..., {contract.num_flat_actions})"
        raise ContractError(f"a flat mask of {contract.name} must have shape {expected}, got {mask.shape}")
    return mask.astype(np.bool_)


def _allowed(contract: Contract, mask: Booleans, choices: NDArray[np.int64]) -> Booleans:
    head = choices.shape[-1]
    entries = np.zeros((*choices.shape[:-1], contract.num_flat_actions), dtype=np.bool_)
    np.put_along_axis(entries, choices + contract.head_offsets[:head], True, axis=-1)
    begin, end = contract.head_offsets[head : head + 2]
    allowed = (mask & contract.dependencies.satisfied(entries))[..., begin:end]  # a copy, made by the &
    allowed[..., 0] |= ~allowed.any(axis=-1)  # the fallback of contract.md §2.3
    return allowed


def fight_numbers(fights: ArrayLike | None, num_fights: int) -> NDArray[np.int64]:
    """Converts numbers, a bool array or ``None`` (all) to numbers, int64 ``(N,)``; `ValueError` if out of range."""
    if fights is None:
        return np.arange(num_fights)
    array = np.atleast_1d(np.asarray(fights))
    numbers = np.flatnonzero(array) if array.dtype == np.bool_ else array.astype(np.int64, copy=False)
    if _any_outside(numbers, np.uint64(num_fights)):
        raise ValueError(f"fights must be numbers from 0 to {num_fights - 1}, not {fights!r}")
    return numbers


def joint_actions(actions: ArrayLike, count: int, contract: Contract) -> NDArray[np.int64]:
    """Returns the actions of both seats as a contiguous, writeable int64 array ``(count, 2, heads)``."""
    array = np.ascontiguousarray(check_actions(actions, contract, count, 2))
    # Numba compiles another version of a kernel for read-only arrays. That takes long, and two versions, one of them
    # from the cache, have crashed.
    return array if array.flags.writeable else array.copy()


def check_actions(actions: ArrayLike, contract: Contract, *leading: int) -> NDArray[np.int64]:
    """Returns actions as int64 ``(*leading, heads)``; `ValueError` for another shape or dtype, or a wrong choice.

    Masks are not checked: the world decides what a masked choice does.
    """
    array, shape = np.asarray(actions), (*leading, contract.num_heads)
    if array.shape != shape:
        raise ValueError(f"actions must have shape {shape} (the last are the heads), got {array.shape}")
    if array.dtype.kind not in "iu":
        raise ValueError(f"actions must be integers, got {array.dtype}")
    array = array.astype(np.int64, copy=False)
    if _any_outside(array, _ends(contract.head_sizes, leading)):
        wrong = tuple(np.argwhere((array < 0) | (array >= np.asarray(contract.head_sizes)))[0])
        head = contract.heads[wrong[-1]]
        raise ValueError(f"head {head.id!r} has the actions 0 to {len(head.actions) - 1}, got {array[wrong]}")
    return array


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
        self._contract, self._observation, self._masks, self.chance = contract, observation, masks, chance
        self._chosen = np.zeros((len(observation), contract.num_flat_actions), bool)

    def see(self, observation: str) -> NDArray[np.float32]:
        """Returns the values of an observation, float32 ``(N,)``."""
        return self._observation[:, self._contract.observation_index(observation)]

    def can(self, action: str) -> Booleans:
        """Returns in which fights a sub-action is not masked, bool ``(N,)``."""
        return self._masks[:, self._contract.flat_index(action)]

    def choose(self, action: str, where: Booleans) -> None:
        """Chooses a sub-action in the fights ``where``, bool ``(N,)``; of several in one head, the first counts."""
        self._chosen[:, self._contract.flat_index(action)] |= where

    def actions(self) -> NDArray[np.int64]:
        """Returns the chosen actions, int64 ``(N, num_heads)``; a head without a choice takes entry 0."""
        borders = pairwise(self._contract.head_offsets)
        return np.stack([self._chosen[:, begin:end].argmax(axis=1) for begin, end in borders], axis=1)
