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
    """Actions of both seats, contiguous int64 ``(count, 2, heads)``.

    Raises `ValueError` for another shape or kind of number, and for a sub-action that does not exist.
    """
    array = np.asarray(actions)
    expected = (count, _SEATS, contract.num_heads)
    if array.shape != expected or array.dtype.kind not in "iu":
        raise ValueError(f"actions must be integers of shape {expected}, not {array.dtype} {array.shape}")
    array = np.ascontiguousarray(array, np.int64)
    if not array.flags.writeable:
        # Numba would compile everything once more for arrays that are read-only, and two versions of a kernel, one of
        # them from the cache, have crashed each other.
        array = array.copy()
    if _any_outside(array, contract.head_sizes):
        raise ValueError(f"every action must be from 0 to one less than its head's size {contract.head_sizes}")
    return array


def _any_outside(numbers: NDArray[np.int64], ends: ArrayLike) -> bool:
    """Some number is not from 0 to its end. Worlds ask this in every tick, so it is done in one comparison: without
    their sign, negative numbers are larger than all others."""
    return bool(np.count_nonzero(numbers.view(np.uint64) >= np.asarray(ends, np.uint64)))


def check_actions(actions: ArrayLike, contract: Contract, num_fights: int) -> NDArray[np.int64]:
    """Returns the actions as int64 ``(num_fights, num_heads)``.

    Raises `ValueError` for another shape, for numbers that are no integers, and for a choice that its head does not
    have. A masked choice is no error: the world ignores what is not possible (nh-actions.md §3).
    """
    array = np.asarray(actions)
    expected = (num_fights, contract.num_heads)
    if array.shape != expected:
        raise ValueError(f"actions must have shape {expected} (fights, heads), got {array.shape}")
    if array.dtype.kind not in "iu":
        raise ValueError(f"actions must be integers, got {array.dtype}")
    wrong = (array < 0) | (array >= np.asarray(contract.head_sizes))
    if wrong.any():
        fight, head = np.argwhere(wrong)[0]
        raise ValueError(
            f"head {contract.heads[head].id!r} has the actions 0 to {contract.head_sizes[head] - 1}, "
            f"got {array[fight, head]}"
        )
    return array.astype(np.int64, copy=False)
