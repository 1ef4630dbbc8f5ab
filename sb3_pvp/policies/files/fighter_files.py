"""Policies from files that need not be trusted: fighter files, ``*.fighter``, and SB3's zips without unpickling.

A fighter file is an uncompressed zip. ``fighter.json`` describes it and has the hashes of the other entries, of which
``policy.safetensors`` is always there; ``docs/fighter-files.md`` has the details. The same model gives the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import torch as th
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.policies.export import ACTOR, CRITIC
from sb3_pvp.policies.files.description import Description, describe, read_description
from sb3_pvp.policies.files.shipped import SUFFIX
from sb3_pvp.policies.outcome_predictor import OutcomePredictor

FORMAT = 2  #: The highest that is read; written is the lowest that can express a model.
ABOUT, WEIGHTS, PREDICTOR = "fighter.json", "policy.safetensors", "outcome_predictor.safetensors"
_KNOWN = {ABOUT, WEIGHTS, PREDICTOR, ACTOR, CRITIC}
_SB3_DATA, _SB3_WEIGHTS, _PICKLED = "data", "policy.pth", ":serialized:"
_MAX_ABOUT = 1 << 20  #: Bytes; a real one has a few thousand.
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
        weights = self.entries.get(WEIGHTS) or self.entries[_SB3_WEIGHTS]
        return hashlib.sha256(self.description.model_dump_json().encode() + weights).hexdigest()

    def weights(self) -> dict[str, th.Tensor]:
        """Returns the state dict of the policy; raises `ValueError` if the entry is malformed."""
        return _tensors(self.entries[WEIGHTS]) if WEIGHTS in self.entries else _torch_file(self.entries[_SB3_WEIGHTS])

    def outcome_predictor(self) -> OutcomePredictor | None:
        """Returns the model's outcome predictor, if the file has one; `ValueError` if the entry is malformed."""
        content = self.entries.get(PREDICTOR)
        return None if content is None else OutcomePredictor.from_tensors(_tensors(content))


def export_fighter(model: BaseAlgorithm, path: str | Path, onnx: bool = True) -> None:
    """Writes a model of MaskablePPO to a fighter file, atomically.

    Args:
        model: the model.
        path: the file; its name must end in ``.fighter``.
        onnx: also write the graphs that ONNX Runtime can run.

    Raises:
        ValueError: if the model cannot be described in plain values
            (`sb3_pvp.policies.files.description.describe`), the name has another ending, or there can be no graphs
            (`sb3_pvp.policies.export.onnx_graph.actor_graph`).
    """
    path = Path(path)
    if path.suffix != SUFFIX:
        raise ValueError(f"the name of a fighter file ends in {SUFFIX}, not {path.name!r}")
    description = describe(model)
    # Copies, because some weights have several names, and safetensors refuses shared memory.
    weights = {name: part.detach().cpu().clone().contiguous() for name, part in model.policy.state_dict().items()}
    entries = {WEIGHTS: save_tensors(weights)}
    if onnx:
        from sb3_pvp.policies.export.onnx_graph import actor_graph, critic_graph  # needs the extra of this name

        policy: Any = model.policy
        entries |= {ACTOR: actor_graph(policy), CRITIC: critic_graph(policy)}
    predictor = getattr(model, "outcome_predictor", None)
    if predictor is not None:
        entries[PREDICTOR] = save_tensors(predictor.tensors())
    about = {
        "format": 1 if description.features_extractor is None else FORMAT,
        "sb3_pvp": version("sb3-pvp"),
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in entries.items()},
        "description": description.plain(),
    }
    with replacing(path) as partial, ZipFile(partial, "w", ZIP_STORED) as file:
        for name, content in {ABOUT: json.dumps(about, indent=1).encode(), **entries}.items():
            file.writestr(_info(name), content)


def read_fighter(path: str | Path) -> Fighter:
    """Reads a fighter file and checks it; nothing in it is executed.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is not a complete fighter file of a format that this version can read.
    """
    with _reading(path), ZipFile(path) as file:
        entries: dict[str, bytes] = {}
        for each in file.infolist():
            name = each.filename
            if name not in _KNOWN or name in entries:
                raise ValueError(f"its entry {name!r} is {'repeated' if name in entries else 'unknown'}")
            entries[name] = _content(file, each)
        description = _checked(entries)
        description.check(len(entries[WEIGHTS]))
    return Fighter(description, {name: content for name, content in entries.items() if name != ABOUT})


def read_sb3_zip(path: str | Path) -> Fighter:
    """Reads the plain values in a model file of `PvpPPO.save`; nothing is unpickled but tensors, by torch's own reader.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is not a model file, or one without a plain description, as of MaskablePPO.
    """
    with _reading(path):
        data, weights = _sb3_entries(path)
        if data.get("description") is None:
            raise ValueError(
                "it has no plain description, only pickled parts, which could run any code: "
                f"if you trust it, make a file that is safe to read with sb3-pvp export {path}"
            )
        description = read_description(data["description"])
        description.check(len(weights))
    return Fighter(description, {_SB3_WEIGHTS: weights})


def read_plain_values(path: str | Path) -> tuple[dict[str, Any], dict[str, th.Tensor]]:
    """Reads the plain values and the policy's state dict in a zip of SB3; what was pickled is left out.

    Raises as `read_sb3_zip`.
    """
    with _reading(path):
        data, weights = _sb3_entries(path)
        plain = {name: value for name, value in data.items() if not (isinstance(value, dict) and _PICKLED in value)}
        return plain, _torch_file(weights)


def _sb3_entries(path: str | Path) -> tuple[dict[str, Any], bytes]:
    """Returns the two entries of a zip of SB3 that matter for acting: its data, and the weights."""
    with ZipFile(path) as file:
        if missing := [name for name in (_SB3_DATA, _SB3_WEIGHTS) if name not in file.namelist()]:
            raise ValueError(f"it is not a model: it has no entry {missing[0]!r}")
        data: Any = json.loads(_content(file, file.getinfo(_SB3_DATA)))
        return data if isinstance(data, dict) else {}, _content(file, file.getinfo(_SB3_WEIGHTS))


@contextmanager
def _reading(path: str | Path) -> Iterator[None]:
    """Turns whatever a malformed file causes into one `ValueError`."""
    try:
        yield
    except (*_BAD_ZIP, ValueError) as error:
        what = "it is damaged, incomplete or no zip: " if isinstance(error, _BAD_ZIP) else ""
        raise ValueError(f"{path} cannot be read safely: {what}{error}") from error


def _content(file: ZipFile, entry: ZipInfo) -> bytes:
    """Returns the content of an entry; raises `ValueError` if it is compressed.

    What is not compressed cannot be larger than the file.
    """
    if entry.compress_type != ZIP_STORED or entry.file_size != entry.compress_size:
        raise ValueError(f"its entry {entry.filename!r} is compressed, which could hide any amount of data")
    if entry.filename == ABOUT and entry.file_size > _MAX_ABOUT:
        raise ValueError(f"its {ABOUT} is larger than {_MAX_ABOUT} bytes")
    return file.read(entry)


def _checked(entries: Mapping[str, bytes]) -> Description:
    """Compares the entries to what `ABOUT` says about them, and returns the description in it."""
    if ABOUT not in entries:
        raise ValueError(f"it has no {ABOUT}")
    about: Any = json.loads(entries[ABOUT])
    number = about.get("format") if isinstance(about, dict) else None
    if type(number) is int and number > FORMAT:
        raise ValueError(f"its format {number} is newer than {FORMAT}, the one known here: upgrade sb3_pvp")
    hashes = about.get("sha256") if isinstance(about, dict) else None
    if type(number) is not int or number < 1 or not isinstance(hashes, dict) or WEIGHTS not in hashes:
        raise ValueError(f"its {ABOUT} lacks the number of the format, or the hash of {WEIGHTS}")
    for name in sorted(hashes.keys() | entries.keys() - {ABOUT}):
        if name not in entries or name not in hashes:
            raise ValueError(f"its entry {name!r} is {'missing' if name in hashes else f'not in {ABOUT}'}")
        if hashlib.sha256(entries[name]).hexdigest() != hashes[name]:
            raise ValueError(f"its entry {name!r} has been changed or damaged: the hash differs")
    return read_description(about.get("description"))


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


def _info(name: str) -> ZipInfo:
    """Returns the header of an entry without time and system, so that equal models give equal files."""
    info = ZipInfo(name)  # 1980-01-01
    info.create_system, info.external_attr = 3, 0o644 << 16
    return info
