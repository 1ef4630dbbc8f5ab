"""Demonstrations: what somebody saw and did in a fight, a file for each, to learn from by imitation."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from sb3_pvp.common.atomic_files import DamagedFile, reading, replacing
from sb3_pvp.common.errors import shown

VERSION = 1
MOST_BYTES = 1 << 30  #: Of the arrays of a file, which may be a thousand times smaller.
_ARRAYS: dict[str, Any] = {"observations": np.float32, "masks": np.bool_, "actions": np.int64}


@dataclass(frozen=True, eq=False)
class Demonstration:
    """A fight as one of its players has fought it."""

    observations: NDArray[np.float32]  #: What was seen before each tick, ``(ticks, *shape)``.
    masks: NDArray[np.bool_]  #: Which choices were open, ``(ticks, choices of all heads)``.
    actions: NDArray[np.int64]  #: What was done, ``(ticks, heads)``.
    contract: str  #: Name of the game's contract.
    fingerprint: str  #: Equal for contracts with the same observations and actions.
    opponent: str  #: Name of the other player, with its handicap.
    outcome: str  #: As the player sees it: ``won``, ``tied`` or ``lost``.


class _About(BaseModel):
    model_config = ConfigDict(extra="forbid")
    contract: str
    fingerprint: str
    opponent: str
    outcome: Literal["won", "tied", "lost"]


def save_demonstration(demonstration: Demonstration, path: Path) -> None:
    """Writes a demonstration atomically to a file whose name should end in ``.npz``."""
    about = asdict(demonstration)
    arrays: dict[str, Any] = {name: np.asarray(about.pop(name), dtype) for name, dtype in _ARRAYS.items()}
    with replacing(path) as partial:
        np.savez_compressed(partial, about=np.array(orjson.dumps({"version": VERSION, **about}).decode()), **arrays)


def load_demonstrations(path: str | Path) -> list[Demonstration]:
    """Reads a demonstration from its file, or those of all ``.npz`` files in a folder and its folders, by name.

    Raises `FileNotFoundError` if there is none, and `ValueError` for a file that is damaged, of a later version or no
    demonstration: one line that names it. Nothing in a file is unpickled.
    """
    path = Path(path)
    files = sorted(path.rglob("*.npz")) if path.is_dir() else [path]
    if not files:
        raise FileNotFoundError(f"there are no demonstrations in {path}: their names end in .npz")
    return [_load(file) for file in files]


def _load(path: Path) -> Demonstration:
    with reading(path), np.load(path, allow_pickle=False) as file:
        if sum(each.file_size for each in file.zip.infolist()) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES >> 20} MiB")
        about = orjson.loads(file["about"].item())
        version = about.pop("version")
        if version == VERSION:
            arrays = {name: file[name] for name in _ARRAYS}
            for name, dtype in _ARRAYS.items():
                if arrays[name].dtype != dtype or arrays[name].ndim < 2:
                    raise ValueError(f"its {name} are {arrays[name].dtype} of shape {arrays[name].shape}")
            if len({*map(len, arrays.values())}) > 1 or arrays["masks"].ndim != 2 or arrays["actions"].ndim != 2:
                raise ValueError("its arrays do not belong together")
            if not np.isfinite(arrays["observations"]).all() or arrays["actions"].min(initial=0) < 0:
                raise ValueError("some of its observations or actions are none")
            return Demonstration(**arrays, **_About.model_validate(about).model_dump())
    raise DamagedFile(f"{path}: it is a demonstration of version {shown(version)}: use the sb3_pvp that wrote it")
