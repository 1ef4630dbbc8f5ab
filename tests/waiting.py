"""Waits for what happens in other threads and processes."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil

#: Longer than anything takes, also on a busy machine.
SECONDS = 400


def wait_until(condition: Callable[[], object]) -> None:
    """Returns once the condition holds; fails if it never does."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Returns whether a process is running."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
