"""Checks of what constructors of callbacks are given, in a preset for one."""

from __future__ import annotations

import os
from collections.abc import Mapping


def check_count(name: str, value: object, smallest: int, largest: float = float("inf")) -> None:
    """Raises `ValueError` unless the argument of that name is an integer in that range."""
    if isinstance(value, bool) or not isinstance(value, int) or not smallest <= value <= largest:
        limit = f"of at least {smallest}" if largest == float("inf") else f"from {smallest} to {largest:g}"
        raise ValueError(f"{name} must be an integer {limit}, got {value!r}")


def check_path(name: str, value: object) -> None:
    """Raises `ValueError` unless the argument of that name is a path or ``None``."""
    if value is not None and not isinstance(value, (str, os.PathLike)):
        raise ValueError(f"{name} must be a path, got {value!r}")


def check_mapping(name: str, value: object) -> None:
    """Raises `ValueError` unless the argument of that name is a mapping or ``None``."""
    if value is not None and not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a mapping, got {value!r}")
