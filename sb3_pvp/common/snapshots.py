"""Snapshots: an object's state as a plain dictionary of copies, and the checks before it is put back.

A snapshot holds NumPy arrays and plain values only. Under ``kind``, ``version`` and further keys it says what it was
taken from (its *identity*), so that a wrong one is refused before anything changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Snapshot = dict[str, Any]


def copies(owner: object, names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Copies of the arrays that the owner has under these names."""
    return {name: getattr(owner, name).copy() for name in names}


def check_identity(state: Mapping[str, Any], identity: Mapping[str, object]) -> None:
    """Raises `ValueError`, with the difference, unless the snapshot was taken from something with this identity."""
    kind = identity["kind"]
    if not isinstance(state, Mapping) or state.get("kind") != kind:
        raise ValueError(f"this is no snapshot of {kind}: take one with its get_state()")
    for key, expected in identity.items():
        if state.get(key) != expected:
            raise ValueError(f"the snapshot has {key} {state.get(key)!r}, but this {kind} has {expected!r}")


def check_arrays(owner: object, state: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raises `ValueError` unless the snapshot has an array like the owner's under each of these names."""
    for name in names:
        own, given = getattr(owner, name), state.get(name)
        if not isinstance(given, np.ndarray) or (given.shape, given.dtype) != (own.shape, own.dtype):
            raise ValueError(f"{name!r} in the snapshot has another layout: another version or other settings made it")


def put_back(owner: object, state: Mapping[str, Any], names: Iterable[str]) -> None:
    """Overwrites the owner's arrays with those of the snapshot."""
    for name in names:
        getattr(owner, name)[...] = state[name]
