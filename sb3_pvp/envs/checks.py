"""Checks of what users hand in: one clear error each, before anything changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.contract import Contract
from sb3_pvp.contract.errors import unknown_name


def require_known(kind: str, name: object, known: Iterable[str]) -> None:
    """Raises `ValueError` with the known names, and the one that was probably meant, unless ``name`` is one of them."""
    names = sorted(known)
    if name not in names:
        raise ValueError(str(unknown_name(kind, str(name), names)))


def check_seed(seed: object) -> int | None:
    """Returns the seed as a Python integer, or ``None``; raises `ValueError` unless it is a non-negative integer."""
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"a seed must be a non-negative integer or None, got {seed!r}")
    return int(seed)


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


def check_frame_ages(frame_ages: int | Iterable[Any]) -> tuple[int, ...]:
    """Returns the ages in ascending order; a number stands for that many newest frames (training.md §11).

    Raises `ValueError` unless they are distinct non-negative integers, one at least.
    """
    ages = tuple(range(frame_ages) if _is_count(frame_ages) else frame_ages if isinstance(frame_ages, Iterable) else ())
    if not ages or not all(map(_is_count, ages)) or len(set(ages)) != len(ages):
        raise ValueError(
            "frame_ages must be distinct non-negative integers such as (0, 1, 2), where 0 is the newest frame, "
            f"or a positive number of frames, got {frame_ages!r}"
        )
    return tuple(sorted(int(age) for age in ages))


def check_trained_rollouts(trained_rollouts: object) -> int:
    """Returns the number as a Python integer; raises `ValueError` unless it is a non-negative integer."""
    if not _is_count(trained_rollouts):
        raise ValueError(f"trained_rollouts must be a non-negative integer, got {trained_rollouts!r}")
    return int(trained_rollouts)


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value >= 0)
