"""The schedule that evaluates a user's formula, and the language of formulas (training.md §9)."""

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
from sb3_pvp.common.errors import unknown_name
from sb3_pvp.common.schedules.schedule import Schedule, as_schedule

#: The most nodes of the syntax tree that one call may evaluate; operators and function names do not count.
NODE_BUDGET = 100
_MAX_LENGTH = 10_000  # characters of a formula
_MAX_POWER_BITS = 1024  # the largest float is just below 2 ** 1024
_MAX_DIGITS = 300  # of round(), in either direction: floats end near 1e308

_OBJECT = Kind[Any](InstanceOf[Mapping], "an object")  # type: ignore[type-arg]


@dataclass(frozen=True)
class Expression(Schedule, kind="expression"):
    """Evaluates a formula such as ``"0.5 if t < 100 else damage * level"``.

    A name is looked up in this order: the time ``t``, substitutions, variables of the call, defaults. Substitutions are
    schedules, evaluated at the same ``t`` once per call, without variables. If variables are NumPy arrays, the formula
    is evaluated element-wise, with separate random numbers for each element.

    ``random()`` and ``normal(mean, deviation)`` use NumPy's global generator, which SB3's ``set_random_seed`` seeds, or
    the one that is set with `sb3_pvp.common.schedules.sampling_from`.
    """

    expression: Annotated[str, Kind[str](str, "a string")]
    substitutions: Annotated[Mapping[str, Schedule], _OBJECT] = field(default_factory=dict)
    defaults: Annotated[Mapping[str, Any], _OBJECT] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        parsed = {name: as_schedule(schedule) for name, schedule in self.substitutions.items()}
        object.__setattr__(self, "substitutions", parsed)  # the only way to set a field of a frozen dataclass
        object.__setattr__(self, "defaults", dict(self.defaults))
        parse_formula(self.expression)

    def __call__(self, t: float, **variables: Any) -> Any:
        """Returns the value after ``t`` rollouts; undefined elements of arrays are infinite or NaN.

        Raises `ValueError` for unknown names, undefined operations on single numbers and more than `NODE_BUDGET` nodes.
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
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * exponent > _MAX_POWER_BITS:
        base = float(base)  # overflows at once, where 9 ** 9 ** 9 as an integer would take all memory and time
    value = base**exponent
    if isinstance(value, complex):
        raise ValueError(f"{base} ** {exponent} is not a real number")
    return value


def _round(value: Any, digits: Any = None) -> Any:
    if digits is not None and not (isinstance(digits, int) and abs(digits) <= _MAX_DIGITS):
        raise ValueError(f"the digits of round() must be an integer, at most {_MAX_DIGITS}, got {digits!r}")
    return np.round(value, digits or 0) if _is_array(value) else round(value, digits)


def _overloaded(scalar: Callable[..., Any], elementwise: Callable[..., Any]) -> Callable[..., Any]:
    """Combines a function of numbers, which raises where it is undefined, with one of arrays, which does not."""

    def function(*arguments: Any) -> Any:
        return (elementwise if any(map(_is_array, arguments)) else scalar)(*arguments)

    return function


# A context variable, so that threads with different generators do not disturb each other. The default is NumPy's
# global generator: SB3 seeds it, and a schedule has no state to save then.
_GENERATOR: ContextVar[Any] = ContextVar("generator", default=np.random)


@contextmanager
def sampling_from(source: Any) -> Iterator[None]:
    """Makes formulas in the ``with`` block use this generator: ``random(size)`` and ``normal(loc, scale, size)``.

    If it returns arrays, such as one number per fight, the formula is evaluated element-wise.
    """
    token = _GENERATOR.set(source)
    try:
        yield
    finally:
        _GENERATOR.reset(token)


def _normal(shape: tuple[int, ...], mean: Any, deviation: Any) -> Any:
    shape = np.broadcast_shapes(shape, np.shape(mean), np.shape(deviation))
    return _GENERATOR.get().normal(mean, deviation, shape or None)  # a number, not an array (), for the shape ()


_MATH_FUNCTIONS = ("sin", "cos", "log", "log10", "log2")
_smaller, _larger = _overloaded(min, np.minimum), _overloaded(max, np.maximum)
#: The functions of the language: the smallest and largest number of arguments, and the implementation. That of
#: `random` and `normal` gets the shape of the variables as an additional first argument.
FUNCTIONS: dict[str, tuple[int, int, Callable[..., Any]]] = {
    "min": (2, NODE_BUDGET, lambda *values: reduce(_smaller, values)),
    "max": (2, NODE_BUDGET, lambda *values: reduce(_larger, values)),
    "round": (1, 2, _round),
    "abs": (1, 1, abs),
    **{each: (1, 1, _overloaded(getattr(math, each), getattr(np, each))) for each in _MATH_FUNCTIONS},
    "random": (0, 0, lambda shape: _GENERATOR.get().random(shape or None)),
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
#: Allowed nodes besides constants. Formulas are never passed to `eval`: they are parsed, and `_evaluate` walks them.
_NODES = (ast.Name, ast.BinOp, ast.UnaryOp, ast.USub, ast.Compare, ast.IfExp, ast.Call, ast.Load, *_OPERATORS)


@lru_cache(maxsize=256)
def parse_formula(text: str) -> ast.expr:
    """Returns the syntax tree of a formula; `ValueError` for anything that is not in the language."""
    try:
        if len(text) > _MAX_LENGTH:
            raise ValueError(f"longer than {_MAX_LENGTH:,} characters")
        tree = ast.parse(text.strip(), mode="eval").body
        for node in ast.walk(tree):
            _check_node(node)
    # Python's parser raises the last two for deeply nested text.
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        what = str(error) or type(error).__name__
        raise ValueError(f"expression {shorten(text, 80)!r} is not a formula: {what}") from error
    return tree


def _check_node(node: Any) -> None:
    if isinstance(node, ast.Call):
        name = getattr(node.func, "id", "")
        if name not in FUNCTIONS:
            raise ValueError(f"unknown function {ast.unparse(node.func)!r}. Known: {', '.join(FUNCTIONS)}")
        fewest, most, _ = FUNCTIONS[name]
        if node.keywords or not fewest <= len(node.args) <= most:
            expected = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            raise ValueError(f"{name}() takes {expected} arguments, without keywords")
        return
    is_value = isinstance(node, ast.Constant)
    if type(node.value) not in (bool, int, float, str) if is_value else not isinstance(node, _NODES):
        raise ValueError(
            f"{repr(node.value) if is_value else type(node).__name__} is not supported; use numbers, strings, names, "
            f"+ - * / **, comparisons, 'a if c else b' and calls of {', '.join(FUNCTIONS)}"
        )


@lru_cache(maxsize=256)
def names_in(formula: str) -> frozenset[str]:
    """Returns the names in a formula, except those of functions."""
    return frozenset(node.id for node in ast.walk(parse_formula(formula)) if isinstance(node, ast.Name)) - {*FUNCTIONS}


def _evaluate(formula: ast.expr, names: Mapping[str, Any], variables: Mapping[str, Any]) -> Any:
    """Evaluates a tree with the values of ``names``; the arrays in ``variables`` set the shape of random numbers."""
    shape = np.broadcast_shapes(*(value.shape for value in variables.values() if _is_array(value)))
    budget = NODE_BUDGET

    def value_of(node: Any) -> Any:
        nonlocal budget
        budget -= 1
        if budget < 0:
            raise ValueError(f"more than {NODE_BUDGET} nodes to evaluate; make it shorter")
        match node:
            case ast.Constant(value):
                return value
            case ast.Name(name):
                if name not in names:
                    raise ValueError(f"{unknown_name('name', name, sorted(names))}. It may need a value in 'defaults'")
                return _widened(names[name])
            case ast.BinOp(left, operation, right):
                return _OPERATORS[type(operation)](_number(value_of(left)), _number(value_of(right)))
            case ast.UnaryOp(operand=operand):
                return -_number(value_of(operand))
            case ast.Compare(left, operations, others):
                pairs = pairwise([value_of(part) for part in (left, *others)])
                links = zip(operations, pairs, strict=True)
                # `and_`, since Python's own chaining would need the truth value of an array.
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
    """Converts NumPy values to the widest type of their kind: an int8 times 100 would overflow silently."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        return value.astype(float if value.dtype.kind == "f" else np.int64, copy=False)
    return value


def _number(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return value.astype(np.int64) if value.dtype.kind == "b" else value  # True is 1, as in Python
    if isinstance(value, (int, float)):
        return value
    raise TypeError(f"{value!r} is not a number")
