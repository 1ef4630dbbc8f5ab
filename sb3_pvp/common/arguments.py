"""Validation of arguments with pydantic, with errors of one clear line."""

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
#: pydantic's types of errors for unknown and for missing names.
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
_MISSING = ("missing", "missing_argument", "missing_keyword_only_argument")


class Kind(Generic[T]):
    """A type with a description for error messages, used as ``Annotated[type, kind]`` or by its methods.

    Args:
        hint: the type for pydantic, in strict mode: a bool or string is not a number, but NumPy numbers are.
        words: the description, as in "gamma must be ...".
    """

    def __init__(self, hint: Any, words: str) -> None:
        self._hint, self._words = hint, words

    def check(self, **arguments: object) -> None:
        """Raises `ValueError` unless all arguments are of this kind."""
        for name, value in arguments.items():
            self.read(name, value)

    def read(self, what: str, value: object, when: str = "") -> T:
        """Returns the value, NumPy numbers as Python's; raises `ValueError` about ``what`` if it is of another kind."""
        try:
            return self._type.validate_python(value.item() if isinstance(value, np.generic) else value, strict=True)
        except ValidationError as error:
            unknown = error.errors()[0]["type"] in _UNKNOWN
            why = f": {first_error(error, 'it', of=self._hint)}" if unknown else ""
            raise ValueError(f"{what} must be {self._words}, got {value!r}{when}{why}") from None

    def fits(self, value: object) -> bool:
        """Returns whether the value is of this kind."""
        try:
            self.read("", value)
        except ValueError:
            return False
        return True

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        def validate(value: object) -> T:
            if self.fits(value):
                return self.read("", value)
            # Raised here, because pydantic would put "Value error, " in front of the message of a ValueError.
            raise PydanticCustomError("kind", "must be {words}", {"words": self._words})

        return core_schema.no_info_plain_validator_function(validate)

    @cached_property
    def _type(self) -> TypeAdapter[T]:  # on first use, so that importing this module builds no validators
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
TEXT = Kind[str](str, "a string")
SEED = Kind[int | None](Annotated[int, Field(ge=0)] | None, "a non-negative integer or None")
# These two also accept None, for optional arguments.
PATH = Kind[Any](str | InstanceOf[os.PathLike] | None, "a path")  # type: ignore[type-arg]
MAPPING = Kind[Any](InstanceOf[Mapping] | None, "a mapping")  # type: ignore[type-arg]

PositiveInt = Annotated[int, POSITIVE]
NonNegativeInt = Annotated[int, COUNT]
Share = Annotated[float, SHARE]
NonNegative = Annotated[float, AT_LEAST_0]
Positive = Annotated[float, ABOVE_0]
Flag = Annotated[bool, FLAG]
OptionalPath = Annotated[str | os.PathLike[str] | None, PATH]
OptionalMapping = Annotated[Mapping[str, Any] | None, MAPPING]
Seed = Annotated[int | None, SEED]


def checked(init: Init) -> Init:
    """Decorates a constructor so that it validates its arguments against their annotations.

    Unknown names, with the nearest known one, and invalid values raise a `ValueError` of one line. NumPy numbers are
    converted to Python's. All annotations must be importable at run time, not only under ``TYPE_CHECKING``.
    """
    names = [*inspect.signature(init).parameters]
    owner = init.__qualname__.partition(".")[0]
    # `defer_build`: the annotations are resolved at the first call, when all modules are imported.
    config = ConfigDict(arbitrary_types_allowed=True, strict=True, allow_inf_nan=False, defer_build=True)
    read = validate_call(config=config)(init)

    @wraps(init)
    def checking(self: Any, *args: Any, **kwargs: Any) -> None:
        if len(args) >= len(names):  # names[0] is self
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
    """Returns a model of ``values`` by alias; raises `ValueError`, about a ``what``, if they are invalid."""
    require_all_known(what, values, [field.alias or name for name, field in model.model_fields.items()])
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ValueError(f"{what} {first_error(error, 'mapping', of=model)}") from error


def first_error(error: ValidationError, top: str = "the top level", skip: int = 0, of: Any = None) -> str:
    """Returns the first error that pydantic found, in one line.

    ``top`` is what to call the validated value itself; ``skip`` leading parts of the location are left out; with
    ``of``, the expected type, the nearest known name follows an unknown one.
    """
    first = error.errors(include_url=False, include_context=False)[0]
    *parents, last = path = first["loc"][skip:] or ("",)
    name, place = _place(path) or top, _place(parents) or top
    if first["type"] in _MISSING:
        return f"{place} lacks {last!r}"
    if first["type"] in _UNKNOWN:
        return f"{place} has an unknown field {last!r}{did_you_mean(last, _names(of, parents))}"
    return f"{name} {first['msg'].replace('Input should', 'should')}, got {first['input']!r:.60}"


def _place(path: Sequence[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def _names(kind: Any, path: Sequence[int | str]) -> set[str]:
    """Returns the field names of the model or dataclass at this path inside the type ``kind``."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fields = {field.alias or name: field.annotation for name, field in kind.model_fields.items()}
    elif is_dataclass(kind):
        fields = get_type_hints(kind)
    else:  # a container consumes one part of the path; pydantic adds a part for some unions, but not for all
        return {name for part in get_args(kind) for rest in (path, path[1:]) for name in _names(part, rest)}
    return _names(fields.get(str(path[0])), path[1:]) if path else {*fields}
