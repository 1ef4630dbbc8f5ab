"""Validation of arguments with pydantic, with errors of one clear line."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, cached_property, wraps
from itertools import islice
from typing import Annotated, Any, Generic, TypeVar, cast
from urllib.parse import parse_qsl

import numpy as np
import orjson
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

from sb3_pvp.common.errors import UNKNOWN_FIELD, Refusal, first_error, refusals, require_all_known

T = TypeVar("T")
Init = TypeVar("Init", bound=Callable[..., None])
Model = TypeVar("Model", bound=BaseModel)


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
            unknown = error.errors()[0]["type"] in UNKNOWN_FIELD
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
MAX_FRAME_AGE = 255  #: In ticks; so many frames of each fighter are kept in every fight.
AGE = Kind[int](Annotated[int, Field(ge=0, le=MAX_FRAME_AGE)], f"an age in ticks from 0 to {MAX_FRAME_AGE}")
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
FrameAge = Annotated[int, AGE]
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


def split_parameters(text: str, example: str) -> tuple[str, dict[str, str]]:
    """Returns name and parameters of ``name?key=value&key=value``; raises `ValueError`, with an example."""
    name, _, query = text.partition("?")
    try:
        given = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError as error:
        raise ValueError(f"{text!r} has parameters that cannot be read: write {example}") from error
    if len(dict(given)) < len(given):
        raise ValueError(f"{text!r} gives a parameter twice")
    return name, dict(given)


def check_seed(seed: object) -> int | None:
    """Returns the seed as a Python integer or ``None``; raises `ValueError` if it is anything else or negative."""
    return SEED.read("a seed", seed)


def check_frame_ages(frame_ages: int | Iterable[Any]) -> tuple[int, ...]:
    """Returns the ages in ascending order; a number n means the n newest frames (training.md §11).

    Raises `ValueError` unless they are distinct integers from 0 to `MAX_FRAME_AGE`, at least one.
    """
    given = range(COUNT.read("", frame_ages)) if COUNT.fits(frame_ages) else frame_ages
    ages = tuple(islice(given, MAX_FRAME_AGE + 2)) if isinstance(given, Iterable) else ()
    if not ages or not all(map(AGE.fits, ages)) or len(set(ages)) != len(ages):
        raise ValueError(
            "frame_ages must be distinct non-negative integers such as (0, 1, 2), where 0 is the newest frame, "
            f"of at most {MAX_FRAME_AGE}, or a positive number of frames, got {frame_ages!r:.100}"
        )
    return tuple(sorted(int(age) for age in ages))


def check_mask(mask: Any) -> None:
    """Raises `ValueError` for an action mask with other values than 0 and 1."""
    values = np.asarray(mask)
    if values.itemsize == 1:  # as environments have them: comparing arrays would take 5 % of the time of a `predict`
        given = values.tobytes()
        if given.count(0) + given.count(1) == len(given):
            return
    if (wrong := values[values != values.astype(np.bool_)]).size:
        raise ValueError(
            f"an action mask is 0 or 1, but this one has {wrong[0]:.3g}: some wrapper rescales it, such as "
            "VecNormalize, which must leave observations alone (norm_obs=False)"
        )


DECIMALS = 4  #: To which floats are rounded, for small files.

_T = TypeVar("_T")


def to_plain(value: Any) -> Any:
    """Converts dataclasses, mappings and sequences to dictionaries, lists, strings and rounded numbers.

    Fields with their default value are left out. `from_plain` is the inverse, apart from the rounding.
    """
    if is_dataclass(value) and not isinstance(value, type):
        given = {field: getattr(value, field.name) for field in fields(value)}
        return {field.name: to_plain(own) for field, own in given.items() if own != _default(field)}
    if isinstance(value, Mapping):
        return {key: to_plain(own) for key, own in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(own) for own in value]
    return round(value, DECIMALS) if isinstance(value, float) else value


def as_written(value: Any, digits: int = 12) -> Any:
    """Returns numbers, also in mappings and lists, as people write them: 0.005 for 1 - 0.995, and 4000000 for 4e6."""
    if isinstance(value, Mapping):
        return {key: as_written(own, digits) for key, own in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_written(own, digits) for own in value]
    if not isinstance(value, float):
        return value
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) >= 1000 else rounded


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def from_plain(kind: type[_T], value: Any) -> _T:
    """Returns the value of class ``kind`` that `to_plain` converted; `ValueError`, with the location, if invalid."""
    try:
        # From JSON text: pydantic's strict mode accepts a list for a tuple only there.
        return _reader(kind).validate_json(orjson.dumps([value]), strict=True)[0]  # type: ignore[no-any-return, arg-type]
    except ValidationError as error:
        raise ValueError(first_error(error, skip=1, of=kind)) from None
    except TypeError as error:  # of orjson: a number of more than 64 bits, or too many lists in lists
        raise ValueError(str(error)) from None


@cache
def _reader(kind: type[Any]) -> TypeAdapter[Any]:
    # In a list, because pydantic accepts no config for a dataclass itself.
    return TypeAdapter(list[kind], config=ConfigDict(extra="forbid"))  # type: ignore[valid-type]


def json_object(text: str | None, option: str) -> dict[str, Any]:
    """Parses the value of an option that takes a JSON object, by default ``{}``; raises `Refusal` for anything else."""
    with refusals(about=f"{option} is not valid JSON"):
        value = json.loads(text or "{}")
    if not isinstance(value, dict):
        raise Refusal(f"{option} must be a JSON object such as '{{\"name\": 1}}'")
    return value
