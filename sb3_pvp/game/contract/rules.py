"""The rules between heads as tables over flat entries (contract.md §2.2), and those for the agents of a team."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract.parts import Agent, ContractError, Head

Booleans = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class DependencyTables:
    """The rules between heads as read-only bool arrays ``(num_flat_actions, num_flat_actions)`` (contract.md §2.2).

    Flat entry j is allowed if all entries in ``require_all[j]`` were chosen before it, at least one in
    ``require_any[j]`` (if it has any), and none in ``require_none[j]``.
    """

    require_all: Booleans
    require_any: Booleans
    require_none: Booleans

    def satisfied(self, chosen: Booleans) -> Booleans:
        """Returns which entries the rules allow, given those ``chosen``; both bool ``(..., num_flat_actions)``."""
        allowed = np.ones(np.shape(chosen), np.bool_)
        ruled, (of_all, of_any, of_none) = self._of_ruled
        if ruled.size:  # few entries have rules, and in games of thousands of them none
            counts = np.asarray(chosen, dtype=np.float32)  # a product of bools would not count, one of ints is slow
            has_all = counts @ of_all == of_all.sum(axis=0)
            has_any = (counts @ of_any > 0) | ~of_any.any(axis=0)
            allowed[..., ruled] = has_all & has_any & (counts @ of_none == 0)
        return allowed

    @cached_property
    def _of_ruled(self) -> tuple[NDArray[np.int64], tuple[NDArray[np.float32], ...]]:
        tables = (self.require_all, self.require_any, self.require_none)
        ruled = np.flatnonzero(np.any([table.any(axis=1) for table in tables], axis=0))
        return ruled, tuple(np.ascontiguousarray(table[ruled].T, dtype=np.float32) for table in tables)


def compile_dependencies(heads: Sequence[Head]) -> DependencyTables:
    """Compiles the rules; raises `ContractError` if one names anything but sub-actions of earlier heads."""
    heads_of = {action.id: number for number, head in enumerate(heads) for action in head.actions}
    # Ids are unique in the whole contract, so that the order of this dictionary is the flat order.
    positions = {name: flat for flat, name in enumerate(heads_of)}
    # Rules name sub-actions, tables have numbers: nothing looks up an id while fights are played.
    tables = DependencyTables(*np.zeros((3, len(positions), len(positions)), np.bool_))
    for rule, table in vars(tables).items():
        for action in (action for head in heads for action in head.actions):
            for required in getattr(action, rule):
                what = f"{rule} of sub-action {action.id!r} names {required!r}, which is"
                if required not in positions:
                    raise ContractError(f"{what} not a sub-action")
                if heads_of[required] >= heads_of[action.id]:
                    raise ContractError(f"{what} not decided before it: move the head of {required!r} forward")
                table[positions[action.id], positions[required]] = True
        table.setflags(write=False)
    return tables


def check_agents(
    agents: Sequence[Agent], observations: Sequence[str], heads: Sequence[Head], shared_weights: bool
) -> None:
    """Raises `ContractError` unless agents divide the observations, given by id, and the heads among them."""
    for what, total in (("observations", len(observations)), ("heads", len(heads))):
        last = 0
        for agent in agents:
            begin, end = getattr(agent, what)
            if begin != last:
                fault = "overlap with" if begin < last else "leave a gap to"
                raise ContractError(f"the {what} {begin} to {end} of agent {agent.id!r} {fault} those before {last}")
            if end <= begin:
                raise ContractError(f"agent {agent.id!r} has no {what}: {begin} to {end}")
            last = end
        if last != total:
            raise ContractError(f"the agents have {last} {what} together, but the contract has {total}")
    for agent in agents:
        if agent.active is not None and agent.active not in observations[slice(*agent.observations)]:
            raise ContractError(f"agent {agent.id!r} is active by {agent.active!r}, which is no observation of its own")
        if not agent.seats or not {*agent.seats} <= {0, 1}:
            raise ContractError(f"agent {agent.id!r} is on the seats {agent.seats}, but there are the seats 0 and 1")
    sizes = [[len(head.actions) for head in heads[slice(*each.heads)]] for each in agents]
    seen = [each.observations[1] - each.observations[0] for each in agents]
    if shared_weights and (sizes.count(sizes[0]) < len(agents) or seen.count(seen[0]) < len(agents)):
        raise ContractError("agents that share weights must have observations and heads of the same sizes")
    owner = {action.id: agent.id for agent in agents for head in heads[slice(*agent.heads)] for action in head.actions}
    for action in (action for head in heads for action in head.actions):
        for required in (*action.require_all, *action.require_any, *action.require_none):
            if (other := owner[required]) != (own := owner[action.id]):
                raise ContractError(
                    f"a rule of agent {own!r} names a choice of {other!r}, but agents act at the same time"
                )
