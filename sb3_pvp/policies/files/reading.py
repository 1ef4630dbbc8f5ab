"""Reads model files, and refuses them: whatever a stranger's file may contain is checked here, before it is used.

Nothing here unpickles anything but tensors, and these by torch's own reader. What else is pickled in a file that is
trusted is for its algorithm to read, see `sb3_pvp.policies.files.registry.Algorithm`.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import torch as th
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.common.errors import command_line, foreign
from sb3_pvp.policies.export import ACTOR, CRITIC, ELSEWHERE
from sb3_pvp.policies.files.description import Description, read_description
from sb3_pvp.policies.files.shipped import GRAPH, find_model, is_fighter
from sb3_pvp.policies.files.team_description import TeamDescription
from sb3_pvp.policies.outcome_predictor import OutcomePredictor

FORMAT = 4  #: The highest of fighter files that is read; written is the lowest that can express a model.
ABOUT, SAFE_WEIGHTS, PREDICTOR = "fighter.json", "policy.safetensors", "outcome_predictor.safetensors"
DATA, WEIGHTS, OPTIMIZER = "data", "policy.pth", "policy.optimizer.pth"  #: Entries of SB3's zips.
AVERAGE = "average.pt"  #: Of zips of `PvpPPO`: averaged weights. With SB3's ending, MaskablePPO would refuse the file.
_KNOWN = {ABOUT, SAFE_WEIGHTS, PREDICTOR, ACTOR, CRITIC}
MOST_UNTRUSTED = 64 << 20  #: Bytes of a file that is taken from strangers.
PICKLED = ":serialized:"  #: In `ModelFile.values`, the key of what SB3 has pickled.
#: Bytes: of a real description, which has a few thousand; and of SB3's data where it is compressed.
_MAX_ABOUT, _MAX_PACKED = 1 << 20, 1 << 24
_MAX_GRAPH = 1 << 26  #: Bytes of an ONNX file.
#: What malformed zips raise: EOFError if cut off, the last two for exotic compression and encryption.
_BAD_ZIP = (BadZipFile, EOFError, NotImplementedError, RuntimeError)


@dataclass(frozen=True)
class ModelFile:
    """A model file of any algorithm, read once."""

    name: str  #: Its path; of what was no file, its kind.
    #: By name: of a fighter file those with the hashes that it says, of a zip of SB3 those with weights.
    entries: Mapping[str, bytes]
    values: Mapping[str, Any]  #: SB3's ``data``: plain values by attribute, pickled ones as base64 text.
    content: io.BytesIO | None = None  #: The whole zip, if it is trusted: only then is anything in it unpickled.

    @property
    def plain_values(self) -> dict[str, Any]:
        """The `values` that are not pickled."""
        return {name: each for name, each in self.values.items() if not (isinstance(each, dict) and PICKLED in each)}

    @cached_property
    def description(self) -> Description:
        """The checked description of a policy, if it has one; raises `ValueError` if there is none, or it is wrong."""
        with _reading(self.name):
            if self.values.get("description") is None:
                raise ValueError(
                    "it has no plain description, only pickled parts, which could run any code: "
                    f"if you trust it, make a file that is safe to read with {command_line('export', self.name)}"
                )
            plain = self.values["description"]
            is_team = isinstance(plain, dict) and plain.get("policy") == "MAPOCAPolicy"
            description = read_description(plain, TeamDescription if is_team else Description)
            description.check(len(self._packed_weights))
        return description

    @property
    def content_hash(self) -> str:
        """Equal for files with the same description and weights."""
        return hashlib.sha256(self.description.model_dump_json().encode() + self._packed_weights).hexdigest()

    def weights(self) -> dict[str, th.Tensor]:
        """Returns the state dict of the policy; raises `ValueError` if the entry is malformed."""
        with _reading(self.name):
            content = self._packed_weights
            return _tensors(content) if SAFE_WEIGHTS in self.entries else _torch_file(content)

    def average(self) -> dict[str, th.Tensor]:
        """Returns the averaged weights, by names of the policy's parameters; raises `ValueError` if there are none."""
        with _reading(self.name):
            return average_in(self.entries, True, self.name)

    def outcome_predictor(self) -> OutcomePredictor | None:
        """Returns the predictor in a fighter file, if it has one; `ValueError` if the entry is malformed."""
        content = self.entries.get(PREDICTOR)
        return None if content is None else OutcomePredictor.from_tensors(_tensors(content))

    @property
    def _packed_weights(self) -> bytes:
        return self.entries.get(SAFE_WEIGHTS) or self.entries[WEIGHTS]


def read(source: str | Path | io.BytesIO | BaseAlgorithm, safe: bool = False) -> ModelFile:
    """Reads a model file of any algorithm, opening it once.

    Args:
        source: what `find_model` takes; the content of a zip; or a model, to get what its file would contain now.
        safe: the file need not be trusted: nothing in it is unpickled, and whatever could do harm is refused. This is
            always so for ``.fighter`` files.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is not a complete model file, or a fighter file of a format that this version cannot read.
    """
    if isinstance(source, BaseAlgorithm):
        name, content = type(source).__name__, io.BytesIO()
        source.save(content, exclude=["training_state"])
    elif isinstance(source, io.BytesIO):
        if safe:
            raise ValueError("the content of a zip is not read safely: pass the path of its file")
        name, content = "it", source
    else:
        path = find_model(source)
        if path.suffix == GRAPH:
            return ModelFile(str(path), {GRAPH: _graph(path)}, {})
        if safe or is_fighter(path):
            return _read_safely(path)
        # All at once, so that hash, weights and what SB3 loads are of one version, even if the file is replaced.
        name, content = str(path), io.BytesIO(path.read_bytes())
    with foreign(f"{name} is not a model"), ZipFile(content) as archive:
        entries = {name: archive.read(name) for name in filter(_has_weights, archive.namelist())}
        values = _values(archive.read(DATA))
    content.seek(0)
    return ModelFile(name, entries, values, content)


def _graph(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(_MAX_GRAPH + 1)
    if len(content) > _MAX_GRAPH:
        raise ValueError(f"{path} has more than {_MAX_GRAPH >> 20} MiB")
    return content


def _read_safely(path: Path) -> ModelFile:
    with _reading(path):
        if not is_fighter(path):
            values, entries = _sb3_entries(path)
            return ModelFile(str(path), entries, values)
        entries = _fighter_entries(path)
        description = _checked(entries)
        return ModelFile(str(path), {name: entries[name] for name in entries.keys() - {ABOUT}}, description)


def data_of(file: str | Path) -> dict[str, Any]:
    """Returns the `ModelFile.values` of a zip without reading the rest of it; raises `ValueError` if it is no model."""
    with foreign(f"{file} is not a model"), ZipFile(file) as archive:
        return _values(_content(archive, archive.getinfo(DATA), _MAX_PACKED))


def _values(content: bytes) -> dict[str, Any]:
    data = json.loads(content)
    if not isinstance(data, dict):
        raise ValueError(f"its {DATA} is no object")
    return data


def _sb3_entries(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Returns the data in a zip of SB3, and the entries with weights."""
    with ZipFile(path) as file:
        if missing := [name for name in (DATA, WEIGHTS) if name not in file.namelist()]:
            raise ValueError(f"it is not a model: it has no entry {missing[0]!r}")
        found = [each for each in file.infolist() if _has_weights(each.filename)]
        _refuse_overlap(found, path.stat().st_size)
        values = _values(_content(file, file.getinfo(DATA)))
        return values, {each.filename: _content(file, each) for each in found}


def _refuse_overlap(entries: Iterable[ZipInfo], size: int) -> None:
    # Each is no larger than the file, but any number of them could be at the same place in it.
    if sum(each.file_size for each in entries) > size:
        raise ValueError("its entries overlap, which could hide any amount of data")


def _has_weights(name: str) -> bool:
    return name == AVERAGE or (name.endswith(".pth") and "optimizer" not in name)


def average_in(entries: Mapping[str, bytes], is_needed: bool, name: Any) -> dict[str, th.Tensor]:
    """Returns the averaged weights among the entries of the zip ``name``, none if it has none.

    Raises `ValueError` if they are malformed, or needed and not there.
    """
    if is_needed and AVERAGE not in entries:
        raise ValueError(f"{name} has no averaged policy: train with ema_decay, such as 0.999, to have one")
    return _torch_file(entries[AVERAGE]) if AVERAGE in entries else {}


def packed_tensors(tensors: Mapping[str, th.Tensor]) -> bytes:
    """Returns the content of an entry with tensors, for `average_in`."""
    th.save({name: each.cpu() for name, each in tensors.items()}, content := io.BytesIO())
    return content.getvalue()


def _fighter_entries(path: str | Path) -> dict[str, bytes]:
    entries: dict[str, bytes] = {}
    with ZipFile(path) as file:
        # A name twice, or one that nobody reads, is a place to hide what another reader of the zip would find.
        for each in file.infolist():
            name = each.filename
            if name not in _KNOWN or name in entries:
                raise ValueError(f"its entry {name!r} is {'repeated' if name in entries else 'unknown'}")
            entries[name] = _content(file, each)
            if name in (ACTOR, CRITIC) and ELSEWHERE in entries[name]:
                raise ValueError(f"its graph {name} refers to other files, which it would read on this machine")
    return entries


@contextmanager
def _reading(path: str | Path) -> Iterator[None]:
    """Turns whatever a malformed file causes into one `ValueError`."""
    with foreign(f"{path} cannot be read safely"):
        try:
            yield
        except _BAD_ZIP as error:
            raise ValueError(f"it is damaged, incomplete or no zip: {error}") from error


def _content(file: ZipFile, entry: ZipInfo, most: int = 0) -> bytes:
    """Returns the content of an entry; raises `ValueError` if it is compressed and has more than ``most`` bytes.

    What is not compressed cannot be larger than the file.
    """
    is_packed = entry.compress_type != ZIP_STORED or entry.file_size != entry.compress_size
    if is_packed and not most:
        raise ValueError(f"its entry {entry.filename!r} is compressed, which could hide any amount of data")
    if entry.filename == ABOUT and entry.file_size > _MAX_ABOUT:
        raise ValueError(f"its {ABOUT} is larger than {_MAX_ABOUT} bytes")
    with file.open(entry) as opened:
        content = opened.read(most + 1 if is_packed else -1)
    if is_packed and len(content) > most:
        raise ValueError(f"its {entry.filename} is compressed, and has more than {most} bytes")
    return content


def _checked(entries: Mapping[str, bytes]) -> dict[str, Any]:
    """Compares the entries to what `ABOUT` says about them, and returns `ModelFile.values`: the description in it."""
    if ABOUT not in entries:
        raise ValueError(f"it has no {ABOUT}")
    about: Any = json.loads(entries[ABOUT])
    number = about.get("format") if isinstance(about, dict) else None
    if type(number) is int and number > FORMAT:
        raise ValueError(f"its format {number} is newer than {FORMAT}, the one known here: upgrade sb3_pvp")
    hashes = about.get("sha256") if isinstance(about, dict) else None
    if type(number) is not int or number < 1 or not isinstance(hashes, dict) or SAFE_WEIGHTS not in hashes:
        raise ValueError(f"its {ABOUT} lacks the number of the format, or the hash of {SAFE_WEIGHTS}")
    # Both ways: an entry without a hash could be anything, a hash without an entry is a file cut short.
    for name in sorted(hashes.keys() | entries.keys() - {ABOUT}):
        if name not in entries or name not in hashes:
            raise ValueError(f"its entry {name!r} is {'missing' if name in hashes else f'not in {ABOUT}'}")
        if hashlib.sha256(entries[name]).hexdigest() != hashes[name]:
            raise ValueError(f"its entry {name!r} has been changed or damaged: the hash differs")
    return {name: about[name] for name in ("description", "algorithm") if name in about} or {"description": {}}


def refuse_nan(weights: Mapping[str, th.Tensor]) -> None:
    """Raises `ValueError` if a weight is NaN: an opponent that computes NaN would lose without a word."""
    for name, part in weights.items():
        if part.is_floating_point() and part.float().isnan().any():
            raise ValueError(f"its weight {name!r} is NaN, so no action can be chosen: take an earlier version")


def _tensors(content: bytes) -> dict[str, th.Tensor]:
    try:
        return load_tensors(content)
    except (SafetensorError, KeyError) as error:  # KeyError: a type of numbers that torch does not have
        raise ValueError(f"the weights are malformed: {error}") from error


def _torch_file(content: bytes) -> dict[str, th.Tensor]:
    """Reads a state dict as torch saves it, without unpickling other classes than tensors."""
    try:
        # torch's reader would unpack compressed parts without a limit: refused before it looks.
        with ZipFile(io.BytesIO(content)) as file:
            _refuse_overlap(file.infolist(), len(content))
            for each in file.infolist():
                _content(file, each)
        tensors: Any = th.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except (*_BAD_ZIP, UnpicklingError) as error:
        why = " ".join(str(error).split())
        raise ValueError(f"the weights are no plain tensors, and unpickling them could run code: {why:.200}") from error
    plain = isinstance(tensors, dict) and all(
        isinstance(name, str) and type(part) is th.Tensor and part.layout == th.strided
        for name, part in tensors.items()
    )
    if not plain:
        raise ValueError("the weights are no dictionary of tensors")
    # By a stride of 0 a single number could be any number of them.
    if huge := [name for name, part in tensors.items() if part.nbytes > len(content)]:
        raise ValueError(f"its tensor {huge[0]!r:.80} is larger than the file")
    return dict(tensors)
