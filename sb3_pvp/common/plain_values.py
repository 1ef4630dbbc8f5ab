"""Conversion of frozen dataclasses to plain JSON values and back, checked against their annotations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

import orjson
from pydantic import ConfigDict, TypeAdapter, ValidationError

from sb3_pvp.common.arguments import first_error

DECIMALS = 4  #: To which floats are rounded, for small files.

_T = TypeVar("_T")


def to_plain(value: Any) -> Any:
    """Converts dataclasses, mappings and sequences to dictionaries, lists, strings and rounded numbers.

    Fields with their default value are left out. `from_plain` is the inverse, apart from the rounding.
    """
    if is_dataclass(value) and not isinstance(value, type):
        given = {field: getattr(value, field.name) for field in fields(value)}
        return {field.name: to_plain(own) for field, own in given.items() if own != _default(field)}
    if isinstance(value, Mapping):
        return {key: to_plain(own) for key, own in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(own) for own in value]
    return round(value, DECIMALS) if isinstance(value, float) else value


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def from_plain(kind: type[_T], value: Any) -> _T:
    """Returns the value of class ``kind`` that `to_plain` converted; `ValueError`, with the location, if invalid."""
    try:
        # From JSON text: pydantic's strict mode accepts a list for a tuple only there.
        return _reader(kind).validate_json(orjson.dumps([value]), strict=True)[0]  # type: ignore[no-any-return, arg-type]
    except ValidationError as error:
        raise ValueError(first_error(error, skip=1, of=kind)) from None


@cache
def _reader(kind: type[Any]) -> TypeAdapter[Any]:
    # In a list, because pydantic accepts no config for a dataclass itself.
    return TypeAdapter(list[kind], config=ConfigDict(extra="forbid"))  # type: ignore[valid-type]
