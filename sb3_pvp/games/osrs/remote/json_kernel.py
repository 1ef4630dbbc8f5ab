"""Compiled code that writes the rows of a world's arrays as JSON.

`orjson` can write neither rows that mix integers and fractions nor records, and takes three times as long by way of
lists and dictionaries.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.compiled import compiled

#: Numbers ``(n, columns)``, masks ``(n, flat actions)``, and records as bytes ``(n, size of a record)``.
Arrays = tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.uint8]]

#: Whether each column of the numbers holds integers, which are written without a point; the ends of the heads in a
#: mask; the table of the fields of a record, ints ``(fields, 5)``; the names of the fields, each as ``,"name":``.
Tables = tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]
#: Columns of the table of fields: start and end of the name in the names; offset of the value in the record; its kind;
#: offset of the flag that is false where the field is left out (``ALWAYS``: it never is).
NAME_START, NAME_END, OFFSET, KIND, FLAG = range(5)
ALWAYS = -1
#: Kinds: how a value is stored, and hence written.
FLOAT, INT, SHORT, BOOL, STYLE = range(5)
#: Kinds by the type of a field. Combat styles (`Style` numbers) are stored as shorts, too, so `STYLE` is not here.
KINDS = {"f4": FLOAT, "i4": INT, "i1": SHORT, "b1": BOOL}

#: Maximum bytes of a number (sign, 16 digits, point, `_MOST_DECIMALS`, comma) and of a flag ("false" and a comma).
_NUMBER_SIZE, _FLAG_SIZE = 34, 6
_MOST_DECIMALS = 15
#: Up to this a float64, in which numbers are scaled, holds every integer.
_LARGEST = 2.0**53
_COMMA, _MINUS, _POINT, _ZERO, _OPEN, _CLOSE, _BRACE = (ord(letter) for letter in ",-.0[]{")
_TRUE, _FALSE = np.frombuffer(b"true", np.uint8), np.frombuffer(b"false", np.uint8)
_MELEE, _RANGED = np.frombuffer(b'"MELEE"', np.uint8), np.frombuffer(b'"RANGED"', np.uint8)
_MAGIC, _NO_STYLE = np.frombuffer(b'"MAGIC"', np.uint8), np.frombuffer(b'"null"', np.uint8)


def max_row_size(tables: Tables) -> int:
    """Returns an upper bound of the bytes that `write` needs for one row of all arrays."""
    is_int, head_ends, fields, names = tables
    num_flags = int(head_ends[-1])
    brackets_of_heads = 2 * num_flags
    return (len(is_int) + len(fields)) * _NUMBER_SIZE + num_flags * _FLAG_SIZE + brackets_of_heads + names.size + 8


@compiled
def _put(out: NDArray[np.uint8], at: int, text: NDArray[np.uint8]) -> int:
    for index in range(text.size):
        out[at + index] = text[index]
    return at + text.size


@compiled
def _put_digits(out: NDArray[np.uint8], at: int, number: int, size: int) -> int:
    for index in range(at + size - 1, at - 1, -1):
        out[index] = _ZERO + number % 10
        number //= 10
    return at + size


@compiled
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


@compiled
def _require_finite(number: np.float32) -> np.float32:
    if not abs(number) < _LARGEST:
        raise ValueError("a number is too large for the wire, or is none")
    return number


@compiled
def _put_fraction(out: NDArray[np.uint8], at: int, number: np.float32) -> int:
    """Writes the fewest decimals, but at least one, that are read back as this number."""
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


@compiled
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


@compiled
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


@compiled
def _put_style(out: NDArray[np.uint8], at: int, style: int) -> int:
    if style == 0:
        return _put(out, at, _MELEE)
    if style == 1:
        return _put(out, at, _RANGED)
    return _put(out, at, _MAGIC if style == 2 else _NO_STYLE)


@compiled
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


@compiled
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
        # An optional style is left out if it is none; a required one is written as "null" (protocol.md §4).
        if is_there and (field[FLAG] == ALWAYS or field[KIND] != STYLE or np.int8(record[field[OFFSET]]) >= 0):
            at = _put(out, at, names[field[NAME_START] : field[NAME_END]])
            at = _put_value(out, at, record, field[OFFSET], field[KIND])
    out[start] = _BRACE  # Overwrites the comma before the first name.
    return at


@compiled
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
    """Writes ``rows`` of three arrays into ``out``, and the end of each text into ``ends``: the numbers of all rows, as
    arrays; the masks of all rows, as arrays with an array for each head; the records of the first ``num_records`` rows,
    as objects without their closing brace. The first arguments are `Tables` and `Arrays`.

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
