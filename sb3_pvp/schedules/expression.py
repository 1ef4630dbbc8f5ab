"""The schedule that evaluates a formula which a user wrote down, and the language of formulas (training.md §9)."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import pairwise
from operator import add, and_, eq, ge, gt, le, lt, mul, ne, sub, truediv
from textwrap import shorten
from typing import Annotated, Any

import numpy as np
from pydantic import InstanceOf

from sb3_pvp.common.arguments import Kind
from sb3_pvp.common.names import unknown_name
from sb3_pvp.schedules.base import Schedule, as_schedule

#: How many nodes of the syntax tree one call may evaluate; operators and names of functions do not count.
NODE_BUDGET = 100

_OBJECT = Kind[Any](InstanceOf[Mapping], "an object")  # type: ignore[type-arg]


@dataclass(frozen=True)
class Expression(Schedule, kind="expression"):
    """The value of a formula such as ``"0.5 if t < 100 else damage * level"``.

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
        parse_formula(self.expression)

    def __call__(self, t: float, **variables: Any) -> Any:
        """The value after ``t`` rollouts; in arrays undefined elements are infinite or NaN.

        `ValueError` for unknown names, undefined operations on single numbers and more than 100 evaluated parts.
        """
        substituted = {name: schedule(t) for name, schedule in self.substitutions.items()}
        names = {**self.defaults, **variables, **substituted, "t": t}
        try:
            return _evaluate(parse_formula(self.expression), names, variables)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise ValueError(f"expression {shorten(self.expression, 80)!r} at t = {t}: {error.args[-1]}") from error


def _power(base: Any, exponent: Any) -> Any:
    if _is_array(base) or _is_array(exponent):
        return np.power(np.asarray(base, float), exponent)
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * exponent > 1024:
        base = float(base)  # an overflow, at about that many bits, is found at once; the integer would take forever
    value = base**exponent
    if isinstance(value, complex):
        raise ValueError(f"{base} ** {exponent} is no real number")
    return value


def _round(value: Any, digits: Any = None) -> Any:
    if digits is not None and not (isinstance(digits, int) and abs(digits) <= 300):
        raise ValueError(f"round() takes a whole number of digits, got {digits!r}")
    return np.round(value, digits or 0) if _is_array(value) else round(value, digits)


def _either(scalar: Callable[..., Any], elementwise: Callable[..., Any]) -> Callable[..., Any]:
    """The function of single numbers, which raises where it is undefined, or that of arrays, which does not."""

    def function(*arguments: Any) -> Any:
        return (elementwise if any(map(_is_array, arguments)) else scalar)(*arguments)

    return function


# By default the global generator: SB3's `set_random_seed` seeds it, and formulas have none of their own to save.
_SOURCE: ContextVar[Any] = ContextVar("source", default=np.random)


@contextmanager
def drawing_from(source: Any) -> Iterator[None]:
    """Lets formulas inside draw from this generator: ``random(size)`` and ``normal(loc, scale, size)`` as NumPy's.

    One that answers with arrays, such as one number per fight, makes the formula an element-wise one.
    """
    token = _SOURCE.set(source)
    try:
        yield
    finally:
        _SOURCE.reset(token)


def _normal(shape: tuple[int, ...], mean: Any, deviation: Any) -> Any:
    shape = np.broadcast_shapes(shape, np.shape(mean), np.shape(deviation))
    return _SOURCE.get().normal(mean, deviation, shape or None)


_OF_MATH = ("sin", "cos", "log", "log10", "log2")
_smaller, _larger = _either(min, np.minimum), _either(max, np.maximum)
#: The functions of the language: the fewest and the most arguments, and what is called.
FUNCTIONS: dict[str, tuple[int, int, Callable[..., Any]]] = {
    "min": (2, NODE_BUDGET, lambda *values: reduce(_smaller, values)),
    "max": (2, NODE_BUDGET, lambda *values: reduce(_larger, values)),
    "round": (1, 2, _round),
    "abs": (1, 1, abs),
    **{each: (1, 1, _either(getattr(math, each), getattr(np, each))) for each in _OF_MATH},
    "random": (0, 0, lambda shape: _SOURCE.get().random(shape or None)),
    "normal": (2, 2, _normal),
}
_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.Div: truediv,
    ast.Pow: _power,
    ast.Eq: eq,
    ast.NotEq: ne,
    ast.Lt: lt,
    ast.LtE: le,
    ast.Gt: gt,
    ast.GtE: ge,
}
#: What else a formula may consist of: it is only ever parsed, and the nodes of its tree are evaluated one by one.
_PARTS = (ast.Name, ast.BinOp, ast.UnaryOp, ast.USub, ast.Compare, ast.IfExp, ast.Call, ast.Load)


@lru_cache(maxsize=256)
def parse_formula(text: str) -> ast.expr:
    """The syntax tree of a formula; `ValueError` for what is not in the language, such as most of Python."""
    try:
        if len(text) > 10_000:
            raise ValueError("longer than 10,000 characters")
        tree = ast.parse(text.strip(), mode="eval").body
        for node in ast.walk(tree):
            _check(node)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        what = str(error) or type(error).__name__
        raise ValueError(f"expression {shorten(text, 80)!r} is not a formula: {what}") from error
    return tree


def _check(node: Any) -> None:
    if isinstance(node, ast.Call):
        name = getattr(node.func, "id", "")
        if name not in FUNCTIONS:
            raise ValueError(f"{ast.unparse(node.func)!r} is no function; there are {', '.join(FUNCTIONS)}")
        fewest, most, _ = FUNCTIONS[name]
        if node.keywords or not fewest <= len(node.args) <= most:
            expected = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            raise ValueError(f"{name}() takes {expected} arguments, without keywords")
        return
    is_value = isinstance(node, ast.Constant)
    if type(node.value) not in (bool, int, float, str) if is_value else not isinstance(node, (*_PARTS, *_OPERATORS)):
        raise ValueError(
            f"{repr(node.value) if is_value else type(node).__name__} is not in the language, which has numbers, "
            f"strings, names, + - * / **, comparisons, 'a if c else b' and calls of {', '.join(FUNCTIONS)}"
        )


@lru_cache(maxsize=256)
def names_in(formula: str) -> frozenset[str]:
    """The names in a formula, without those of functions."""
    return frozenset(node.id for node in ast.walk(parse_formula(formula)) if isinstance(node, ast.Name)) - {*FUNCTIONS}


def _evaluate(formula: ast.expr, names: Mapping[str, Any], variables: Mapping[str, Any]) -> Any:
    """The value; ``names`` has the values of all names, and ``variables`` the shape of random numbers."""
    shape = np.broadcast_shapes(*(value.shape for value in variables.values() if _is_array(value)))
    budget = NODE_BUDGET

    def value_of(node: Any) -> Any:
        nonlocal budget
        budget -= 1
        if budget < 0:
            raise ValueError(f"more than {NODE_BUDGET} evaluated parts; make it shorter")
        match node:
            case ast.Constant(value):
                return value
            case ast.Name(name):
                if name not in names:
                    raise ValueError(f"{unknown_name('name', name, sorted(names))}. Or give it a value in 'defaults'")
                return _widened(names[name])
            case ast.BinOp(left, operation, right):
                return _OPERATORS[type(operation)](_number(value_of(left)), _number(value_of(right)))
            case ast.UnaryOp(operand=operand):
                return -_number(value_of(operand))
            case ast.Compare(left, operations, others):
                pairs = pairwise([value_of(part) for part in (left, *others)])
                links = zip(operations, pairs, strict=True)
                return reduce(and_, (_OPERATORS[type(link)](*pair) for link, pair in links))
            case ast.IfExp(test, body, otherwise):
                condition = value_of(test)
                if _is_array(condition):
                    return np.where(condition, value_of(body), value_of(otherwise))
                return value_of(body if condition else otherwise)
            case ast.Call(ast.Name(name), arguments):
                values = [_number(value_of(argument)) for argument in arguments]
                return FUNCTIONS[name][2](*([shape] if name in ("random", "normal") else []), *values)
        raise AssertionError("formulas are checked when they are parsed")

    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return value_of(formula)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _widened(value: Any) -> Any:
    """Numbers of NumPy in the widest type of their kind: bytes times 100 would overflow without a word."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        return value.astype(float if value.dtype.kind == "f" else np.int64, copy=False)
    return value


def _number(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return value.astype(np.int64) if value.dtype.kind == "b" else value  # as in Python, True counts 1
    if isinstance(value, (int, float)):
        return value
    raise TypeError(f"{value!r} is no number")
