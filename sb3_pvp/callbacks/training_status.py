"""``training_status.json`` of Unity's ML-Agents: the checkpoints and the Elo rating of a run, read and written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch as th
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from sb3_pvp.common.arguments import read_model
from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.common.errors import foreign

STATUS = Path("run_logs", "training_status.json")  #: In a run's folder, as in those of ML-Agents.
FORMAT, MLAGENTS = "0.3.0", "1.1.0"  #: Versions of this file's form, and of the release that has it.
_MAX_BYTES = 1 << 22


class SavedCheckpoint(BaseModel):
    """A checkpoint, with ML-Agents' names."""

    model_config = ConfigDict(frozen=True)

    steps: Annotated[int, Field(ge=0)]  #: Of agents.
    file_path: str
    reward: FiniteFloat | None = None
    creation_time: FiniteFloat = 0.0  #: Seconds since 1970.
    auxillary_file_paths: list[str] = []  #: Spelt as there.


class _Behavior(BaseModel):
    model_config = ConfigDict(frozen=True)

    checkpoints: list[SavedCheckpoint] = []
    final_checkpoint: SavedCheckpoint | None = None
    elo: FiniteFloat | None = None


@dataclass(frozen=True)
class BehaviorStatus:
    """How far the training of a behavior is.

    Attributes:
        checkpoints: oldest first.
        final: what was saved at the end of the run, or when it was stopped.
        elo: among its own versions.
    """

    checkpoints: list[SavedCheckpoint]
    final: SavedCheckpoint | None = None
    elo: float | None = None

    @property
    def steps(self) -> int:
        """Steps of agents so far."""
        return max((each.steps for each in (*self.checkpoints, self.final) if each is not None), default=0)

    def newest_file(self, run: Path) -> Path | None:
        """Returns the newest checkpoint's file that is in the folder of a run, wherever that has been moved.

        ML-Agents writes the graph ``BEHAVIOR/BEHAVIOR-STEPS.onnx`` of each, and ``BEHAVIOR.onnx`` at the end.
        """
        known = [each for each in (self.final, *reversed(self.checkpoints)) if each is not None]
        for checkpoint in sorted(known, key=lambda each: -each.steps):
            parts = Path(checkpoint.file_path.replace("\\", "/")).parts
            for begin in range(max(len(parts) - 2, 0), len(parts)):
                if ".." not in parts and (file := run.joinpath(*parts[begin:])).is_file():
                    return file
        return None


def read_status(path: Path) -> dict[str, BehaviorStatus]:
    """Returns the status of each behavior in a file, whoever has written it; raises `ValueError` in one line."""
    with foreign(f"{path} is no training_status.json"):
        with path.open("rb") as file:
            content = json.loads(file.read(_MAX_BYTES + 1)[:_MAX_BYTES])
        if not isinstance(content, dict) or not isinstance(content.get("metadata"), dict):
            raise ValueError("it has no metadata")
        found = {}
        for name, given in content.items():
            if name != "metadata":
                known = {key: value for key, value in given.items() if key in _Behavior.model_fields}
                own = read_model(_Behavior, known, f"{name}:")
                found[name] = BehaviorStatus(own.checkpoints, own.final_checkpoint, own.elo)
        return found


def write_status(path: Path, behavior: str, status: BehaviorStatus) -> None:
    """Writes the status of a behavior atomically, with what ML-Agents expects beside it."""
    own: dict[str, Any] = {"checkpoints": [each.model_dump() for each in status.checkpoints]}
    if status.final is not None:
        own["final_checkpoint"] = status.final.model_dump()
    if status.elo is not None:
        own["elo"] = status.elo
    versions = {"stats_format_version": FORMAT, "mlagents_version": MLAGENTS, "torch_version": th.__version__}
    write_atomically(path, json.dumps({behavior: own, "metadata": versions}, indent=4) + "\n")
