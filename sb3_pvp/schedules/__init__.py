"""Values that change with training: the schedule grammar (training.md §9).

`parse_schedule` makes a `Schedule` of a number, of the JSON form ``{"type": "linear", ...}``, or of a function
``f(t)``. The time ``t`` is the number of finished roll-outs in the life of a model.
"""

from sb3_pvp.schedules.base import Constant, Function, Schedule, parse_schedule
from sb3_pvp.schedules.expression import Expression, drawing_from
from sb3_pvp.schedules.kinds import BooleanArray, Jump, Linear, Log

__all__ = [
    "BooleanArray",
    "Constant",
    "Expression",
    "Function",
    "Jump",
    "Linear",
    "Log",
    "Schedule",
    "drawing_from",
    "parse_schedule",
]
