"""What commands tell their users in one line, and the one place where errors are turned into it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError

from sb3_pvp.common.arguments import first_error


class Refusal(Exception):
    """What was asked for is impossible; the message, one line, says what to do.

    Commands print it and end with exit code 2. It is no ``ValueError``: rl-zoo3 would take one for a model to look for
    on the hub, and in a sweep for hyperparameters that diverge.
    """


class TrainingInterrupted(RuntimeError):
    """What is learned from is gone; the message says where the model is. Commands end with exit code 1."""


@contextmanager
def refusals(*others: type[Exception], about: str = "") -> Iterator[None]:
    """Around what users can get wrong: values, files and ``others`` become a `Refusal`.

    With ``about``, its message is that and the first line of the error's own: some libraries append long advice.
    """
    refused: tuple[type[Exception], ...] = (ValueError, OSError, *others)
    try:
        yield
    except refused as error:
        text = first_error(error) if isinstance(error, ValidationError) else str(error)
        raise Refusal(f"{about}: {(text or type(error).__name__).splitlines()[0]}" if about else text) from error
