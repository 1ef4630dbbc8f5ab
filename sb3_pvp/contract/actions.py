"""What every world checks of its arguments, before anything has changed."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.contract import Contract

_SEATS = 2


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
