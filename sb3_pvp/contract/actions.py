"""Actions: chosen head by head under a mask and the rules between heads (contract.md §2), and checked by worlds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.contract.errors import ContractError

if TYPE_CHECKING:
    from sb3_pvp.contract.model import Contract, Head

_SEATS = 2
_RULES = ("require_all", "require_any", "require_none")


@dataclass(frozen=True, eq=False)
class DependencyTables:
    """Which flat entries an entry depends on: bool ``(num_flat_actions, num_flat_actions)`` each, read-only.

    Row j names what must be chosen before entry j may be: all entries of ``require_all[j]``, at least one of
    ``require_any[j]`` (if it names any), and none of ``require_none[j]``.
    """

    require_all: NDArray[np.bool_]
    require_any: NDArray[np.bool_]
    require_none: NDArray[np.bool_]

    def satisfied(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which entries the rules allow after the choices ``chosen``.

        ``chosen`` is bool ``(..., num_flat_actions)``, true at the entries chosen so far; the result has its shape.
        """
        counts = np.asarray(chosen, dtype=np.int64)
        has_all = counts @ self.require_all.T == self.require_all.sum(axis=1)
        has_any = (counts @ self.require_any.T > 0) | ~self.require_any.any(axis=1)
        has_none = counts @ self.require_none.T == 0
        return np.asarray(has_all & has_any & has_none)


def compile_dependencies(heads: Sequence[Head]) -> DependencyTables:
    """Resolves the ids of all rules to flat entries.

    A rule may name only what is decided before it: sub-actions of earlier heads. Anything else raises `ContractError`.
    """
    heads_of = {action.id: number for number, head in enumerate(heads) for action in head.actions}
    positions = {name: flat for flat, name in enumerate(heads_of)}
    tables = {rule: np.zeros((len(positions), len(positions)), dtype=np.bool_) for rule in _RULES}
    for rule, table in tables.items():
        for action in (action for head in heads for action in head.actions):
            for required in getattr(action, rule):
                what = f"{rule} of sub-action {action.id!r} names {required!r}, which is"
                if required not in positions:
                    raise ContractError(f"{what} no sub-action")
                if heads_of[required] >= heads_of[action.id]:
                    raise ContractError(f"{what} not decided before it: move the head of {required!r} forward")
                table[positions[action.id], positions[required]] = True
        table.setflags(write=False)
    return DependencyTables(**tables)


def split_mask(contract: Contract, flat_mask: ArrayLike) -> list[NDArray[np.bool_]]:
    """The part of each head in a flat mask ``(..., num_flat_actions)``: bool ``(..., size of the head)`` each."""
    return np.split(_checked_mask(contract, flat_mask), contract.head_offsets[1:-1], axis=-1)


def conditional_mask(contract: Contract, flat_mask: ArrayLike, chosen: ArrayLike) -> NDArray[np.bool_]:
    """What head h may choose once the heads before it chose: bool ``(..., size of head h)``, never all false.

    ``flat_mask`` is ``(..., num_flat_actions)``; ``chosen`` ints ``(..., h)``. If the mask and the rules leave
    nothing, entry 0 becomes legal. Wrong shapes and choices outside a head raise `ContractError`.
    """
    mask, choices = _checked_mask(contract, flat_mask), np.asarray(chosen)
    sizes = np.array(contract.head_sizes[: choices.shape[-1]] if choices.ndim else ())
    if not choices.ndim or choices.shape[-1] >= contract.num_heads:
        raise ContractError(f"choices before a head of {contract.name} end in 0 to {contract.num_heads - 1} of them")
    if choices.size and choices.dtype.kind not in "iu":
        raise ContractError(f"choices of {contract.name} must be integers, not {choices.dtype}")
    if ((choices < 0) | (choices >= sizes)).any():
        raise ContractError(f"a choice lies outside its head; {contract.name} has heads of {contract.head_sizes}")
    return _allowed(contract, mask, choices.astype(np.int64))


def random_action(contract: Contract, flat_mask: ArrayLike, rng: np.random.Generator) -> NDArray[np.int64]:
    """A random legal action for each mask ``(..., num_flat_actions)``: int64 ``(..., num_heads)``.

    Every head chooses uniformly among what `conditional_mask` leaves it.
    """
    mask = _checked_mask(contract, flat_mask)
    action = np.zeros((*mask.shape[:-1], contract.num_heads), dtype=np.int64)
    for head in range(contract.num_heads):
        allowed = _allowed(contract, mask, action[..., :head])
        # `random` may return 0.0, and a forbidden entry must never win against that.
        action[..., head] = np.where(allowed, rng.random(allowed.shape), -1.0).argmax(axis=-1)
    return action


def _checked_mask(contract: Contract, flat_mask: ArrayLike) -> NDArray[np.bool_]:
    mask = np.asarray(flat_mask)
    if mask.ndim == 0 or mask.shape[-1] != contract.num_flat_actions:
        raise ContractError(f"a flat mask of {contract.name} ends in {contract.num_flat_actions}, not {mask.shape}")
    return mask.astype(np.bool_)


def _allowed(contract: Contract, mask: NDArray[np.bool_], choices: NDArray[np.int64]) -> NDArray[np.bool_]:
    """See `conditional_mask`."""
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
    array = np.ascontiguousarray(check_actions(actions, contract, count, _SEATS))
    # Numba would compile everything once more for arrays that are read-only, and two versions of a kernel, one of
    # them from the cache, have crashed each other.
    return array if array.flags.writeable else array.copy()


def check_actions(actions: ArrayLike, contract: Contract, *leading: int) -> NDArray[np.int64]:
    """Actions as int64 ``(*leading, heads)``.

    Raises `ValueError` for another shape, for numbers that are no integers, and for a choice that its head does not
    have. A masked choice is no error: the world ignores what is not possible.
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
    """Some number is not from 0 to its end. Worlds ask this in every tick, so it is done in one comparison: without
    their sign, negative numbers are larger than all others."""
    return bool(np.count_nonzero(numbers.view(np.uint64) >= np.asarray(ends, np.uint64)))
