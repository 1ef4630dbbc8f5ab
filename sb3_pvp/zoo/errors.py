"""The errors that the front ends tell in one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from sb3_pvp.contract.errors import unknown_name


class ZooError(Exception):
    """What was asked for is impossible; the message, one line, says what to do.

    The front ends print it and end with exit code 2. It is no ``ValueError``: rl-zoo3 would take one for a model to
    look for on the hub, and in a sweep for hyperparameters that diverge.
    """


class TrainingInterrupted(RuntimeError):
    """What is learned from is gone; the message says where the model is. The front ends end with exit code 1."""


@contextmanager
def one_line() -> Iterator[None]:
    """Around checks of what users give: what they refuse becomes a `ZooError`."""
    try:
        yield
    except (ValueError, OSError) as error:  # OSError: the file of an opponent
        raise ZooError(str(error)) from error


def require_known(kind: str, names: Iterable[object], known: set[str] | None) -> None:
    """Raises `ZooError`, with the nearest spelling, unless all names of this kind are known; ``None`` knows all."""
    for name in names:
        if known is not None and name not in known:
            raise ZooError(str(unknown_name(kind, str(name), sorted(known))))
