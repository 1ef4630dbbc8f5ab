"""Locks of the operating system on open files, which end with the process that holds them, however that ends."""

from __future__ import annotations

from typing import IO, Any


def lock(file: IO[Any] | int, wait: bool = False) -> bool:
    """Locks an open file, or its descriptor, until it is closed; false: another process has the lock.

    Raises ``ImportError`` where the system has no such locks.
    """
    import fcntl  # not on every system

    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True
