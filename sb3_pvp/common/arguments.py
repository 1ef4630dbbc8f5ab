"""What values may be, by kind: what is of another kind is one clear line, before anything changes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Generic, TypeVar

import numpy as np
from pydantic import Field, FiniteFloat, InstanceOf, NonNegativeInt, PositiveInt, TypeAdapter, ValidationError

T = TypeVar("T")


class Kind(Generic[T]):
    """Values of one kind.

    Args:
        hint: their type for pydantic, which is strict about it: a flag or a text is no number, one of NumPy is one.
        words: what they "must be".
    """

    def __init__(self, hint: Any, words: str) -> None:
        self._hint, self._words = hint, words

    def check(self, **arguments: object) -> None:
        """Raises `ValueError` unless all these arguments are of this kind."""
        for name, value in arguments.items():
            self.read(name, value)

    def read(self, what: str, value: object, when: str = "") -> T:
        """The value as one of Python itself; raises `ValueError`, about ``what``, unless it is of this kind."""
        try:
            return self._type.validate_python(value.item() if isinstance(value, np.generic) else value, strict=True)
        except ValidationError:
            raise ValueError(f"{what} must be {self._words}, got {value!r}{when}") from None

    def fits(self, value: object) -> bool:
        """Whether the value is of this kind."""
        try:
            self.read("", value)
        except ValueError:
            return False
        return True

    @cached_property
    def _type(self) -> TypeAdapter[T]:
        return TypeAdapter(self._hint)


INTEGER = Kind[int](int, "an integer")
POSITIVE = Kind[int](PositiveInt, "a positive integer")
COUNT = Kind[int](NonNegativeInt, "a non-negative integer")
NUMBER = Kind[float](FiniteFloat, "a finite number")
SHARE = Kind[float](Annotated[float, Field(ge=0, le=1)], "a number from 0 to 1")
AT_LEAST_0 = Kind[float](Annotated[FiniteFloat, Field(ge=0)], "a number of at least 0")
AT_LEAST_1 = Kind[float](Annotated[FiniteFloat, Field(ge=1)], "a number of at least 1")
ABOVE_0 = Kind[float](Annotated[FiniteFloat, Field(gt=0)], "a positive number")
FLAG = Kind[bool](bool, "true or false")
TEXT = Kind[str](str, "a text")
#: These two may be left out.
PATH = Kind[Any](str | InstanceOf[os.PathLike] | None, "a path")  # type: ignore[type-arg]
MAPPING = Kind[Any](InstanceOf[Mapping] | None, "a mapping")  # type: ignore[type-arg]


def first_error(error: ValidationError, top: str = "the top", skip: int = 0) -> str:
    """The first thing that pydantic found to be wrong, in one line; ``skip`` parts of its place are left out."""
    first = error.errors(include_url=False, include_context=False)[0]
    *parents, last = path = first["loc"][skip:] or ("",)
    name, place = _place(path) or top, _place(parents) or top
    if first["type"] == "missing":
        return f"{place} is without {last}"
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"{place} is with unknown {last}"
    return f"{name} {first['msg'].replace('Input should', 'should')}, got {first['input']!r:.60}"


def _place(path: Sequence[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
