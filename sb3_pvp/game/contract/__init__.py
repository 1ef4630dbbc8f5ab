"""Contracts: the observations and actions of a game, with action masks and the rules between heads."""

from sb3_pvp.game.contract.model import (
    Contract,
    add_contract_source,
    load_contract,
    read_contract,
    register_contract,
    registered_contracts,
)
from sb3_pvp.game.contract.parts import Agent, ContractError, Head, Observation, SubAction, agents_per_seat
from sb3_pvp.game.contract.rules import DependencyTables

__all__ = [
    "Agent",
    "Contract",
    "ContractError",
    "DependencyTables",
    "Head",
    "Observation",
    "SubAction",
    "add_contract_source",
    "agents_per_seat",
    "load_contract",
    "read_contract",
    "register_contract",
    "registered_contracts",
]
