"""Reads model files, and refuses them: whatever a stranger's file may contain is checked here, before it is used.

Nothing here unpickles anything but tensors, and these by torch's own reader. What is trusted is read by SB3 itself, see
`sb3_pvp.policies.files.model_files.load`.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import torch as th
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors

from sb3_pvp.common.errors import foreign
from sb3_pvp.policies.export import ACTOR, CRITIC, ELSEWHERE
from sb3_pvp.policies.files.description import Description, read_description
from sb3_pvp.policies.files.shipped import is_fighter
from sb3_pvp.policies.outcome_predictor import OutcomePredictor

FORMAT = 2  #: The highest of fighter files that is read; written is the lowest that can express a model.
ABOUT, SAFE_WEIGHTS, PREDICTOR = "fighter.json", "policy.safetensors", "outcome_predictor.safetensors"
DATA, WEIGHTS, OPTIMIZER = "data", "policy.pth", "policy.optimizer.pth"  #: Entries of SB3's zips.
_KNOWN = {ABOUT, SAFE_WEIGHTS, PREDICTOR, ACTOR, CRITIC}
_PICKLED = ":serialized:"
#: Bytes: of a real description, which has a few thousand; and of SB3's data where it is compressed.
_MAX_ABOUT, _MAX_PACKED = 1 << 20, 1 << 24
#: What malformed zips raise: EOFError if cut off, the last two for exotic compression and encryption.
_BAD_ZIP = (BadZipFile, EOFError, NotImplementedError, RuntimeError)


@dataclass(frozen=True)
class Fighter:
    """What is in a fighter file, whose entries have the hashes that it says, or the plain values in a zip of SB3."""

    description: Description
    entries: Mapping[str, bytes]  #: By name, without `ABOUT`.

    @property
    def content_hash(self) -> str:
        """Equal for files with the same description and weights."""
        weights = self.entries.get(SAFE_WEIGHTS) or self.entries[WEIGHTS]
        return hashlib.sha256(self.description.model_dump_json().encode() + weights).hexdigest()

    def weights(self) -> dict[str, th.Tensor]:
        """Returns the state dict of the policy; raises `ValueError` if the entry is malformed."""
        content = self.entries.get(SAFE_WEIGHTS)
        return _torch_file(self.entries[WEIGHTS]) if content is None else _tensors(content)

    def outcome_predictor(self) -> OutcomePredictor | None:
        """Returns the model's outcome predictor, if the file has one; `ValueError` if the entry is malformed."""
        content = self.entries.get(PREDICTOR)
        return None if content is None else OutcomePredictor.from_tensors(_tensors(content))


def read_fighter(path: str | Path) -> Fighter:
    """Reads a fighter file, or the plain values in a zip of `PvpPPO.save`, and checks it; the name decides which it is.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is not a complete fighter file of a format that this version can read, or a zip without a
            plain description, as of MaskablePPO.
    """
    with _reading(path):
        if not is_fighter(path):
            data, weights = _sb3_entries(path)
            if data.get("description") is None:
                raise ValueError(
                    "it has no plain description, only pickled parts, which could run any code: "
                    f"if you trust it, make a file that is safe to read with sb3-pvp export {path}"
                )
            description, entries = read_description(data["description"]), {WEIGHTS: weights}
        else:
            entries = _fighter_entries(path)
            description, weights = _checked(entries), entries[SAFE_WEIGHTS]
        description.check(len(weights))
    return Fighter(description, {name: content for name, content in entries.items() if name != ABOUT})


def read_plain_values(path: str | Path) -> tuple[dict[str, Any], dict[str, th.Tensor]]:
    """Reads the plain values and the policy's state dict in a zip of SB3; what was pickled is left out.

    Raises as `read_fighter`.
    """
    with _reading(path):
        data, weights = _sb3_entries(path)
        plain = {name: value for name, value in data.items() if not (isinstance(value, dict) and _PICKLED in value)}
        return plain, _torch_file(weights)


def data_of(file: str | Path | io.BytesIO) -> dict[str, Any]:
    """Returns SB3's ``data`` of a model file: plain values by attribute, pickled ones as base64 text.

    Raises `ValueError` if it is no model file.
    """
    name = "it" if isinstance(file, io.BytesIO) else file
    with foreign(f"{name} is not a model"), ZipFile(file) as archive:
        return _values(_content(archive, archive.getinfo(DATA), _MAX_PACKED))


def _values(content: bytes) -> dict[str, Any]:
    data = json.loads(content)
    if not isinstance(data, dict):
        raise ValueError(f"its {DATA} is no object")
    return data


def _sb3_entries(path: str | Path) -> tuple[dict[str, Any], bytes]:
    """Returns the two entries of a zip of SB3 that matter for acting: its data, and the weights."""
    with ZipFile(path) as file:
        if missing := [name for name in (DATA, WEIGHTS) if name not in file.namelist()]:
            raise ValueError(f"it is not a model: it has no entry {missing[0]!r}")
        data, weights = (_content(file, file.getinfo(name)) for name in (DATA, WEIGHTS))
        return _values(data), weights


def _fighter_entries(path: str | Path) -> dict[str, bytes]:
    entries: dict[str, bytes] = {}
    with ZipFile(path) as file:
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


def _checked(entries: Mapping[str, bytes]) -> Description:
    """Compares the entries to what `ABOUT` says about them, and returns the description in it."""
    if ABOUT not in entries:
        raise ValueError(f"it has no {ABOUT}")
    about: Any = json.loads(entries[ABOUT])
    number = about.get("format") if isinstance(about, dict) else None
    if type(number) is int and number > FORMAT:
        raise ValueError(f"its format {number} is newer than {FORMAT}, the one known here: upgrade sb3_pvp")
    hashes = about.get("sha256") if isinstance(about, dict) else None
    if type(number) is not int or number < 1 or not isinstance(hashes, dict) or SAFE_WEIGHTS not in hashes:
        raise ValueError(f"its {ABOUT} lacks the number of the format, or the hash of {SAFE_WEIGHTS}")
    for name in sorted(hashes.keys() | entries.keys() - {ABOUT}):
        if name not in entries or name not in hashes:
            raise ValueError(f"its entry {name!r} is {'missing' if name in hashes else f'not in {ABOUT}'}")
        if hashlib.sha256(entries[name]).hexdigest() != hashes[name]:
            raise ValueError(f"its entry {name!r} has been changed or damaged: the hash differs")
    return read_description(about.get("description"))


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
        with ZipFile(io.BytesIO(content)) as file:
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
    return dict(tensors)
