"""Reads PyTorch's zip checkpoints as data, so that they need not be trusted (cli-config.md §11).

A pickle is a program that may call any function it names. Here it is read by an interpreter of its instructions that
calls nothing and imports nothing: where the program would make an object, it notes down of which class and from what,
as a `Record`. Names that no checkpoint of the original system has are refused all the same. Tensors are made only on
demand, from the raw numbers beside the pickle.
"""

from __future__ import annotations

import pickletools
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

import numpy as np
import torch as th

#: Classes of the original system begin with this.
_OWN = "pvp_ml."
_DTYPES = {
    "FloatStorage": th.float32,
    "DoubleStorage": th.float64,
    "HalfStorage": th.float16,
    "LongStorage": th.int64,
    "IntStorage": th.int32,
    "BoolStorage": th.bool,
}
_STORAGES = {f"torch.{name}": dtype for name, dtype in _DTYPES.items()}
_TENSOR, _ORDERED, _ENCODE = "torch._utils._rebuild_tensor_v2", "collections.OrderedDict", "_codecs.encode"
_SCALARS = {f"numpy.{core}.multiarray.scalar" for core in ("core", "_core")}
_ARRAYS = {f"numpy.{core}.multiarray._reconstruct" for core in ("core", "_core")} | {"numpy.ndarray"}
_SETS = {f"{module}.{kind}" for module in ("__builtin__", "builtins") for kind in ("set", "frozenset")}
_KNOWN = {*_STORAGES, _TENSOR, _ORDERED, _ENCODE, "numpy.dtype", *_SCALARS, *_ARRAYS, *_SETS}
#: Limits far above what real checkpoints have: about 50,000 instructions, 2 MB to 30 MB.
_MAX_INSTRUCTIONS = 2_000_000
_MAX_PICKLE = 32 << 20
_MAX_BYTES = 1 << 30
_MAX_VALUES, _MAX_DEPTH = 200_000, 50
#: Instructions that push their argument, and those that push a constant.
_LITERALS = {"BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "BINUNICODE", "BINUNICODE8"}
_LITERALS |= {"SHORT_BINUNICODE", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turns any error into a one-line `ValueError` about a file: a malformed one can cause anything."""
    try:
        yield
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path} is not a checkpoint that can be read: {text:.300}") from error


class Name:
    """The name of a class or function in a pickle, such as ``"pvp_ml.ppo.ppo.Meta"``."""

    def __init__(self, name: str) -> None:
        self.name = name


class Record:
    """An object in a pickle: the name of its class, or of the function that makes it, its arguments and its state."""

    def __init__(self, kind: str, arguments: tuple[Any, ...]) -> None:
        self.kind, self.arguments = kind, arguments
        self.state: Any = {}


class Checkpoint:
    """A file that ``torch.save`` wrote since version 1.6; ``content`` is what it saved, with a `Record` per object.

    Raises `ValueError` if it is another file, is malformed, or has a class that no original checkpoint has.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not is_zipfile(path):
            raise ValueError(f"{path} is not a zip, as torch.save has written since version 1.6")
        with refusing(path), self._file as file:
            entries = {entry.filename: entry.file_size for entry in file.infolist()}
            roots = [name.removesuffix("data.pkl") for name in entries if name.endswith("/data.pkl")]
            if len(roots) != 1:
                hint = ": it is a model of SB3, which needs no import" if "policy.pth" in entries else ""
                raise ValueError(f"it is not a file of torch.save{hint}")
            (self._root,) = roots
            if sum(entries.values()) > _MAX_BYTES or entries[f"{self._root}data.pkl"] > _MAX_PICKLE:
                raise ValueError("it is larger than any checkpoint")
            order = f"{self._root}byteorder"
            if order in entries and file.read(order) != b"little":
                raise ValueError("it was written on a big-endian machine")
            self.content = _Interpreter().run(file.read(f"{self._root}data.pkl"))

    def tensor(self, record: Any, shape: tuple[int, ...]) -> th.Tensor:
        """Returns a tensor as float32; raises an error, see `refusing`, if it has another shape or is not finite."""
        if not isinstance(record, Record) or record.kind != _TENSOR:
            raise ValueError(f"it is a {getattr(record, 'kind', type(record).__name__)}, not a tensor")
        with self._file as file:
            storage, offset, size, strides, *_ = record.arguments
            if plain(size) != [*shape]:
                raise ValueError(f"a tensor has the shape {tuple(plain(size))} instead of {shape}")
            kind, key, count = storage.arguments
            dtype = _STORAGES[kind]
            if prod(shape) > count or file.getinfo(f"{self._root}data/{key}").file_size != count * dtype.itemsize:
                raise ValueError(f"the numbers of a tensor of shape {shape} are incomplete")
            raw = bytearray(file.read(f"{self._root}data/{key}"))
            # as_strided() refuses what is out of bounds.
            view = th.frombuffer(raw, dtype=dtype).as_strided(size, strides, offset)
            values = view.to(th.float32, copy=True, memory_format=th.contiguous_format)  # keeps no larger storage alive
            if not values.isfinite().all():
                raise ValueError(f"a tensor of shape {shape} is not finite")
            return values

    @property
    def _file(self) -> ZipFile:
        return ZipFile(self.path)


def plain(value: Any) -> Any:
    """Returns a copy of what a pickle contains as JSON values; raises `ValueError` if it is too large or deep.

    An object is its state, with its class under ``"class"``. Lists that contain themselves, or that grow by repetition,
    end at the limit.
    """
    budget = iter(range(_MAX_VALUES))

    def convert(value: Any, depth: int) -> Any:
        if next(budget, None) is None or depth > _MAX_DEPTH:
            raise ValueError("a value in the checkpoint is larger or deeper than any setting")
        if isinstance(value, Record):
            if value.kind in _SCALARS:
                return _number(value)
            if value.kind in _SETS:
                return convert(value.arguments[0] if value.arguments else [], depth + 1)
            state = value.state if isinstance(value.state, dict) else {"state": value.state}
            return {"class": value.kind.rpartition(".")[2]} | convert(state, depth + 1)
        if isinstance(value, dict):
            return {_key(key): convert(own, depth + 1) for key, own in value.items()}
        if isinstance(value, (list, tuple)):
            return [convert(own, depth + 1) for own in value]
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        raise ValueError(f"a {type(value).__name__} in the checkpoint is no setting")

    return convert(value, 0)


def _key(key: Any) -> str:
    """Returns the key of a JSON object; for a member of an Enum, its value."""
    value = key.arguments[0] if isinstance(key, Record) and key.arguments else key
    return str(value) if isinstance(value, (str, int, float)) else type(value).__name__


def _number(record: Record) -> Any:
    """Returns a scalar of NumPy as Python's number."""
    kind, raw = record.arguments
    if isinstance(raw, Record) and raw.kind == _ENCODE:
        raw = raw.arguments[0].encode("latin-1")
    name = kind.arguments[0]
    if name not in ("b1", "i4", "i8", "f4", "f8") or not isinstance(raw, bytes):
        raise ValueError("a scalar of NumPy is no number")
    return np.frombuffer(raw, f"<{name}")[0].item()


class _Interpreter:
    """Runs the instructions of a pickle; `Name` and `Record` stand for classes and objects."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []  #: The stacks under each mark.
        self.memo: dict[int, Any] = {}

    def run(self, pickle: bytes) -> Any:
        """Returns what the pickle contains."""
        for number, (instruction, argument, _) in enumerate(pickletools.genops(pickle)):
            if number > _MAX_INSTRUCTIONS:
                raise ValueError("it has more instructions than any checkpoint")
            name = instruction.name
            if name in _LITERALS:
                self.stack.append(argument)
            elif name in _CONSTANTS:
                self.stack.append(_CONSTANTS[name])
            elif name in _TUPLES:
                self.stack[-_TUPLES[name] :] = [self._tuple(self.stack[-_TUPLES[name] :], _TUPLES[name])]
            elif name not in ("PROTO", "FRAME", "STOP"):
                self._structure(name, argument)
        (content,) = self.stack
        return content

    def _structure(self, name: str, argument: Any) -> None:
        stack = self.stack
        match name:
            case "MARK":
                self.below.append(stack)
                self.stack = []
            case "POP":
                stack.pop()
            case "BINPUT" | "LONG_BINPUT":
                self.memo[argument] = stack[-1]
            case "MEMOIZE":
                self.memo[len(self.memo)] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(self.memo[argument])
            case "EMPTY_LIST":
                stack.append([])
            case "EMPTY_DICT":
                stack.append({})
            case "EMPTY_SET":
                stack.append(Record("builtins.set", ([],)))
            case "TUPLE":
                items = self._marked()
                self.stack.append(self._tuple(items, len(items)))
            case "APPEND":
                item = stack.pop()
                self._extend([item])
            case "APPENDS" | "ADDITEMS":
                self._extend(self._marked())
            case "SETITEM":
                items = stack[-2:]
                del stack[-2:]
                self._set(items)
            case "SETITEMS":
                self._set(self._marked())
            case "GLOBAL":
                stack.append(_name(*argument.split(" ", 1)))
            case "STACK_GLOBAL":
                module, attribute = stack.pop(-2), stack.pop()
                stack.append(_name(module, attribute))
            case "REDUCE" | "NEWOBJ":
                made, arguments = stack.pop(-2), stack.pop()
                stack.append(_record(made, arguments))
            case "BUILD":
                state, built = stack.pop(), stack[-1]
                if isinstance(built, Record):
                    built.state = state
                elif not isinstance(built, dict):  # attributes of an OrderedDict mean nothing here
                    raise ValueError(f"it sets the attributes of a {type(built).__name__}")
            case "BINPERSID":
                stack.append(_storage(stack.pop()))
            case _:
                raise ValueError(f"it has the instruction {name}, which no checkpoint has")

    def _marked(self) -> list[Any]:
        """Returns what is above the last mark, which it removes."""
        marked, self.stack = self.stack, self.below.pop()
        return marked

    def _tuple(self, items: list[Any], size: int) -> tuple[Any, ...]:
        if len(items) != size:
            raise ValueError("its stack is too short")
        return tuple(items)

    def _extend(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, Record) and target.kind in _SETS:
            target = target.arguments[0]
        if not isinstance(target, list):
            raise ValueError(f"it appends to a {type(target).__name__}")
        target.extend(items)

    def _set(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict) or len(items) % 2:
            raise ValueError(f"it sets items of a {type(target).__name__}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            # A tuple is no key: hashing a deep one overflows the interpreter's stack.
            if not isinstance(key, (str, int, float, Record, type(None))):
                raise ValueError(f"a {type(key).__name__} is a key")
            target[key] = value


def _name(module: Any, attribute: Any) -> Name:
    """Returns the name of a class or function; raises `ValueError` if no checkpoint has it."""
    if not isinstance(module, str) or not isinstance(attribute, str):
        raise ValueError("a name is no text")
    name = f"{module}.{attribute}"
    if name not in _KNOWN and not name.startswith(_OWN):
        raise ValueError(f"it names {name!r:.100}, as no checkpoint of the original system does; nothing of it was run")
    return Name(name)


def _record(made: Any, arguments: Any) -> Any:
    """Returns the stand-in for an object."""
    if not isinstance(made, Name) or not isinstance(arguments, tuple):
        raise ValueError(f"it calls a {type(made).__name__}")
    return {} if made.name == _ORDERED and not arguments else Record(made.name, arguments)


def _storage(key: Any) -> Record:
    """Returns the stand-in for the numbers of a tensor, with the arguments ``(kind, entry, count)``."""
    what, kind, entry, _, count = key
    if what != "storage" or kind.name not in _STORAGES or not isinstance(entry, str) or not isinstance(count, int):
        raise ValueError("the numbers of a tensor are of an unknown kind")
    return Record("storage", (kind.name, entry, count))
