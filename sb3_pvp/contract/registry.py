"""Contracts by name: those of games, and those that a user adds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from sb3_pvp.common.names import loadable, unknown_name
from sb3_pvp.contract.errors import ContractError
from sb3_pvp.contract.files import read_contract
from sb3_pvp.contract.model import Contract

_registered: dict[str, Contract] = {}
#: Who else knows contracts: the names, and how to get one. The games do, which `sb3_pvp.game` hands in.
_sources: list[tuple[Callable[[], Iterable[str]], Callable[[str], Contract]]] = []


def load_contract(name: str | Path | Contract) -> Contract:
    """The contract of a registered name, always the same object, or that in a file, see `read_contract`.

    A contract stands for itself; anything with a folder or the ending ``.json`` is a file. An unknown name raises
    `ContractError`, which lists the known ones.
    """
    if isinstance(name, Contract):
        return name
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
    """All names that `load_contract` knows."""
    return (*(name for names, _ in _sources for name in names()), *_registered)


def add_contract_source(names: Callable[[], Iterable[str]], load: Callable[[str], Contract]) -> None:
    """From now on these are contracts as well; ``load`` must always give the same object for a name."""
    _sources.append((names, load))
