"""The language of expression schedules (training.md §9): what it has, and how its formulas are evaluated.

Numbers, strings, ``True`` and ``False``; names; ``+ - * / **`` and unary minus; comparisons, also chained;
``a if condition else b``; calls of `FUNCTIONS`. Nothing else of Python gets in: a formula is only ever parsed, and
the nodes of its syntax tree are evaluated here, one by one.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sb3_pvp.common.names import unknown_name

#: How many nodes of the syntax tree one call may evaluate; operators and names of functions do not count.
NODE_BUDGET = 100
MAX_LENGTH = 10_000
#: Integers that would get more bits are computed as floats, which overflow at about that size.
_MAX_BITS = 1024


class _Rule(NamedTuple):
    """A function of the language: how many arguments it takes, and what it does with them."""

    fewest: int
    most: int
    call: Callable[..., Any]


def _power(base: Any, exponent: Any) -> Any:
    if _is_array(base) or _is_array(exponent):
        return np.power(np.asarray(base, float), exponent)
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * exponent > _MAX_BITS:
        base = float(base)  # an overflow is found at once; the integer would take forever
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
    """Lets formulas inside the ``with`` block draw from this generator instead of NumPy's global one.

    The source has ``random(size)`` and ``normal(loc, scale, size)`` of NumPy's generators. One that answers with
    arrays, such as one number per fight, makes the formula an element-wise one.
    """
    token = _SOURCE.set(source)
    try:
        yield
    finally:
        _SOURCE.reset(token)


def _random(shape: tuple[int, ...]) -> Any:
    return _SOURCE.get().random(shape or None)


def _normal(shape: tuple[int, ...], mean: Any, deviation: Any) -> Any:
    shape = np.broadcast_shapes(shape, np.shape(mean), np.shape(deviation))
    return _SOURCE.get().normal(mean, deviation, shape or None)


_smaller, _larger = _either(min, np.minimum), _either(max, np.maximum)
FUNCTIONS = {
    "min": _Rule(2, NODE_BUDGET, lambda *values: reduce(_smaller, values)),
    "max": _Rule(2, NODE_BUDGET, lambda *values: reduce(_larger, values)),
    "round": _Rule(1, 2, _round),
    "abs": _Rule(1, 1, abs),
    "sin": _Rule(1, 1, _either(math.sin, np.sin)),
    "cos": _Rule(1, 1, _either(math.cos, np.cos)),
    "log": _Rule(1, 1, _either(math.log, np.log)),
    "log10": _Rule(1, 1, _either(math.log10, np.log10)),
    "log2": _Rule(1, 1, _either(math.log2, np.log2)),
    "random": _Rule(0, 0, _random),
    "normal": _Rule(2, 2, _normal),
}
#: Those that get the shape of the variables as their first argument.
_RANDOM = ("random", "normal")

_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: _power,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


#: What else a formula may consist of.
_PARTS = (ast.Constant, ast.Name, ast.BinOp, ast.UnaryOp, ast.USub, ast.Compare, ast.IfExp, ast.Call, ast.Load)


@lru_cache(maxsize=256)
def parse_formula(text: str) -> ast.expr:
    """The syntax tree of a formula; raises `ValueError` for anything that is not in the language."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"longer than {MAX_LENGTH} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"not a formula ({str(error) or type(error).__name__})") from error
    for node in ast.walk(tree):
        _check(node)
    return tree


def _check(node: ast.AST) -> None:
    match node:
        case ast.Constant(value) if type(value) not in (bool, int, float, str):
            what = repr(value)
        case ast.Call(func) if not isinstance(func, ast.Name) or func.id not in FUNCTIONS:
            raise ValueError(f"{ast.unparse(func)!r} is no function; there are {', '.join(FUNCTIONS)}")
        case ast.Call(ast.Name(name), arguments, keywords):
            rule = FUNCTIONS[name]
            if not keywords and rule.fewest <= len(arguments) <= rule.most:
                return
            expected = "no" if not rule.most else f"{rule.fewest} or more" if rule.most > 2 else rule.most
            raise ValueError(f"{name}() takes {expected} arguments, without keywords")
        case _ if isinstance(node, (*_PARTS, *_OPERATORS)):
            return
        case _:
            what = type(node).__name__
    raise ValueError(
        f"{what} is not in the language, which has numbers, strings, names, + - * / **, comparisons, "
        f"'a if c else b' and calls of {', '.join(FUNCTIONS)}"
    )


class Evaluation:
    """One evaluation of a formula.

    ``names`` are the values of all names; the ``variables`` among them set the shape of random numbers.
    """

    def __init__(self, names: Mapping[str, Any], variables: Mapping[str, Any]) -> None:
        self._names = names
        self._shape = np.broadcast_shapes(*(value.shape for value in variables.values() if _is_array(value)))
        self._budget = NODE_BUDGET

    def run(self, tree: ast.expr) -> Any:
        """The value of the formula: a number, a bool, a string, or an array."""
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            return self._value(tree)

    def _value(self, node: Any) -> Any:
        self._budget -= 1
        if self._budget < 0:
            raise ValueError(f"more than {NODE_BUDGET} evaluated parts; make it shorter")
        match node:
            case ast.Constant(value):
                return value
            case ast.Name(name):
                if name not in self._names:
                    raise ValueError(
                        f"{unknown_name('name', name, sorted(self._names))}. Or give it a value in 'defaults'"
                    )
                return _widened(self._names[name])
            case ast.BinOp(left, operation, right):
                return _OPERATORS[type(operation)](_number(self._value(left)), _number(self._value(right)))
            case ast.UnaryOp(operand=operand):
                return -_number(self._value(operand))
            case ast.Compare(left, operations, others):
                pairs = pairwise([self._value(part) for part in (left, *others)])
                links = zip(operations, pairs, strict=True)
                return reduce(operator.and_, (_OPERATORS[type(link)](*pair) for link, pair in links))
            case ast.IfExp(test, body, otherwise):
                condition = self._value(test)
                if _is_array(condition):
                    return np.where(condition, self._value(body), self._value(otherwise))
                return self._value(body if condition else otherwise)
            case ast.Call(ast.Name(name), arguments):
                values = [_number(self._value(argument)) for argument in arguments]
                return FUNCTIONS[name].call(*([self._shape] if name in _RANDOM else []), *values)
        raise AssertionError("formulas are checked when they are parsed")


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
