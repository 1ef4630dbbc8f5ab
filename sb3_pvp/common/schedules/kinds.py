"""The schedules of training.md §9 besides constants and expressions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sb3_pvp.common.arguments import ABOVE_0, COUNT, FLAG, INTEGER, NUMBER, Kind
from sb3_pvp.common.schedules.schedule import Schedule, as_schedule


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
