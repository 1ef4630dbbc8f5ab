"""The base class of schedules, and how one is created from its JSON form."""

from __future__ import annotations

import copy
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Annotated, Any, ClassVar, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sb3_pvp.common.arguments import ABOVE_0, COUNT, FLAG, INTEGER, NUMBER, Kind
from sb3_pvp.common.errors import require_all_known, require_known

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


@dataclass(frozen=True)
class Linear(Schedule, kind="linear"):
    """Interpolates from ``initial_value`` to ``final_value`` in ``change_over_time_steps`` rollouts, then is constant.

    With ``round_value``, the result is rounded to ``round_digits`` digits, or to an integer if that is ``None``.
    """

    initial_value: Annotated[float, NUMBER]
    final_value: Annotated[float, NUMBER]
    change_over_time_steps: Annotated[float, ABOVE_0]
    round_value: Annotated[bool, FLAG] = False
    round_digits: Annotated[int | None, Kind[int | None](int | None, "an integer")] = None

    def __call__(self, t: float, **variables: Any) -> float:
        fraction = t / self.change_over_time_steps
        value = self.initial_value + (self.final_value - self.initial_value) * fraction
        if fraction >= 1:
            value = self.final_value  # exactly: the sum above has rounding errors
        return round(value, self.round_digits) if self.round_value else value


@dataclass(frozen=True)
class Log(Schedule, kind="log"):
    """Like `Linear`, but interpolates the logarithm. ``base`` is part of the format and has no effect."""

    initial_value: Annotated[float, ABOVE_0]
    final_value: Annotated[float, ABOVE_0]
    change_over_time_steps: Annotated[float, ABOVE_0]
    base: Annotated[float, ABOVE_0] = 10

    def __call__(self, t: float, **variables: Any) -> float:
        fraction = min(t / self.change_over_time_steps, 1)
        value: float = self.initial_value ** (1 - fraction) * self.final_value**fraction
        return value


@dataclass(frozen=True)
class Jump(Schedule, kind="jump"):
    """Switches between schedules: from each threshold on, the one listed with it applies.

    ``jumps`` maps thresholds to schedules, or to what `parse_schedule` accepts. They are scanned in the listed order up
    to the first threshold above ``t``; schedules get no variables. `ValueError` if ``t`` is below the first threshold.
    """

    jumps: tuple[tuple[int, Schedule], ...]

    def __post_init__(self) -> None:
        jumps = tuple(self.jumps.items()) if isinstance(self.jumps, Mapping) else self.jumps
        if not isinstance(jumps, tuple) or not jumps:
            expected = 'an object {"threshold": schedule, ...} with at least one entry'
            raise ValueError(f"jumps of a jump schedule must be {expected}, got {self.jumps!r}")
        parsed = tuple((_threshold(key), as_schedule(schedule)) for key, schedule in jumps)
        object.__setattr__(self, "jumps", parsed)
        for threshold, schedule in parsed:
            schedule(threshold)  # evaluated now: `parse_schedule` would only try the one at t = 0

    def __call__(self, t: float, **variables: Any) -> Any:
        reached = [*takewhile(lambda jump: jump[0] <= t, self.jumps)]
        if not reached:
            raise ValueError(f"a jump schedule that starts at {self.jumps[0][0]} has no value at t = {t}")
        return reached[-1][1](t)


@dataclass(frozen=True)
class BooleanArray(Schedule, kind="npboolarray"):
    """A constant bool array ``(size,)``, for action-mask overrides.

    It is filled with ``default_value``; then ``true_indices`` are set and ``false_indices`` are cleared.
    """

    size: Annotated[int, COUNT] = 0
    true_indices: tuple[int, ...] = ()
    false_indices: tuple[int, ...] = ()
    default_value: Annotated[bool, FLAG] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        index = Annotated[int, Field(ge=-self.size, lt=self.size)]
        indices = Kind[Any](list[index] | tuple[index, ...], f"a list of integers below its size, {self.size}")
        for name in ("true_indices", "false_indices"):
            object.__setattr__(self, name, tuple(indices.read(f"{name} of an npboolarray", getattr(self, name))))

    def __call__(self, t: float, **variables: Any) -> NDArray[np.bool_]:
        array = np.full(self.size, self.default_value)
        array[list(self.true_indices)] = True
        array[list(self.false_indices)] = False
        return array


def _threshold(key: Any) -> int:
    number = int(key) if isinstance(key, str) and re.fullmatch(r"-?\d+", key) else key  # JSON keys are strings
    return INTEGER.read("every threshold of a jump schedule", number)
