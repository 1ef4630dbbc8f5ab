"""Contracts by name, and in files of our own format and that of the original system (contract.md §1)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sb3_pvp.common.names import loadable, unknown_name
from sb3_pvp.common.plain_values import from_plain
from sb3_pvp.contract.actions import ContractError
from sb3_pvp.contract.model import Contract, Head, Observation

FORMAT = "sb3_pvp.contract"
VERSION = 1
#: What our own format calls otherwise than the original system, whose names the classes of `model` have.
_NAMES = {"heads": "actions", "about": "description", "choices": "actions"}
_NAMES |= {rule: f"require_{rule}" for rule in ("all", "any", "none")}

_registered: dict[str, Contract] = {}
#: Who else knows contracts: the names, and how to get one. The games do, which `sb3_pvp.game` hands in.
_sources: list[tuple[Callable[[], Iterable[str]], Callable[[str], Contract]]] = []


def load_contract(name: str | Path | Contract) -> Contract:
    """The contract of a registered name, always the same object, or that in a file, see `read_contract`.

    A contract stands for itself; anything with a folder or the ending ``.json`` is a file. Anything else, and an
    unknown name, raises `ContractError`.
    """
    if isinstance(name, Contract):
        return name
    if not isinstance(name, str | Path):
        raise ContractError(f"a contract is a name, the path of a file or a Contract, got {name!r:.60}")
    if isinstance(name, Path) or name.endswith(".json") or "/" in name or "\\" in name:
        return read_contract(name)
    if name in _registered:
        return _registered[name]
    for names, load in _sources:
        if name in names():
            return load(name)
    raise unknown_name("contract", name, registered_contracts(), ContractError)


def loadable_contracts() -> list[Contract]:
    """All that have a name, without those that cannot be loaded: each of them is told in one warning."""
    return list(loadable("contract", registered_contracts(), load_contract))


def register_contract(name: str, contract: str | Path | Contract) -> None:
    """Makes ``load_contract(name)`` give this contract, or that of this file; `ContractError` if the name is taken."""
    if name in registered_contracts():
        raise ContractError(f"contract {name!r} is registered already; choose another name")
    _registered[name] = load_contract(contract)


def registered_contracts() -> tuple[str, ...]:
    return (*(name for names, _ in _sources for name in names()), *_registered)


def add_contract_source(names: Callable[[], Iterable[str]], load: Callable[[str], Contract]) -> None:
    """From now on these are contracts as well; ``load`` must always give the same object for a name."""
    _sources.append((names, load))


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
