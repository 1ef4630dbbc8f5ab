"""Actions: chosen head by head under a mask and the rules between heads (contract.md §2), and checked by worlds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from sb3_pvp.contract.model import Contract, Head

Booleans = NDArray[np.bool_]


class ContractError(ValueError):
    """A contract, a contract file or an id in it is not what it should be; the message says what to do."""


@dataclass(frozen=True, eq=False)
class DependencyTables:
    """Which flat entries an entry depends on: bool ``(num_flat_actions, num_flat_actions)`` each, read-only.

    Row j names what must be chosen before entry j may be: all entries of ``require_all[j]``, at least one of
    ``require_any[j]`` (if it names any), and none of ``require_none[j]``.
    """

    require_all: Booleans
    require_any: Booleans
    require_none: Booleans

    def satisfied(self, chosen: Booleans) -> Booleans:
        """Which entries the rules allow after what is ``chosen``; both bool ``(..., num_flat_actions)``."""
        counts = np.asarray(chosen, dtype=np.int64)
        has_all = counts @ self.require_all.T == self.require_all.sum(axis=1)
        has_any = (counts @ self.require_any.T > 0) | ~self.require_any.any(axis=1)
        has_none = counts @ self.require_none.T == 0
        return np.asarray(has_all & has_any & has_none)


def compile_dependencies(heads: Sequence[Head]) -> DependencyTables:
    """The rules as tables; `ContractError` for one that names something else than sub-actions of earlier heads."""
    heads_of = {action.id: number for number, head in enumerate(heads) for action in head.actions}
    positions = {name: flat for flat, name in enumerate(heads_of)}
    tables = DependencyTables(*np.zeros((3, len(positions), len(positions)), np.bool_))
    for rule, table in vars(tables).items():
        for action in (action for head in heads for action in head.actions):
            for required in getattr(action, rule):
                what = f"{rule} of sub-action {action.id!r} names {required!r}, which is"
                if required not in positions:
                    raise ContractError(f"{what} no sub-action")
                if heads_of[required] >= heads_of[action.id]:
                    raise ContractError(f"{what} not decided before it: move the head of {required!r} forward")
                table[positions[action.id], positions[required]] = True
        table.setflags(write=False)
    return tables


def split_mask(contract: Contract, flat_mask: ArrayLike) -> list[Booleans]:
    """The part of each head in a flat mask ``(..., num_flat_actions)``: bool ``(..., size of the head)`` each."""
    return np.split(_checked_mask(contract, flat_mask), contract.head_offsets[1:-1], axis=-1)


def conditional_mask(contract: Contract, flat_mask: ArrayLike, chosen: ArrayLike) -> Booleans:
    """What head h may choose once those before it have ``chosen``, ints ``(..., h)``: bool ``(..., size of head h)``.

    If mask and rules leave nothing, entry 0 becomes legal. `ContractError` for wrong shapes and impossible choices.
    """
    mask, choices = _checked_mask(contract, flat_mask), np.asarray(chosen)
    if not choices.ndim or choices.shape[-1] >= contract.num_heads:
        raise ContractError(f"choices before a head of {contract.name} end in 0 to {contract.num_heads - 1} of them")
    if choices.size and choices.dtype.kind not in "iu":
        raise ContractError(f"choices of {contract.name} must be integers, not {choices.dtype}")
    if ((choices < 0) | (choices >= contract.head_sizes[: choices.shape[-1]])).any():
        raise ContractError(f"a choice lies outside its head; {contract.name} has heads of {contract.head_sizes}")
    return _allowed(contract, mask, choices.astype(np.int64))


def random_action(contract: Contract, flat_mask: ArrayLike, rng: np.random.Generator) -> NDArray[np.int64]:
    """An action for each mask, int64 ``(..., num_heads)``: uniformly among what `conditional_mask` leaves a head."""
    mask = _checked_mask(contract, flat_mask)
    action = np.zeros((*mask.shape[:-1], contract.num_heads), dtype=np.int64)
    for head in range(contract.num_heads):
        allowed = _allowed(contract, mask, action[..., :head])
        # `random` may return 0.0, and a forbidden entry must never win against that.
        action[..., head] = np.where(allowed, rng.random(allowed.shape), -1.0).argmax(axis=-1)
    return action


def _checked_mask(contract: Contract, flat_mask: ArrayLike) -> Booleans:
    mask = np.asarray(flat_mask)
    if mask.ndim == 0 or mask.shape[-1] != contract.num_flat_actions:
        raise ContractError(f"a flat mask of {contract.name} ends in {contract.num_flat_actions}, not {mask.shape}")
    return mask.astype(np.bool_)


def _allowed(contract: Contract, mask: Booleans, choices: NDArray[np.int64]) -> Booleans:
    head = choices.shape[-1]
    entries = np.zeros((*choices.shape[:-1], contract.num_flat_actions), dtype=np.bool_)
    np.put_along_axis(entries, choices + contract.head_offsets[:head], True, axis=-1)
    begin, end = contract.head_offsets[head : head + 2]
    allowed = (mask & contract.dependencies.satisfied(entries))[..., begin:end]
    allowed[..., 0] |= ~allowed.any(axis=-1)
    return allowed


def fight_numbers(fights: ArrayLike | None, num_fights: int) -> NDArray[np.int64]:
    """Numbers of fights, int64 ``(N,)``, from numbers or flags; all if ``None``. `ValueError` for one out of range."""
    if fights is None:
        return np.arange(num_fights)
    array = np.atleast_1d(np.asarray(fights))
    numbers = np.flatnonzero(array) if array.dtype == np.bool_ else array.astype(np.int64, copy=False)
    if _any_outside(numbers, num_fights):
        raise ValueError(f"fights must be numbers from 0 to {num_fights - 1}, not {fights!r}")
    return numbers


def joint_actions(actions: ArrayLike, count: int, contract: Contract) -> NDArray[np.int64]:
    """Actions of both seats, contiguous int64 ``(count, 2, heads)``, see `check_actions`."""
    array = np.ascontiguousarray(check_actions(actions, contract, count, 2))
    # Numba would compile everything once more for arrays that are read-only, and two versions of a kernel, one of
    # them from the cache, have crashed each other.
    return array if array.flags.writeable else array.copy()


def check_actions(actions: ArrayLike, contract: Contract, *leading: int) -> NDArray[np.int64]:
    """Actions as int64 ``(*leading, heads)``; `ValueError` for others, and for choices that their heads do not have.

    A masked choice is no error: the world ignores what is not possible.
    """
    array, shape = np.asarray(actions), (*leading, contract.num_heads)
    if array.shape != shape:
        raise ValueError(f"actions must have shape {shape} (the last are the heads), got {array.shape}")
    if array.dtype.kind not in "iu":
        raise ValueError(f"actions must be integers, got {array.dtype}")
    array = array.astype(np.int64, copy=False)
    if _any_outside(array, contract.head_sizes):
        wrong = tuple(np.argwhere((array < 0) | (array >= np.asarray(contract.head_sizes)))[0])
        head = contract.heads[wrong[-1]]
        raise ValueError(f"head {head.id!r} has the actions 0 to {len(head.actions) - 1}, got {array[wrong]}")
    return array


def _any_outside(numbers: NDArray[np.int64], ends: ArrayLike) -> bool:
    # One comparison, since worlds ask this in every tick: without their sign, negative numbers are the largest.
    return bool(np.count_nonzero(numbers.view(np.uint64) >= np.asarray(ends, np.uint64)))


class Turn:
    """One tick of N fights, as a script sees it, by the ids of the contract.

    ``observation`` is float32 ``(N, D)``; ``masks`` flat, bool ``(N, A)``; ``chance`` a number from [0, 1) per fight.
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
