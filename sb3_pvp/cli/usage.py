"""What bad usage of the command line is turned into."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

#: Typer does not export it, and where it lives differs between versions.
UsageError: Any = typer.BadParameter.__bases__[0]


@contextmanager
def bad_usage_if_refused(*others: type[Exception]) -> Iterator[None]:
    """Around code that checks what the user gave: its ``ValueError``, ``OSError`` or others become a `UsageError`."""
    refused: tuple[type[Exception], ...] = (ValueError, OSError, *others)
    try:
        yield
    except refused as error:
        raise UsageError(str(error)) from error


def json_object(text: str, option: str) -> dict[str, Any]:
    """Parses the value of an option that takes a JSON object; anything else is a `UsageError`."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{option} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f'{option} must be a JSON object such as \'{{"accountBuild": "MED"}}\'')
    return value
