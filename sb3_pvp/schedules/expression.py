"""The schedule that evaluates a formula which a user wrote down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import shorten
from typing import Annotated, Any

from pydantic import InstanceOf

from sb3_pvp.common.arguments import Kind
from sb3_pvp.schedules.base import Schedule, as_schedule
from sb3_pvp.schedules.language import Evaluation, parse_formula

_OBJECT = Kind[Any](InstanceOf[Mapping], "an object")  # type: ignore[type-arg]


@dataclass(frozen=True)
class Expression(Schedule, kind="expression"):
    """The value of a formula such as ``"0.5 if t < 100 else damage * level"`` (`sb3_pvp.schedules.language`).

    A name stands for, in this order: the time ``t``, a substitution, a variable of the call, a default. Substitutions
    are schedules, evaluated at the same ``t`` without variables, once per call. Variables may be NumPy arrays; then
    the formula is evaluated element by element, and each element draws its own random numbers.

    `random` and `normal` draw from NumPy's global generator, anew at every call. SB3's ``set_random_seed`` seeds it,
    so that runs with a seed repeat. `sb3_pvp.schedules.drawing_from` gives them another generator.
    """

    expression: Annotated[str, Kind[str](str, "a string")]
    substitutions: Annotated[Mapping[str, Schedule], _OBJECT] = field(default_factory=dict)
    defaults: Annotated[Mapping[str, Any], _OBJECT] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        parsed = {name: as_schedule(schedule) for name, schedule in self.substitutions.items()}
        object.__setattr__(self, "substitutions", parsed)
        object.__setattr__(self, "defaults", dict(self.defaults))
        try:
            parse_formula(self.expression)
        except ValueError as error:
            raise ValueError(f"expression {shorten(self.expression, 80)!r}: {error}") from error

    def __call__(self, t: float, **variables: Any) -> Any:
        """The value after ``t`` roll-outs.

        Raises `ValueError` for a name that stands for nothing, an undefined operation on single numbers such as a
        division by zero, and more than 100 evaluated parts. In arrays undefined elements are infinite or NaN.
        """
        substituted = {name: schedule(t) for name, schedule in self.substitutions.items()}
        names = {**self.defaults, **variables, **substituted, "t": t}
        try:
            return Evaluation(names, variables).run(parse_formula(self.expression))
        except (ValueError, TypeError, ArithmeticError) as error:
            raise ValueError(f"expression {shorten(self.expression, 80)!r} at t = {t}: {error.args[-1]}") from error
