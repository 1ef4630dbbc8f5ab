"""The rules between action heads, compiled to tables (contract.md §2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.contract.errors import ContractError

if TYPE_CHECKING:
    from sb3_pvp.contract.model import Head


@dataclass(frozen=True, eq=False)
class DependencyTables:
    """Which flat entries an entry depends on: bool ``(num_flat_actions, num_flat_actions)`` each, read-only.

    Row j names what must be chosen before entry j may be: all entries of ``require_all[j]``, at least one of
    ``require_any[j]`` (if it names any), and none of ``require_none[j]``.
    """

    require_all: NDArray[np.bool_]
    require_any: NDArray[np.bool_]
    require_none: NDArray[np.bool_]

    def satisfied(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which entries the rules allow after the choices ``chosen``.

        ``chosen`` is bool ``(..., num_flat_actions)``, true at the entries chosen so far; the result has its shape.
        """
        counts = np.asarray(chosen, dtype=np.int64)
        has_all = counts @ self.require_all.T == self.require_all.sum(axis=1)
        has_any = (counts @ self.require_any.T > 0) | ~self.require_any.any(axis=1)
        has_none = counts @ self.require_none.T == 0
        return np.asarray(has_all & has_any & has_none)


def compile_dependencies(heads: Sequence[Head]) -> DependencyTables:
    """Resolves the ids of all rules to flat entries.

    A rule may name only what is decided before it: sub-actions of earlier heads. Anything else raises `ContractError`,
    as does an id that is used twice.
    """
    ids = [action.id for head in heads for action in head.actions]
    positions = {action_id: position for position, action_id in enumerate(ids)}
    decided_in = {action.id: number for number, head in enumerate(heads) for action in head.actions}
    tables = DependencyTables(*(np.zeros((len(ids), len(ids)), dtype=np.bool_) for _ in range(3)))
    for action in (action for head in heads for action in head.actions):
        row = positions[action.id]
        for rule in ("require_all", "require_any", "require_none"):
            for required in getattr(action, rule):
                _check_reference(action.id, rule, required, decided_in)
                getattr(tables, rule)[row, positions[required]] = True
    for table in (tables.require_all, tables.require_any, tables.require_none):
        table.setflags(write=False)
    return tables


def _check_reference(action_id: str, rule: str, required: str, decided_in: dict[str, int]) -> None:
    if required not in decided_in:
        raise ContractError(f"{rule} of sub-action {action_id!r} names {required!r}, which is no sub-action")
    if decided_in[required] >= decided_in[action_id]:
        raise ContractError(
            f"{rule} of sub-action {action_id!r} names {required!r}, which is not decided before it; "
            f"a rule may name sub-actions of earlier heads only, so move the head of {required!r} forward"
        )
