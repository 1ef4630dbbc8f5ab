"""The rules between heads as tables over flat entries (contract.md §2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract.parts import Head

Booleans = NDArray[np.bool_]


class ContractError(ValueError):
    """Raised for an invalid contract or contract file, an unknown id, and masks or choices that do not fit."""


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
        counts = np.asarray(chosen, dtype=np.int64)  # a product of bools would not count
        has_all = counts @ self.require_all.T == self.require_all.sum(axis=1)
        has_any = (counts @ self.require_any.T > 0) | ~self.require_any.any(axis=1)
        has_none = counts @ self.require_none.T == 0
        return np.asarray(has_all & has_any & has_none)


def compile_dependencies(heads: Sequence[Head]) -> DependencyTables:
    """Compiles the rules; raises `ContractError` if one names anything but sub-actions of earlier heads."""
    heads_of = {action.id: number for number, head in enumerate(heads) for action in head.actions}
    # Ids are unique in the whole contract, so that the order of this dictionary is the flat order.
    positions = {name: flat for flat, name in enumerate(heads_of)}
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
