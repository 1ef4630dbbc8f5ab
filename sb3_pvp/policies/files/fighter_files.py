"""Fighter files, ``*.fighter``: policies in files that need not be trusted, see `sb3_pvp.policies.files.reading`.

A fighter file is an uncompressed zip. ``fighter.json`` describes it and has the hashes of the other entries, of which
``policy.safetensors`` is always there; ``docs/fighter-files.md`` has the details. The same model gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from safetensors.torch import save as save_tensors
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.policies.export import ACTOR, CRITIC
from sb3_pvp.policies.files.description import Description, describe
from sb3_pvp.policies.files.reading import ABOUT, PREDICTOR, SAFE_WEIGHTS
from sb3_pvp.policies.files.registry import DEFAULT, name_of
from sb3_pvp.policies.files.shipped import GRAPH, SUFFIX
from sb3_pvp.policies.files.team_description import TeamDescription


def has_onnx() -> bool:
    """Returns whether ONNX is installed, without which there are no graphs."""
    return find_spec("onnx") is not None


def export_fighter(model: BaseAlgorithm, path: str | Path, onnx: bool = True) -> None:
    """Writes a model of MaskablePPO or MAPOCA to a fighter file, atomically.

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
        entries |= _graphs(model.policy)
    predictor = getattr(model, "outcome_predictor", None)
    if predictor is not None:
        entries[PREDICTOR] = save_tensors(predictor.tensors())
    about = {
        "format": _format_of(description),
        "sb3_pvp": version("sb3-pvp"),
        **({} if (algorithm := name_of(model)) == DEFAULT else {"algorithm": algorithm}),
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in entries.items()},
        "description": description.plain(),
    }
    with replacing(path) as partial, ZipFile(partial, "w", ZIP_STORED) as file:
        for name, content in {ABOUT: json.dumps(about, indent=1).encode(), **entries}.items():
            info = ZipInfo(name)  # of 1980, and without a system, so that equal models give equal files
            info.create_system, info.external_attr = 3, 0o644 << 16
            file.writestr(info, content)


def export_graph(model: BaseAlgorithm, path: Path, agent: str | None = None) -> int:
    """Writes the graph that acts, of a team that of an agent, by default the first; returns its size in bytes.

    Its metadata has the ``frame_ages``. Raises `ValueError` as `export_fighter`, and for an agent that there is not.
    """
    from sb3_pvp.policies.export.onnx_graph import actor_graph
    from sb3_pvp.policies.export.team_graph import agent_graph

    policy: Any = model.policy
    if agent is not None and not hasattr(policy, "slots"):
        raise ValueError(f"a {type(policy).__name__} has no agents: leave out --agent")
    graph = agent_graph(policy, agent) if hasattr(policy, "slots") else actor_graph(policy)
    import onnx  # is there: it has made the graph

    described = onnx.load_from_string(graph)
    onnx.helper.set_model_props(described, {"frame_ages": json.dumps(getattr(model, "frame_ages", None))})
    content = described.SerializeToString(deterministic=True)
    with replacing(path) as partial:
        partial.write_bytes(content)
    return len(content)


def export_unity(
    model: BaseAlgorithm, path: Path, agent: str | None = None, sensors: Sequence[int] | None = None
) -> int:
    """Writes the graph with which Unity's ML-Agents lets an agent act; returns its size in bytes.

    Arguments and errors are those of `sb3_pvp.policies.export.unity_graph.unity_graph`.
    """
    from sb3_pvp.policies.export.unity_graph import unity_graph

    with replacing(path) as partial:
        return partial.write_bytes(unity_graph(model.policy, agent, sensors))


def export_final(model: BaseAlgorithm, stem: Path) -> list[Path]:
    """Writes the graphs that act for a model at the end of a run, and returns their files, which begin with ``stem``.

    Agents of a team get graphs for ML-Agents (`export_unity`): one, or where they differ one for each kind, which is
    named by the first agent of its kind. Other models get that of `export_graph`. Raises `ValueError` as these do.
    """
    policy: Any = model.policy
    if not hasattr(policy, "slots"):
        path = stem.with_name(f"{stem.name}{GRAPH}")
        export_graph(model, path)
        return [path]
    agents = [agent.id for agent in policy.team_contract.agents]
    first = [agents[policy.slots.kinds.index(kind)] for kind in range(len(policy.slots.sizes))]
    files = [stem.with_name(f"{stem.name}{f'-{agent}' if len(first) > 1 else ''}{GRAPH}") for agent in first]
    for agent, path in zip(first, files, strict=True):
        export_unity(model, path, agent)
    return files


def _format_of(description: Description) -> int:
    """Returns the lowest format that can express a model."""
    if isinstance(description, TeamDescription):
        return 3
    if description.memory is not None:
        return 4
    return 1 if description.features_extractor is None else 2


def _graphs(policy: Any) -> dict[str, bytes]:
    """Returns the graphs of a policy by name; a team has that of an agent, if all are alike."""
    from sb3_pvp.policies.export.onnx_graph import actor_graph, critic_graph  # needs the extra of this name
    from sb3_pvp.policies.export.team_graph import agent_graph

    if hasattr(policy, "slots"):
        return {ACTOR: agent_graph(policy)} if len(policy.slots.sizes) == 1 else {}
    return {ACTOR: actor_graph(policy), CRITIC: critic_graph(policy)}
