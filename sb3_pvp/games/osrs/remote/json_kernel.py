"""Compiled code that writes the rows of a world's arrays as JSON.

`orjson` knows no rows of integers and fractions mixed and no records, and takes three times as long by way of lists and
dictionaries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., object])


def _compiled(function: Function) -> Function:
    # All of the code is in this file, so the cache on disk knows when it is out of date.
    return cast(Function, numba.njit(cache=True, error_model="numpy", nogil=True)(function))


#: Numbers ``(n, columns)``, masks ``(n, flat actions)``, and records as bytes ``(n, size of a record)``.
Arrays = tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.uint8]]

#: Whether a column of the numbers holds integers, which are written without a point; where the heads end in a mask; the
#: fields of a record, ints ``(fields, 5)``; all names of fields, each as ``,"name":``.
Tables = tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]
#: The columns of the table of fields: where its name is among the names; where its value is in the record; its kind;
#: where the flag is that says whether there is a value (``ALWAYS``: there is one).
NAME_START, NAME_END, OFFSET, KIND, FLAG = range(5)
ALWAYS = -1
#: How the value is stored, and so how it is written.
FLOAT, INT, SHORT, BOOL, STYLE = range(5)
#: The kinds by the type of the field; combat styles (`Style` numbers) are shorts as well.
KINDS = {"f4": FLOAT, "i4": INT, "i1": SHORT, "b1": BOOL}

#: Upper bounds of the bytes that a number (sign, 16 digits, point, `_MOST_DECIMALS`, comma) and a flag take.
_NUMBER_SIZE, _FLAG_SIZE = 34, 6
_MOST_DECIMALS = 15
_LARGEST = 2.0**53
_COMMA, _MINUS, _POINT, _ZERO, _OPEN, _CLOSE, _BRACE = (ord(letter) for letter in ",-.0[]{")
_TRUE, _FALSE = np.frombuffer(b"true", np.uint8), np.frombuffer(b"false", np.uint8)
_MELEE, _RANGED = np.frombuffer(b'"MELEE"', np.uint8), np.frombuffer(b'"RANGED"', np.uint8)
_MAGIC, _NO_STYLE = np.frombuffer(b'"MAGIC"', np.uint8), np.frombuffer(b'"null"', np.uint8)


def max_row_size(tables: Tables) -> int:
    """An upper bound of the bytes that `write` needs for a row of each of its arrays."""
    is_int, head_ends, fields, names = tables
    num_flags = int(head_ends[-1])
    brackets_of_heads = 2 * num_flags
    return (len(is_int) + len(fields)) * _NUMBER_SIZE + num_flags * _FLAG_SIZE + brackets_of_heads + names.size + 8


@_compiled
def _put(out: NDArray[np.uint8], at: int, text: NDArray[np.uint8]) -> int:
    for index in range(text.size):
        out[at + index] = text[index]
    return at + text.size


@_compiled
def _put_digits(out: NDArray[np.uint8], at: int, number: int, size: int) -> int:
    for index in range(at + size - 1, at - 1, -1):
        out[index] = _ZERO + number % 10
        number //= 10
    return at + size


@_compiled
def _put_integer(out: NDArray[np.uint8], at: int, number: int) -> int:
    if number < 0:
        out[at] = _MINUS
        at, number = at + 1, -number
    if number < 10:
        out[at] = _ZERO + number
        return at + 1
    size, rest = 1, number // 10
    while rest > 0:
        size, rest = size + 1, rest // 10
    return _put_digits(out, at, number, size)


@_compiled
def _require_finite(number: np.float32) -> np.float32:
    if not abs(number) < _LARGEST:
        raise ValueError("a number is too large for the wire, or is none")
    return number


@_compiled
def _put_fraction(out: NDArray[np.uint8], at: int, number: np.float32) -> int:
    """The fewest decimals, but at least one, that are read as this number."""
    number = _require_finite(number)
    if number < 0:
        out[at] = _MINUS
        at, number = at + 1, -number
    whole = int(number)
    at = _put_integer(out, at, whole)
    out[at] = _POINT
    if whole == number:
        return _put_digits(out, at + 1, 0, 1)
    decimals, power = 1, 10.0
    digits = np.floor(number * power + 0.5)
    while np.float32(digits / power) != number and decimals < _MOST_DECIMALS:
        decimals, power = decimals + 1, power * 10
        digits = np.floor(number * power + 0.5)
    return _put_digits(out, at + 1, int(digits) - whole * int(power), decimals)


@_compiled
def _put_numbers(out: NDArray[np.uint8], at: int, numbers: NDArray[np.float32], is_int: NDArray[np.bool_]) -> int:
    out[at] = _OPEN
    for column in range(numbers.size):
        if is_int[column]:
            at = _put_integer(out, at + 1, int(_require_finite(numbers[column])))
        else:
            at = _put_fraction(out, at + 1, numbers[column])
        out[at] = _COMMA
    out[at] = _CLOSE
    return at + 1


@_compiled
def _put_mask(out: NDArray[np.uint8], at: int, mask: NDArray[np.bool_], head_ends: NDArray[np.int64]) -> int:
    out[at] = _OPEN
    at += 1
    entry = 0
    for end in head_ends:
        out[at] = _OPEN
        while entry < end:
            at = _put(out, at + 1, _TRUE) if mask[entry] else _put(out, at + 1, _FALSE)
            out[at] = _COMMA
            entry += 1
        out[at], out[at + 1] = _CLOSE, _COMMA
        at += 2
    out[at - 1] = _CLOSE
    return at


@_compiled
def _put_style(out: NDArray[np.uint8], at: int, style: int) -> int:
    if style == 0:
        return _put(out, at, _MELEE)
    if style == 1:
        return _put(out, at, _RANGED)
    return _put(out, at, _MAGIC if style == 2 else _NO_STYLE)


@_compiled
def _put_value(out: NDArray[np.uint8], at: int, record: NDArray[np.uint8], offset: int, kind: int) -> int:
    if kind == FLOAT:
        return _put_fraction(out, at, record[offset : offset + 4].view(np.float32)[0])
    if kind == INT:
        return _put_integer(out, at, int(record[offset : offset + 4].view(np.int32)[0]))
    if kind == SHORT:
        return _put_integer(out, at, int(np.int8(record[offset])))
    if kind == STYLE:
        return _put_style(out, at, int(np.int8(record[offset])))
    return _put(out, at, _TRUE if record[offset] else _FALSE)


@_compiled
def _put_record(
    out: NDArray[np.uint8],
    at: int,
    record: NDArray[np.uint8],
    fields: NDArray[np.int64],
    names: NDArray[np.uint8],
) -> int:
    start = at
    for field in fields:
        is_there = field[FLAG] == ALWAYS or record[field[FLAG]]
        # Where there need not be a value, no style is no value.
        if is_there and (field[FLAG] == ALWAYS or field[KIND] != STYLE or np.int8(record[field[OFFSET]]) >= 0):
            at = _put(out, at, names[field[NAME_START] : field[NAME_END]])
            at = _put_value(out, at, record, field[OFFSET], field[KIND])
    out[start] = _BRACE  # instead of the first comma
    return at


@_compiled
def write(
    is_int: NDArray[np.bool_],
    head_ends: NDArray[np.int64],
    fields: NDArray[np.int64],
    names: NDArray[np.uint8],
    numbers: NDArray[np.float32],
    masks: NDArray[np.bool_],
    records: NDArray[np.uint8],
    rows: NDArray[np.int64],
    num_records: int,
    out: NDArray[np.uint8],
    ends: NDArray[np.int64],
) -> None:
    """Writes ``rows`` of three arrays into ``out``, one after the other, and into ``ends`` where each text ends: first
    the numbers of all of these rows, as arrays, then the masks of all, as arrays with an array for each head, and at
    last the records of the first ``num_records`` rows, as objects without their closing brace. The arguments begin with
    `Tables` and `Arrays`.

    Raises `ValueError` for a number that is not between -2**53 and 2**53.
    """
    at, count = 0, rows.size
    for k in range(count):
        at = _put_numbers(out, at, numbers[rows[k]], is_int)
        ends[k] = at
    for k in range(count):
        at = _put_mask(out, at, masks[rows[k]], head_ends)
        ends[count + k] = at
    for k in range(num_records):
        at = _put_record(out, at, records[rows[k]], fields, names)
        ends[2 * count + k] = at
