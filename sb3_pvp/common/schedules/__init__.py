"""Schedules: values that depend on the number ``t`` of rollouts that a model was trained on (training.md §9)."""

from sb3_pvp.common.schedules.expression import Expression, sampling_from
from sb3_pvp.common.schedules.schedule import (
    BooleanArray,
    Constant,
    Function,
    Jump,
    Linear,
    Log,
    Schedule,
    parse_schedule,
)

__all__ = [
    "BooleanArray",
    "Constant",
    "Expression",
    "Function",
    "Jump",
    "Linear",
    "Log",
    "Schedule",
    "parse_schedule",
    "sampling_from",
]
