"""Corrupts lines of JSON in ways that a reader can detect.

The protocol has no checksums, so a reader cannot detect a digit that became another digit. Corrupt bytes are therefore
bytes that UTF-8 never has, and a value is replaced by one of another type, never of its own.
"""

from __future__ import annotations

import json
from typing import Any

from numpy.random import Generator

_MAX_NOISE = 300
#: Lines that are neither a request nor a reply to a `reset` or `step`.
_STRANGE_LINES = (
    b"",
    b"[]",
    b"null",
    b"1",
    b'"?"',
    b"{}",
    b'{"body":null}',
    b'{"body":[]}',
    b'{"body":{"obs":[1],"actionMasks":[],"meta":{}}}',
    b'{"error":true}',
    b'{"error":true,"message":"java.lang.IllegalStateException: Can\'t attack target\\n\\tat Some.java:1"}',
    b"[" * 5000,
    b'{"action":"step","body":{"action":[0]},"meta":{}}',
)
_NOT_A_STRING: tuple[Any, ...] = (None, [], {})
_NOT_A_NUMBER: tuple[Any, ...] = (None, [], {}, "?", float("nan"), float("inf"))
_NOT_A_LIST: tuple[Any, ...] = (None, {}, "?", 7)
_NOT_AN_OBJECT: tuple[Any, ...] = (None, [], "?", 7)


def garbled(line: bytes, random: Generator) -> bytes:
    """Returns a wrong line in place of this one, with one line ending, at its end."""
    ways = (_spoiled_bytes, _noise, _strange, _misshapen)
    return ways[random.integers(len(ways))](line.rstrip(b"\r\n"), random) + b"\n"


def misshapen(value: Any, random: Generator) -> Any:
    """Returns a JSON value in which one thing is missing, superfluous, or of another type."""
    if isinstance(value, dict):
        return _misshapen_object(value, random)
    if isinstance(value, list):
        return _misshapen_list(value, random)
    return _one_of(_NOT_A_STRING if isinstance(value, str) else _NOT_A_NUMBER, random)


def _misshapen_object(value: dict[str, Any], random: Generator) -> Any:
    if not value or random.random() < 0.1:
        return _one_of(_NOT_AN_OBJECT, random)
    name = _one_of(tuple(value), random)
    if random.random() < 0.2:
        return {other: value[other] for other in value if other != name}
    return {**value, name: misshapen(value[name], random)}


def _misshapen_list(value: list[Any], random: Generator) -> Any:
    way = random.integers(10)
    if not value or way == 0:
        return _one_of(_NOT_A_LIST, random)
    if way <= 2:
        return value[:-1] if way == 1 else [*value, value[-1]]
    changed = list(value)
    place = random.integers(len(value))
    changed[place] = misshapen(value[place], random)
    return changed


def _spoiled_bytes(line: bytes, random: Generator) -> bytes:
    """Replaces some bytes by one that UTF-8 never has."""
    changed = bytearray(line or b" ")
    for place in random.integers(len(changed), size=random.integers(1, 4)):
        changed[place] = 0xFF
    return bytes(changed)


def _noise(line: bytes, random: Generator) -> bytes:
    # A line ending inside would make two lines of it.
    return random.bytes(int(random.integers(1, _MAX_NOISE))).replace(b"\n", b"\xff")


def _strange(line: bytes, random: Generator) -> bytes:
    # In place of an error, an empty object is a valid reply, which no reader can detect.
    lines = [each for each in _STRANGE_LINES if b'"error"' not in line or each != b"{}"]
    return lines[random.integers(len(lines))]


def _misshapen(line: bytes, random: Generator) -> bytes:
    try:
        value = json.loads(line)
    except ValueError:
        return _noise(line, random)
    # NaN and infinities as Python and Java write them.
    return json.dumps(misshapen(value, random)).encode()


def _one_of(values: tuple[Any, ...], random: Generator) -> Any:
    return values[random.integers(len(values))]
