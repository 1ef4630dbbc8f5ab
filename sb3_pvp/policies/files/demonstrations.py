"""Demonstrations: what somebody saw and did in a fight, one file each, to learn from by imitation."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from sb3_pvp.common.atomic_files import DamagedFile, reading, replacing

VERSION = 1
_ARRAYS = {"observations": "f", "masks": "b", "actions": "i"}


@dataclass(frozen=True, eq=False)
class Demonstration:
    """A fight, as one of its players has fought it."""

    observations: NDArray[np.float32]  #: What was seen in each tick, ``(ticks, *shape)``.
    masks: NDArray[np.bool_]  #: Which choices were open, ``(ticks, choices of all heads)``.
    actions: NDArray[np.int64]  #: What was done then, ``(ticks, heads)``.
    contract: str  #: Name of the game's contract.
    fingerprint: str  #: Equal for contracts with the same observations and actions.
    opponent: str  #: Name of the other player, and its handicap, if there was one.
    outcome: str  #: As the player sees it: ``won``, ``lost`` or ``tied``.


class _About(BaseModel):
    model_config = ConfigDict(extra="forbid")
    contract: str
    fingerprint: str
    opponent: str
    outcome: str


def save_demonstration(demonstration: Demonstration, path: Path) -> None:
    """Writes a demonstration atomically to a ``.npz`` file."""
    fields = asdict(demonstration)
    arrays = {name: fields.pop(name) for name in _ARRAYS}
    about = orjson.dumps({"version": VERSION, **fields}).decode()
    with replacing(path) as partial:
        np.savez_compressed(partial, about=np.array(about), **arrays)


def load_demonstrations(path: str | Path) -> list[Demonstration]:
    """Reads a demonstration from its file, or all ``.npz`` files of a folder and its folders, in the order of names.

    Raises `FileNotFoundError` if there is none, and `ValueError` for a file that is damaged, of a later version or no
    demonstration: one line that names it. Nothing in a file is executed.
    """
    path = Path(path)
    files = sorted(path.rglob("*.npz")) if path.is_dir() else [path]
    if not files:
        raise FileNotFoundError(f"there is no demonstration in {path}: they are files that end in .npz")
    return [_load(file) for file in files]


def _load(path: Path) -> Demonstration:
    with reading(path), np.load(path, allow_pickle=False) as file:
        about = orjson.loads(file["about"].item())
        version = about.pop("version")
        arrays = {name: file[name] for name in _ARRAYS} if version == VERSION else {}
    if version != VERSION:
        raise DamagedFile(f"{path}: it is a demonstration of version {version!s:.20}: use the sb3_pvp that wrote it")
    with reading(path):
        if wrong := [name for name, kind in _ARRAYS.items() if arrays[name].dtype.kind != kind]:
            raise ValueError(f"its {wrong[0]} are {arrays[wrong[0]].dtype}")
        observations, masks, actions = arrays.values()
        if observations.ndim < 2 or masks.ndim != 2 or actions.ndim != 2 or len({*map(len, arrays.values())}) != 1:
            raise ValueError(f"its arrays have the shapes {observations.shape}, {masks.shape} and {actions.shape}")
        return Demonstration(
            observations.astype(np.float32, copy=False),
            masks,
            actions.astype(np.int64, copy=False),
            **_About.model_validate(about).model_dump(),
        )
