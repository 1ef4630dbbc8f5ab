"""Exceptions that commands report in one line, and the context manager that converts other errors to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError

from sb3_pvp.common.arguments import first_error


class Refusal(Exception):
    """Raised when a request is invalid; commands print the message, one line that says what to do, and exit with 2.

    Not a ``ValueError``: rl-zoo3 handles those itself, as a model to download from the hub, or as a sweep's trial with
    diverging hyperparameters.
    """


class TrainingInterrupted(RuntimeError):
    """Raised when training cannot continue; the message says where the model was saved. Commands exit with 1."""


@contextmanager
def refusals(*others: type[Exception], about: str = "") -> Iterator[None]:
    """Converts errors that a user can cause (`ValueError`, `OSError` and ``others``) to a `Refusal`.

    With ``about``, the message is ``about`` and the first line of the error: some libraries append long advice.
    """
    refused: tuple[type[Exception], ...] = (ValueError, OSError, *others)
    try:
        yield
    except refused as error:
        text = first_error(error) if isinstance(error, ValidationError) else str(error)
        raise Refusal(f"{about}: {(text or type(error).__name__).splitlines()[0]}" if about else text) from error
