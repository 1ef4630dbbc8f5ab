"""What values may be, by kind: what is of another kind is one clear line, before anything changes."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cached_property, wraps
from typing import Annotated, Any, Generic, TypeVar, cast, get_args, get_type_hints

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    InstanceOf,
    TypeAdapter,
    ValidationError,
    validate_call,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from sb3_pvp.common.names import did_you_mean, require_all_known

T = TypeVar("T")
Init = TypeVar("Init", bound=Callable[..., None])
Model = TypeVar("Model", bound=BaseModel)
#: How pydantic says that a name is unknown, or that one is missing.
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
_MISSING = ("missing", "missing_argument", "missing_keyword_only_argument")


class Kind(Generic[T]):
    """Values of one kind; as ``Annotated[type, kind]`` those of an argument, see `checked`.

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
        except ValidationError as error:
            unknown = error.errors()[0]["type"] in _UNKNOWN
            why = f": {first_error(error, 'it', of=self._hint)}" if unknown else ""
            raise ValueError(f"{what} must be {self._words}, got {value!r}{when}{why}") from None

    def fits(self, value: object) -> bool:
        """Whether the value is of this kind."""
        try:
            self.read("", value)
        except ValueError:
            return False
        return True

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        def validate(value: object) -> T:
            if self.fits(value):
                return self.read("", value)
            raise PydanticCustomError("kind", "must be {words}", {"words": self._words})

        return core_schema.no_info_plain_validator_function(validate)

    @cached_property
    def _type(self) -> TypeAdapter[T]:
        return TypeAdapter(self._hint)


INTEGER = Kind[int](int, "an integer")
POSITIVE = Kind[int](Annotated[int, Field(gt=0)], "a positive integer")
COUNT = Kind[int](Annotated[int, Field(ge=0)], "a non-negative integer")
NUMBER = Kind[float](FiniteFloat, "a finite number")
SHARE = Kind[float](Annotated[float, Field(ge=0, le=1)], "a number from 0 to 1")
AT_LEAST_0 = Kind[float](Annotated[FiniteFloat, Field(ge=0)], "a number of at least 0")
AT_LEAST_1 = Kind[float](Annotated[FiniteFloat, Field(ge=1)], "a number of at least 1")
ABOVE_0 = Kind[float](Annotated[FiniteFloat, Field(gt=0)], "a positive number")
FLAG = Kind[bool](bool, "true or false")
TEXT = Kind[str](str, "a text")
SEED = Kind[int | None](Annotated[int, Field(ge=0)] | None, "a non-negative integer or None")
#: These two may be left out.
PATH = Kind[Any](str | InstanceOf[os.PathLike] | None, "a path")  # type: ignore[type-arg]
MAPPING = Kind[Any](InstanceOf[Mapping] | None, "a mapping")  # type: ignore[type-arg]

PositiveInt = Annotated[int, POSITIVE]
NonNegativeInt = Annotated[int, COUNT]
FiniteNumber = Annotated[float, NUMBER]
Share = Annotated[float, SHARE]
NonNegative = Annotated[float, AT_LEAST_0]
Positive = Annotated[float, ABOVE_0]
Flag = Annotated[bool, FLAG]
OptionalPath = Annotated[str | os.PathLike[str] | None, PATH]
OptionalMapping = Annotated[Mapping[str, Any] | None, MAPPING]
Seed = Annotated[int | None, SEED]


def checked(init: Init) -> Init:
    """Lets a constructor refuse unknown arguments, and values that its annotations do not allow.

    That is a `ValueError` of one line with the nearest name. Numbers of NumPy are those of Python then; annotations
    must be names that are there when the program runs.
    """
    names = [*inspect.signature(init).parameters]
    owner = init.__qualname__.partition(".")[0]
    config = ConfigDict(arbitrary_types_allowed=True, strict=True, allow_inf_nan=False, defer_build=True)
    read = validate_call(config=config)(init)

    @wraps(init)
    def checking(self: Any, *args: Any, **kwargs: Any) -> None:
        if len(args) >= len(names):
            raise ValueError(f"{owner} takes at most {len(names) - 1} arguments, got {len(args)}")
        given = {**dict(zip(names[1:], args, strict=False)), **kwargs}
        require_all_known(f"argument of {owner}", given, names[1:])
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}
        try:
            read(self, **plain)
        except ValidationError as error:
            raise ValueError(first_error(error, owner)) from None

    return cast("Init", checking)


def read_model(model: type[Model], values: Mapping[str, Any], what: str) -> Model:
    """The model of these values by alias; `ValueError`, about a ``what``, for unknown, missing and impossible ones."""
    require_all_known(what, values, [field.alias or name for name, field in model.model_fields.items()])
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ValueError(f"{what} {first_error(error, of=model)}") from error


def first_error(error: ValidationError, top: str = "the top", skip: int = 0, of: Any = None) -> str:
    """The first thing that pydantic found to be wrong, in one line.

    ``skip`` parts of its place are left out. With ``of``, the type that should have come out, an unknown name is
    followed by the nearest one.
    """
    first = error.errors(include_url=False, include_context=False)[0]
    *parents, last = path = first["loc"][skip:] or ("",)
    name, place = _place(path) or top, _place(parents) or top
    if first["type"] in _MISSING:
        return f"{place} is without {last}"
    if first["type"] in _UNKNOWN:
        return f"{place} is with unknown {last}{did_you_mean(last, _names(of, parents))}"
    return f"{name} {first['msg'].replace('Input should', 'should')}, got {first['input']!r:.60}"


def _place(path: Sequence[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def _names(kind: Any, path: Sequence[int | str]) -> set[str]:
    """What the fields of the model or dataclass are called that has this place in a value of this type."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fields = {field.alias or name: field.annotation for name, field in kind.model_fields.items()}
    elif is_dataclass(kind):
        fields = get_type_hints(kind)
    else:  # lists and mappings have a part of the place, and unions may have one
        return {name for part in get_args(kind) for rest in (path, path[1:]) for name in _names(part, rest)}
    return _names(fields.get(str(path[0])), path[1:]) if path else {*fields}
