"""Frozen dataclasses as plain JSON values, and back, checked against their annotations."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

DECIMALS = 4

_T = TypeVar("_T")


def to_plain(value: Any) -> Any:
    """Dictionaries, lists, texts and numbers with at most `DECIMALS` decimals; fields at their defaults are left out.

    `from_plain` with the same class makes the same value of it, but for the rounding.
    """
    if is_dataclass(value) and not isinstance(value, type):
        given = {field: getattr(value, field.name) for field in fields(value)}
        return {field.name: to_plain(own) for field, own in given.items() if own != _default(field)}
    if isinstance(value, Mapping):
        return {key: to_plain(own) for key, own in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(own) for own in value]
    return round(value, DECIMALS) if isinstance(value, float) else value


def from_plain(kind: type[_T], value: Any, place: str = "") -> _T:
    """What `to_plain` made; ``place`` says where it stood.

    Raises `ValueError` that names the place and the difference if the value is no such thing.
    """
    return _checked(kind, value, place)  # type: ignore[no-any-return]


def _checked(kind: Any, value: Any, place: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, types.UnionType):
        return _of_any(arguments, value, place)
    if origin is Literal:
        return _require(value in arguments, value, f"one of {', '.join(map(repr, arguments))}", place)
    if origin is tuple:
        return _tuple(arguments, value, place)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        _require(isinstance(value, Mapping), value, "an object", place)
        return {
            _checked(arguments[0], key, place): _checked(arguments[1], own, f"{place}.{key}")
            for key, own in value.items()
        }
    if is_dataclass(kind):
        return _dataclass(kind, value, place)
    return _simple(kind, value, place)


def _default(field: Field[Any]) -> Any:
    """The field's default; `MISSING` if it has none."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def _of_any(kinds: tuple[Any, ...], value: Any, place: str) -> Any:
    """Optional values: there is one kind besides ``None``."""
    if value is None and types.NoneType in kinds:
        return None
    (kind,) = (each for each in kinds if each is not types.NoneType)
    return _checked(kind, value, place)


def _tuple(kinds: tuple[Any, ...], value: Any, place: str) -> tuple[Any, ...]:
    _require(isinstance(value, (list, tuple)), value, "a list", place)
    if kinds[1:] == (...,):
        kinds = kinds[:1] * len(value)
    _require(len(value) == len(kinds), len(value), f"{len(kinds)} entries", place)
    return tuple(
        _checked(kind, own, f"{place}[{index}]") for index, (kind, own) in enumerate(zip(kinds, value, strict=True))
    )


def _dataclass(kind: Any, value: Any, place: str) -> Any:
    _require(isinstance(value, Mapping), value, "an object", place)
    known = {field.name: field for field in fields(kind)}
    unknown = sorted(value.keys() - known.keys())
    missing = [name for name, field in known.items() if _default(field) is MISSING and name not in value]
    if unknown or missing:
        parts = [f"without {', '.join(missing)}"] * bool(missing) + [f"with unknown {', '.join(unknown)}"] * bool(
            unknown
        )
        raise ValueError(f"{place or 'the top'} is {' and '.join(parts)}")
    hints = _hints(kind)
    return kind(**{name: _checked(hints[name], own, f"{place}.{name}".lstrip(".")) for name, own in value.items()})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


_NAMES = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def _simple(kind: Any, value: Any, place: str) -> Any:
    fitting = isinstance(value, (int, float)) if kind is float else isinstance(value, kind)
    _require(fitting and (kind is bool or not isinstance(value, bool)), value, _NAMES[kind], place)
    return float(value) if kind is float else value


def _require(condition: bool, value: Any, expected: str, place: str) -> Any:
    if not condition:
        raise ValueError(f"{place or 'the top'} should be {expected}, got {value!r:.60}")
    return value
