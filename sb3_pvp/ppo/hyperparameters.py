"""Which hyperparameters may follow a schedule, and what values they may have (training.md §7.1)."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any

from pydantic import Field, FiniteFloat

from sb3_pvp.common.arguments import Kind
from sb3_pvp.schedules import Schedule, parse_schedule


def _kind(hint: Any, words: str, low: int, high: int | None = None) -> Kind[Any]:
    bounds = f"of at least {low}" if high is None else f"from {low} to {high}"
    return Kind(Annotated[hint, Field(ge=low, le=high)], f"{words} {bounds}, or a schedule {{'type': ...}} of such")


_AT_LEAST_0, _SHARE = _kind(FiniteFloat, "a number", 0), _kind(FiniteFloat, "a number", 0, 1)
_COUNT, _POSITIVE = _kind(int, "an integer", 0), _kind(int, "an integer", 1)
#: Every hyperparameter that may be a schedule over finished roll-outs, under SB3's name, with what it may be.
RANGES: dict[str, Kind[Any]] = {
    "learning_rate": _AT_LEAST_0,
    "clip_range": _AT_LEAST_0,
    "ent_coef": _AT_LEAST_0,
    "vf_coef": _AT_LEAST_0,
    "gamma": _SHARE,
    "gae_lambda": _SHARE,
    "n_epochs": _COUNT,
    "batch_size": _POSITIVE,
    "gradient_accumulation_steps": _POSITIVE,
    "max_grad_norm": _AT_LEAST_0,
    "eps_greedy": _SHARE,
}


def read_schedule(value: Any) -> Schedule | None:
    """The schedule that was given as such or as a config; ``None`` for anything else, such as a number.

    Functions are none: SB3 calls those given for ``learning_rate`` and ``clip_range`` with the remaining progress.
    Raises ``ValueError`` for a config that is wrong.
    """
    return parse_schedule(value) if isinstance(value, (dict, Schedule)) else None


def read_constant(name: str, value: Any) -> Any:
    """The value of this hyperparameter as a Python number; raises ``ValueError`` if it is out of its range.

    Functions of SB3 and the batch of everything, ``None``, are given back as they are.
    """
    is_batch_of_all = name == "batch_size" and value is None
    is_sb3_schedule = name in ("learning_rate", "clip_range") and callable(value)
    return value if is_batch_of_all or is_sb3_schedule else RANGES[name].read(name, value)


def scheduled_number(name: str, schedule: Schedule, trained_rollouts: int) -> float | int:
    """The value after so many finished roll-outs, rounded where only integers make sense.

    Raises ``ValueError`` if the schedule leads out of the range.
    """
    value = schedule(trained_rollouts)
    is_whole = RANGES[name] in (_COUNT, _POSITIVE) and isfinite(value)
    number: float | int = RANGES[name].read(name, round(value) if is_whole else value)
    return number
