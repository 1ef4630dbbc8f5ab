"""The base class of schedules, and how one is created from its JSON form."""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, get_type_hints

import numpy as np

from sb3_pvp.common.names import require_all_known, require_known

KINDS: dict[str, type[Schedule]] = {}  #: Classes with a JSON form, by its ``type``.


class Schedule(ABC):
    """A value that depends on the number of finished rollouts; picklable and comparable.

    Subclasses are frozen dataclasses whose fields are the keys of the JSON form, with underscores for dashes. Fields
    that are annotated with a `sb3_pvp.common.arguments.Kind` are validated.
    """

    _kind: ClassVar[str]

    def __init_subclass__(cls, kind: str = "") -> None:
        cls._kind = kind
        if kind:
            KINDS[kind] = cls

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            for kind in getattr(hint, "__metadata__", ()):
                a = "an" if self._kind[0] in "aeiou" else "a"
                kind.read(f"{name} of {a} {self._kind} schedule", getattr(self, name))

    @abstractmethod
    def __call__(self, t: float, **variables: Any) -> Any:
        """Returns the value after ``t`` rollouts; only an `Expression` uses the variables."""


@dataclass(frozen=True)
class Constant(Schedule, kind="constant"):
    """Always the same value: any JSON value."""

    value: Any

    def __call__(self, t: float, **variables: Any) -> Any:
        return copy.copy(self.value)  # the caller may change its list


@dataclass(frozen=True)
class Function(Schedule):
    """A Python function of ``t``; unlike a schedule of SB3 it does not get the remaining progress."""

    function: Callable[[float], Any]

    def __call__(self, t: float, **variables: Any) -> Any:
        return self.function(t)


def parse_schedule(value: Any, variables: Mapping[str, Any] | None = None) -> Schedule:
    """Creates a schedule from its JSON form (training.md §9), and evaluates it at t = 0; `ValueError` if it is invalid.

    ``value``: an object with a ``type``; any other JSON value, which is a constant; a function ``f(t)``; or a schedule.
    ``variables``: sample values for the variables of expressions.
    """
    schedule = as_schedule(value)
    schedule(0, **(variables or {}))
    return schedule


def as_schedule(value: Any) -> Schedule:
    """Creates a schedule like `parse_schedule`, but does not evaluate it: for schedules inside schedules."""
    value = _plain(value)
    if isinstance(value, Schedule):
        return value
    if callable(value):
        return Function(value)
    if not isinstance(value, dict):
        return Constant(value)
    kind = value.pop("type", None)
    if kind is None:
        raise ValueError(f"a schedule needs the key 'type' (one of {', '.join(KINDS)}); got the keys {list(value)}")
    require_known("schedule type", kind, KINDS)
    keys = inspect.signature(KINDS[kind]).parameters
    require_all_known(f"key of a {kind} schedule", value, keys)
    for key in keys.values():
        if key.default is key.empty and key.name not in value:
            raise ValueError(f"a {kind} schedule needs the key {key.name!r}")
    return KINDS[kind](**value)


def _plain(value: Any) -> Any:
    """Returns a copy of a JSON value with underscores for dashes in all keys; schedules and functions are kept."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {key.replace("-", "_") if isinstance(key, str) else key: _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if value is None or isinstance(value, (bool, int, float, str, Schedule)) or callable(value):
        return value
    raise ValueError(f"a schedule must be a JSON value or a function f(t), got {type(value).__name__}")
