"""Reading contract files: our own format, and the JSON of the original system (contract.md §1)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sb3_pvp.common.plain_values import from_plain
from sb3_pvp.contract.errors import ContractError
from sb3_pvp.contract.model import Contract, Head, Observation

FORMAT = "sb3_pvp.contract"
VERSION = 1
#: What our own format calls otherwise than the original system, whose names the classes of `model` have.
_NAMES = {"heads": "actions", "about": "description", "choices": "actions"}
_NAMES |= {rule: f"require_{rule}" for rule in ("all", "any", "none")}


@dataclass(frozen=True)
class _Content:
    name: str
    actions: tuple[Head, ...]
    observations: tuple[Observation, ...]


def read_contract(path: str | Path) -> Contract:
    """The contract in a JSON file, in our format or in that of the original system (named after its file).

    Raises `ContractError`, which names file and field, if the file is missing or holds anything unexpected.
    """
    file = Path(path)
    try:
        data = json.loads(file.read_text(encoding="utf-8"), object_pairs_hook=_object)
        if not isinstance(data, dict):
            raise ContractError(f"it must be an object, not {data!r:.60}")
        if (data.pop("format", FORMAT), data.pop("version", VERSION)) != (FORMAT, VERSION):
            raise ContractError(f"only format {FORMAT!r}, version {VERSION} can be read")
        content = from_plain(_Content, {"name": file.stem, **data})
        return Contract(content.name, content.actions, content.observations)
    except OSError as error:
        raise ContractError(f"cannot read contract file {file}: {error.strerror}") from error
    except ValueError as error:
        raise ContractError(f"contract file {file}: {error}") from error


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object of either format, under the names of the original one."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ContractError(f"a field is written twice among {', '.join(name for name, _ in pairs)}")
    if isinstance(fields.get("dependencies"), dict):
        fields |= fields.pop("dependencies")
    if isinstance(fields.get("flags"), list):
        fields |= {str(flag): True for flag in fields.pop("flags")}
    return {_NAMES.get(name, name): value for name, value in fields.items()}
