"""Model files with what acting needs, and no more."""

from __future__ import annotations

import io
import json
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.common.atomic_files import replacing

_DATA, _OPTIMIZER = "data", "policy.optimizer.pth"

#: What a model's file has besides, and only training needs.
TRAINING_ONLY = (
    "training_state",
    "outcome_predictor",
    "curve_progress",
    "ep_info_buffer",
    "ep_success_buffer",
    "_last_obs",
    "_last_episode_starts",
)


def save_weights(model: BaseAlgorithm, path: Path) -> None:
    """Saves the model without what only training needs; what the optimiser has gathered is left out as well.

    SB3 loads the file like any other; learning goes on from it with a fresh optimiser.
    """
    optimizer: Any = model.policy.optimizer
    gathered, optimizer.state = optimizer.state, defaultdict(dict)
    try:
        model.save(path, exclude=TRAINING_ONLY)
    finally:
        optimizer.state = gathered


def strip(path: Path) -> None:
    """Takes out of a model's file what `save_weights` leaves out; nothing in it is unpickled, and all is atomic."""
    with zipfile.ZipFile(path) as full, replacing(path) as partial, zipfile.ZipFile(partial, "w") as stripped:
        for entry in full.infolist():
            content = full.read(entry)
            if entry.filename == _DATA:
                content = _without_training(content)
            elif entry.filename == _OPTIMIZER:
                content = _without_gathered(content)
            stripped.writestr(entry, content)


def is_stripped(path: Path) -> bool:
    """Whether `strip` would find nothing more to take out of a model's file."""
    with zipfile.ZipFile(path) as file:
        has_gathered = _OPTIMIZER in file.namelist() and bool(_optimizer_state(file.read(_OPTIMIZER))["state"])
        return not has_gathered and not set(TRAINING_ONLY) & json.loads(file.read(_DATA)).keys()


def has_training_state(path: Path) -> bool:
    """Whether the model in a file can go on exactly where it was saved; nothing is unpickled."""
    with zipfile.ZipFile(path) as file:
        return json.loads(file.read(_DATA)).get("training_state") is not None


def steps_of(path: Path) -> int:
    """How many steps the model in a file was trained for; nothing is unpickled."""
    with zipfile.ZipFile(path) as file:
        return int(json.loads(file.read(_DATA))["num_timesteps"])


def _without_training(data: bytes) -> bytes:
    kept = {name: value for name, value in json.loads(data).items() if name not in TRAINING_ONLY}
    return json.dumps(kept, indent=4).encode()


def _without_gathered(optimizer: bytes) -> bytes:
    buffer = io.BytesIO()
    th.save(_optimizer_state(optimizer) | {"state": {}}, buffer)
    return buffer.getvalue()


def _optimizer_state(optimizer: bytes) -> dict[str, Any]:
    state: dict[str, Any] = th.load(io.BytesIO(optimizer), weights_only=True, map_location="cpu")
    return state
