"""Which hyperparameters may follow a schedule, and what values they may have (training.md §7.1)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan
from numbers import Integral
from typing import Any

from sb3_pvp.common.arguments import NUMBER
from sb3_pvp.schedules import Schedule, parse_schedule


@dataclass(frozen=True)
class Range:
    """The numbers from ``low`` to ``high``, both included."""

    low: float
    high: float = inf
    integer: bool = False

    def __str__(self) -> str:
        kind = "an integer" if self.integer else "a number"
        return f"{kind} from {self.low} to {self.high}" if self.high < inf else f"{kind} of at least {self.low}"


#: Every hyperparameter that may be a schedule over finished roll-outs, under SB3's name.
RANGES = {
    "learning_rate": Range(0),
    "clip_range": Range(0),
    "ent_coef": Range(0),
    "vf_coef": Range(0),
    "gamma": Range(0, 1),
    "gae_lambda": Range(0, 1),
    "n_epochs": Range(0, integer=True),
    "batch_size": Range(1, integer=True),
    "gradient_accumulation_steps": Range(1, integer=True),
    "max_grad_norm": Range(0),
    "eps_greedy": Range(0, 1),
}


def read_schedule(value: Any) -> Schedule | None:
    """The schedule that was given as such or as a config; ``None`` for anything else, such as a number.

    Functions are none: SB3 calls those given for ``learning_rate`` and ``clip_range`` with the remaining progress.
    Raises ``ValueError`` for a config that is wrong.
    """
    return parse_schedule(value) if isinstance(value, (dict, Schedule)) else None


def read_constant(name: str, value: Any) -> Any:
    """The number that was given for this hyperparameter, as a Python number.

    Functions of SB3 and the batch of everything, ``None``, are given back as they are. Raises ``ValueError`` for
    anything else.
    """
    is_batch_of_all = name == "batch_size" and value is None
    is_sb3_schedule = name in ("learning_rate", "clip_range") and callable(value)
    if is_batch_of_all or is_sb3_schedule:
        return value
    if RANGES[name].integer and not isinstance(value, Integral):
        raise _wrong(name, value)
    return _number(name, value)


def scheduled_number(name: str, schedule: Schedule, trained_rollouts: int) -> float | int:
    """The value after so many finished roll-outs, rounded where only integers make sense.

    Raises ``ValueError`` if the schedule leads out of the range.
    """
    return _number(name, schedule(trained_rollouts))


def _number(name: str, value: Any) -> float | int:
    allowed = RANGES[name]
    number = float(value) if NUMBER.fits(value) else nan
    if not allowed.low <= number <= allowed.high:  # nor is NaN
        raise _wrong(name, value)
    return round(number) if allowed.integer else number


def _wrong(name: str, value: Any) -> ValueError:
    return ValueError(f"{name} must be {RANGES[name]}, or a schedule {{'type': ...}} of such; got {value!r}")
