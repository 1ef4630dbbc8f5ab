"""Hyperparameters that can be schedules, and their ranges (training.md §7.1)."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any

from pydantic import Field, FiniteFloat

from sb3_pvp.common.arguments import Kind
from sb3_pvp.schedules import Schedule, parse_schedule


def _kind(hint: Any, words: str, low: int, high: int | None = None) -> Kind[Any]:
    """Returns the kind of numbers from ``low`` to ``high``, called ``words`` in messages."""
    bounds = f"of at least {low}" if high is None else f"from {low} to {high}"
    return Kind(Annotated[hint, Field(ge=low, le=high)], f"{words} {bounds}, or a schedule {{'type': ...}} of such")


_AT_LEAST_0, _SHARE = _kind(FiniteFloat, "a number", 0), _kind(FiniteFloat, "a number", 0, 1)
_COUNT, _POSITIVE = _kind(int, "an integer", 0), _kind(int, "an integer", 1)
#: Hyperparameters that can be schedules over finished rollouts, by SB3's name, with their range.
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


def is_schedule(value: Any) -> bool:
    """Whether a hyperparameter is a schedule or the config of one.

    A function is not: SB3 calls one given as ``learning_rate`` or ``clip_range`` with the remaining progress.
    """
    return isinstance(value, (dict, Schedule))


def value_at(name: str, given: Any, trained_rollouts: int = 0) -> Any:
    """Returns the value of a hyperparameter after ``trained_rollouts``; schedules of integers are rounded.

    SB3's functions of the remaining progress, and ``batch_size=None``, are returned as they are. Raises `ValueError`
    for a value out of range, or an invalid config of a schedule.
    """
    kind, value = RANGES[name], given
    if is_schedule(given):
        schedule = given if isinstance(given, Schedule) else parse_schedule(given)
        value = schedule(trained_rollouts)
        if kind in (_COUNT, _POSITIVE) and isfinite(value):
            value = round(value)
    elif given is None if name == "batch_size" else name in ("learning_rate", "clip_range") and callable(given):
        return given
    return kind.read(name, value)
