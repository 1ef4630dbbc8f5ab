"""What is replaced in modules of rl-zoo3 and others while one of their functions runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(owner: Any, **names: Any) -> Iterator[None]:
    """Sets attributes of a module in this context; it need not have them before."""
    before = {name: vars(owner)[name] for name in names if name in vars(owner)}
    try:
        vars(owner).update(names)
        yield
    finally:
        for name in names:
            del vars(owner)[name]
        vars(owner).update(before)
