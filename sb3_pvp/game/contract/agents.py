"""The agents of a seat that is a team: whether they divide a contract's observations and heads among them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sb3_pvp.game.contract.parts import Agent
from sb3_pvp.game.contract.rules import ContractError, DependencyTables


def check_agents(
    agents: Sequence[Agent], observations: Sequence[str], head_sizes: Sequence[int], shared_weights: bool
) -> None:
    """Checks ranges and flags, given the ids of all observations; raises `ContractError`."""
    _check_ranges(agents, "observations", len(observations))
    _check_ranges(agents, "heads", len(head_sizes))
    for agent in agents:
        if agent.active is not None and agent.active not in observations[slice(*agent.observations)]:
            raise ContractError(f"agent {agent.id!r} is active by {agent.active!r}, which is no observation of its own")
    shapes = {(np.ptp(each.observations), tuple(head_sizes[slice(*each.heads)])) for each in agents}
    if shared_weights and len(shapes) > 1:
        raise ContractError("agents that share weights must have observations and heads of the same sizes")


def _check_ranges(agents: Sequence[Agent], what: str, total: int) -> None:
    last = 0
    for agent in agents:
        begin, end = getattr(agent, what)
        fault = "overlap with" if begin < last else "leave a gap to" if begin > last else ""
        if fault:
            raise ContractError(f"the {what} {begin} to {end} of agent {agent.id!r} {fault} those before {last}")
        if end <= begin:
            raise ContractError(f"agent {agent.id!r} has no {what}: {begin} to {end}")
        last = end
    if last != total:
        raise ContractError(f"the agents have {last} {what} together, but the contract has {total}")


def check_rules(agents: Sequence[Agent], entries: Sequence[slice], rules: DependencyTables) -> None:
    """Raises `ContractError` if a rule goes from one agent to another, given each agent's entries of the flat mask."""
    of_entry = np.repeat(range(len(agents)), [part.stop - part.start for part in entries])
    for table in vars(rules).values():
        for entry, required in np.argwhere(table).tolist():
            if of_entry[entry] != of_entry[required]:
                own, other = agents[of_entry[entry]].id, agents[of_entry[required]].id
                raise ContractError(
                    f"a rule of agent {own!r} names a choice of {other!r}, but agents act at the same time"
                )
