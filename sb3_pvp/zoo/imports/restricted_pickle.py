"""Reads PyTorch's zip checkpoints as data, so that they need not be trusted (cli-config.md §11).

A pickle is a program that may call any function it names. Python's own unpickler runs it here with stand-ins: whatever
class it names is a new subclass of `Record`, which only notes its arguments and state down. Names that no checkpoint of
the original system has are refused all the same. Tensors are made on demand, from the raw numbers beside the pickle.

``torch.load(weights_only=True)`` does not do: it calls what is on its own list, such as storages of any size, and it
hashes keys of any depth.
"""

from __future__ import annotations

import io
import pickle
from contextlib import AbstractContextManager
from math import prod
from pathlib import Path
from typing import Any, ClassVar
from zipfile import ZipFile, is_zipfile

import numpy as np
import torch as th

from sb3_pvp.common.errors import foreign

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
_KNOWN = {*_STORAGES, _TENSOR, _ENCODE, "numpy.dtype", *_SCALARS, *_ARRAYS, *_SETS}
#: Limits far above what real checkpoints have: pickles of less than 1 MB, files of 2 MB to 30 MB. An instruction of a
#: pickle has at least one byte, so the first one also limits time and memory.
_MAX_PICKLE, _MAX_BYTES = 4 << 20, 1 << 30
_MAX_VALUES, _MAX_DEPTH = 200_000, 50
#: Instructions that no checkpoint has, and that would use classes of this process, hash what is too deep for that, or
#: allocate what they ask for. All others only make values of what is in the pickle, or call a stand-in.
_REFUSED = pickle.EXT1 + pickle.EXT2 + pickle.EXT4 + pickle.EMPTY_SET + pickle.ADDITEMS + pickle.FROZENSET
_REFUSED += pickle.DICT + pickle.BYTEARRAY8 + pickle.NEXT_BUFFER + pickle.READONLY_BUFFER


def refusing(path: Path) -> AbstractContextManager[None]:
    """Turns any error into a one-line `ValueError` about a file: a malformed one can cause anything."""
    return foreign(f"{path} is not a checkpoint that can be read")


class Record:
    """An object in a pickle: the name of its class, or of the function that makes it, its arguments and its state."""

    kind: str = "storage"  #: By itself, it is the numbers of a tensor.
    arguments: tuple[Any, ...]
    state: Any

    def __new__(cls, *arguments: Any) -> Record:
        made = super().__new__(cls)
        made.arguments, made.state = arguments, {}
        return made

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Mapping(dict[Any, Any]):
    """A dictionary, ordered or not; attributes of one mean nothing here."""

    def __init__(self) -> None:
        super().__init__()

    def __setitem__(self, key: Any, value: Any) -> None:
        # A tuple is no key: hashing a deep one overflows the interpreter's stack.
        if not isinstance(key, (str, int, float, Record, type(None))):
            raise ValueError(f"a {type(key).__name__} is a key")
        super().__setitem__(key, value)

    def __setstate__(self, state: Any) -> None:
        pass


class Checkpoint:
    """A file that ``torch.save`` wrote since version 1.6; ``content`` is what it saved, with a `Record` per object.

    Raises `ValueError` if it is another file, is malformed, or has a class that no original checkpoint has.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with refusing(path):  # is_zipfile() too raises errors of its own
            if not is_zipfile(path):
                raise ValueError("it is not a zip, as torch.save has written since version 1.6")
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
            self.content = _Unpickler(io.BytesIO(file.read(f"{self._root}data.pkl"))).load()

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


class _Unpickler(pickle._Unpickler):
    """Runs the instructions of a pickle; classes and objects are stand-ins."""

    # The unpickler in Python: the one in C allocates whatever memory an index of the memo asks for.
    dispatch: ClassVar[dict[int, Any]] = {
        code: run for code, run in pickle._Unpickler.dispatch.items() if code not in _REFUSED
    }

    def load_empty_dictionary(self) -> None:
        """Pushes a `_Mapping`."""
        self.append(_Mapping())  # type: ignore[attr-defined]

    dispatch[pickle.EMPTY_DICT[0]] = load_empty_dictionary

    def find_class(self, module: str, name: str) -> type:
        """Returns the stand-in for a class or function; raises `ValueError` if no checkpoint has it."""
        whole = f"{module}.{name}"
        if whole == _ORDERED:
            return _Mapping
        if whole not in _KNOWN and not whole.startswith(_OWN):
            what = f"it names {whole!r:.100}, as no checkpoint of the original system does"
            raise ValueError(f"{what}; nothing of it was run")
        return type("Record", (Record,), {"kind": whole})

    def persistent_load(self, pid: Any) -> Record:
        """Returns the stand-in for the numbers of a tensor, with the arguments ``(kind, entry, count)``."""
        what, kind, entry, _, count = pid
        if what != "storage" or kind.kind not in _STORAGES or not isinstance(entry, str) or not isinstance(count, int):
            raise ValueError("the numbers of a tensor are of an unknown kind")
        return Record(kind.kind, entry, count)
