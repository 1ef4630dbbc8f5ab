"""Fighter files, ``*.fighter``: policies in files that need not be trusted, see `sb3_pvp.policies.files.reading`.

A fighter file is an uncompressed zip. ``fighter.json`` describes it and has the hashes of the other entries, of which
``policy.safetensors`` is always there; ``docs/fighter-files.md`` has the details. The same model gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from safetensors.torch import save as save_tensors
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.policies.export import ACTOR, CRITIC
from sb3_pvp.policies.files.description import describe
from sb3_pvp.policies.files.reading import ABOUT, FORMAT, PREDICTOR, SAFE_WEIGHTS
from sb3_pvp.policies.files.shipped import SUFFIX


def export_fighter(model: BaseAlgorithm, path: str | Path, onnx: bool = True) -> None:
    """Writes a model of MaskablePPO to a fighter file, atomically.

    Args:
        model: the model.
        path: the file; its name must end in ``.fighter``.
        onnx: also write the graphs that ONNX Runtime can run.

    Raises:
        ValueError: if the model cannot be described in plain values
            (`sb3_pvp.policies.files.description.describe`), is too large to be read again (`Description.check`), the
            name has another ending, or there can be no graphs (`sb3_pvp.policies.export.onnx_graph.actor_graph`).
    """
    path = Path(path)
    if path.suffix != SUFFIX:
        raise ValueError(f"the name of a fighter file ends in {SUFFIX}, not {path.name!r}")
    # Before anything is written: a model that cannot be described leaves no file behind.
    description = describe(model)
    # Copies, because some weights have several names, and safetensors refuses shared memory.
    weights = {name: part.detach().cpu().clone().contiguous() for name, part in model.policy.state_dict().items()}
    entries = {SAFE_WEIGHTS: save_tensors(weights)}
    description.check(len(entries[SAFE_WEIGHTS]))
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
            info = ZipInfo(name)  # of 1980, and without a system, so that equal models give equal files
            info.create_system, info.external_attr = 3, 0o644 << 16
            file.writestr(info, content)
