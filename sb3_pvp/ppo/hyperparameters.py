"""Which hyperparameters may follow a schedule, and what values they may have (training.md §7.1)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isnan
from typing import Any

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


def check_constant(name: str, value: Any) -> None:
    """Raises ``ValueError`` unless the hyperparameter may have this value from beginning to end."""
    is_batch_of_all = name == "batch_size" and value is None
    is_sb3_schedule = name in ("learning_rate", "clip_range") and callable(value)
    if not is_batch_of_all and not is_sb3_schedule:
        check_number(name, value)
        if RANGES[name].integer and value != int(value):
            raise ValueError(f"{name} must be {RANGES[name]}, got {value!r}")


def check_number(name: str, value: Any) -> float:
    """Returns the value; raises ``ValueError`` unless it is a number in the range of this hyperparameter."""
    allowed = RANGES[name]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and not isnan(value)
    if not is_number or not allowed.low <= value <= allowed.high:
        raise ValueError(f"{name} must be {allowed}, or a schedule {{'type': ...}} of such; got {value!r}")
    return float(value)


def scheduled_number(name: str, schedule: Schedule, trained_rollouts: int) -> float | int:
    """The value after so many finished roll-outs, rounded where only integers make sense.

    Raises ``ValueError`` if the schedule leads out of the range.
    """
    value = check_number(name, schedule(trained_rollouts))
    return round(value) if RANGES[name].integer else value
