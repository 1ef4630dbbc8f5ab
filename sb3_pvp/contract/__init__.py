"""Contracts: the observations and actions of a game, with action masks and the rules between heads."""

from sb3_pvp.contract.actions import ContractError, DependencyTables
from sb3_pvp.contract.model import (
    Contract,
    Head,
    Observation,
    SubAction,
    add_contract_source,
    load_contract,
    read_contract,
    register_contract,
    registered_contracts,
)

__all__ = [
    "Contract",
    "ContractError",
    "DependencyTables",
    "Head",
    "Observation",
    "SubAction",
    "add_contract_source",
    "load_contract",
    "read_contract",
    "register_contract",
    "registered_contracts",
]
