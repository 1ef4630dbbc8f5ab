"""Snapshots: the state of an object as a dictionary, and the checks before it is restored.

A snapshot contains only copies of NumPy arrays and plain values. Its keys ``kind``, ``version`` and others (its
*identity*) name its origin, so that a snapshot of something else is refused before anything changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Snapshot = dict[str, Any]


def copy_arrays(owner: object, names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Returns copies of the owner's arrays with these names."""
    return {name: getattr(owner, name).copy() for name in names}


def check_identity(state: Mapping[str, Any], identity: Mapping[str, object]) -> None:
    """Raises `ValueError`, with the difference, unless the snapshot has this identity."""
    kind = identity["kind"]
    if not isinstance(state, Mapping) or state.get("kind") != kind:
        raise ValueError(f"this is no snapshot of {kind}: take one with its get_state()")
    for key, expected in identity.items():
        if state.get(key) != expected:
            raise ValueError(f"the snapshot has {key} {state.get(key)!r}, but this {kind} has {expected!r}")


def check_arrays(owner: object, state: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raises `ValueError` unless the snapshot has arrays with these names, and the shapes and dtypes of the owner's."""
    for name in names:
        own, given = getattr(owner, name), state.get(name)
        if not isinstance(given, np.ndarray) or (given.shape, given.dtype) != (own.shape, own.dtype):
            raise ValueError(f"{name!r} in the snapshot has another layout: its version or settings are different")


def restore_arrays(owner: object, state: Mapping[str, Any], names: Iterable[str]) -> None:
    """Restores the owner's arrays with these names, in place: others may hold references to them."""
    for name in names:
        getattr(owner, name)[...] = state[name]
