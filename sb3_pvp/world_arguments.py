"""What every world checks of its arguments, before anything has changed."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.contract import Contract
from sb3_pvp.world import NUM_SEATS


def fight_numbers(fights: ArrayLike | None, num_fights: int) -> NDArray[np.int64]:
    """Numbers of fights, int64 ``(N,)``, from numbers or flags; all if ``None``. `ValueError` for one out of range."""
    if fights is None:
        return np.arange(num_fights)
    numbers = np.atleast_1d(np.asarray(fights))
    if numbers.dtype == np.bool_:
        numbers = np.flatnonzero(numbers)
    if numbers.size and (numbers.min() < 0 or numbers.max() >= num_fights):
        raise ValueError(f"fights must be numbers from 0 to {num_fights - 1}, not {fights!r}")
    return numbers.astype(np.int64, copy=False)


def joint_actions(actions: ArrayLike, count: int, contract: Contract) -> NDArray[np.int64]:
    """Actions of both seats, contiguous int64 ``(count, 2, heads)``.

    Raises `ValueError` for another shape or kind of number, and for a sub-action that does not exist.
    """
    array = np.asarray(actions)
    expected = (count, NUM_SEATS, contract.num_heads)
    if array.shape != expected or array.dtype.kind not in "iu":
        raise ValueError(f"actions must be integers of shape {expected}, not {array.dtype} {array.shape}")
    array = np.ascontiguousarray(array, np.int64)
    if array.size and (array.min() < 0 or (array >= np.array(contract.head_sizes)).any()):
        raise ValueError(f"every action must be from 0 to one less than its head's size {contract.head_sizes}")
    return array
