"""A contract and its parts, with look-ups by id, so that no other code needs an index number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType, ModuleType
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.contract import sampling
from sb3_pvp.contract.dependencies import DependencyTables, compile_dependencies
from sb3_pvp.contract.errors import ContractError, unknown_name

Kind = Literal["int", "float"]


@dataclass(frozen=True)
class Observation:
    """One number that a fighter sees.

    ``partial``: the opponent does not know its value. ``constant``: it hardly changes within a fight (a hint only).
    ``kind``: how the wire writes the number.
    """

    id: str
    description: str
    partial: bool = False
    constant: bool = False
    kind: Kind = "float"


@dataclass(frozen=True)
class SubAction:
    """One choice of a head, and what must have been chosen before it (ids of other sub-actions)."""

    id: str
    description: str
    require_all: tuple[str, ...] = ()
    require_any: tuple[str, ...] = ()
    require_none: tuple[str, ...] = ()


@dataclass(frozen=True)
class Head:
    """One decision of an action: exactly one of ``actions`` is chosen, by its position."""

    id: str
    description: str
    actions: tuple[SubAction, ...]


@dataclass(frozen=True)
class Contract:
    """What a fighter sees (``observations``) and does (``heads``), both in wire order.

    A flat mask is the concatenation of the masks of all heads (contract.md §2.1). Raises `ContractError` if an id is
    used twice, a list is empty, or a rule names something that is not decided earlier. All arrays are read-only.
    """

    name: str
    heads: tuple[Head, ...]
    observations: tuple[Observation, ...]

    def __post_init__(self) -> None:
        for head in self.heads:
            _check_filled(f"head {head.id!r}", head.actions)
        _check_filled(f"contract {self.name!r}", self.heads)
        _check_filled(f"contract {self.name!r}", self.observations)
        _check_unique("head", (head.id for head in self.heads))
        _check_unique("sub-action", (action.id for head in self.heads for action in head.actions))
        _check_unique("observation", (observation.id for observation in self.observations))
        _ = self.dependencies

    def __reduce__(self) -> tuple[Any, ...]:
        # What is cached (modules above all) can be neither pickled nor deep-copied, and need not be.
        return Contract, (self.name, self.heads, self.observations)

    @cached_property
    def head_sizes(self) -> tuple[int, ...]:
        """The number of sub-actions of each head."""
        return tuple(len(head.actions) for head in self.heads)

    @property
    def num_heads(self) -> int:
        """The number of decisions in one action."""
        return len(self.heads)

    @property
    def num_observations(self) -> int:
        """The length of the observation vector."""
        return len(self.observations)

    @property
    def num_flat_actions(self) -> int:
        """The length of the flat mask: the sub-actions of all heads."""
        return sum(self.head_sizes)

    @cached_property
    def head_offsets(self) -> NDArray[np.int64]:
        """Where each head begins in the flat mask, and where the last one ends: int64 ``(num_heads + 1,)``."""
        return _read_only(np.cumsum([0, *self.head_sizes]))

    def flat_offset(self, head: int | str) -> int:
        """Where a head, given by position or id, begins in the flat mask."""
        return int(self.head_offsets[self.head_index(head) if isinstance(head, str) else range(self.num_heads)[head]])

    def observation_index(self, observation_id: str) -> int:
        """The position of an observation in the vector."""
        return _look_up("observation", observation_id, self._observation_positions)

    def head_index(self, head_id: str) -> int:
        """The position of a head in an action."""
        return _look_up("head", head_id, self._head_positions)

    def action_index(self, sub_action_id: str) -> tuple[int, int]:
        """The position of a sub-action: that of its head, and its own in there (the integer of the wire)."""
        flat = self.flat_index(sub_action_id)
        head = int(np.searchsorted(self.head_offsets, flat, side="right")) - 1
        return head, flat - int(self.head_offsets[head])

    def flat_index(self, sub_action_id: str) -> int:
        """The position of a sub-action in the flat mask."""
        return _look_up("sub-action", sub_action_id, self._flat_positions)

    @cached_property
    def partial_indices(self) -> NDArray[np.int64]:
        """The observations that the opponent does not know, ascending (contract.md §5)."""
        return _indices(observation.partial for observation in self.observations)

    @cached_property
    def constant_indices(self) -> NDArray[np.int64]:
        """The observations that hardly change within a fight, ascending."""
        return _indices(observation.constant for observation in self.observations)

    @cached_property
    def dependencies(self) -> DependencyTables:
        """The rules between heads as tables over flat entries."""
        return compile_dependencies(self.heads)

    @property
    def observation_space(self) -> spaces.Box:
        """A new unbounded float32 box ``(num_observations,)``."""
        return spaces.Box(-np.inf, np.inf, (self.num_observations,), dtype=np.float32)

    @property
    def action_space(self) -> spaces.MultiDiscrete:
        """A new space of int64 actions ``(num_heads,)``."""
        return spaces.MultiDiscrete(np.array(self.head_sizes, dtype=np.int64))

    def split_mask(self, flat_mask: ArrayLike) -> list[NDArray[np.bool_]]:
        """The part of each head in a flat mask ``(..., num_flat_actions)``, as the wire lists them."""
        return sampling.split_mask(self, flat_mask)

    def conditional_mask(self, flat_mask: ArrayLike, chosen: ArrayLike) -> NDArray[np.bool_]:
        """What the next head may choose after the earlier heads chose ``chosen``; see `sampling.conditional_mask`."""
        return sampling.conditional_mask(self, flat_mask, chosen)

    def random_action(self, flat_mask: ArrayLike, rng: np.random.Generator) -> NDArray[np.int64]:
        """A random legal action for each mask; see `sampling.random_action`."""
        return sampling.random_action(self, flat_mask, rng)

    @cached_property
    def observation_numbers(self) -> ModuleType:
        """The position of every observation as an attribute named by its id.

        This and its kin are modules because Numba takes the attributes of a module as compile-time constants.
        """
        return self._numbers("observation_numbers", self._observation_positions)

    @cached_property
    def head_numbers(self) -> ModuleType:
        """The position of every head as an attribute named by its id."""
        return self._numbers("head_numbers", self._head_positions)

    @cached_property
    def action_numbers(self) -> ModuleType:
        """The position of every sub-action in its head as an attribute named by its id."""
        return self._numbers("action_numbers", {name: self.action_index(name)[1] for name in self._flat_positions})

    @cached_property
    def flat_numbers(self) -> ModuleType:
        """The position of every sub-action in the flat mask as an attribute named by its id."""
        return self._numbers("flat_numbers", self._flat_positions)

    def _numbers(self, title: str, positions: Mapping[str, int]) -> ModuleType:
        module = ModuleType(f"{__name__}.{self.name}.{title}", f"{title} of contract {self.name}")
        module.__dict__.update(positions)
        return module

    @cached_property
    def _observation_positions(self) -> Mapping[str, int]:
        return _positions(observation.id for observation in self.observations)

    @cached_property
    def _head_positions(self) -> Mapping[str, int]:
        return _positions(head.id for head in self.heads)

    @cached_property
    def _flat_positions(self) -> Mapping[str, int]:
        return _positions(action.id for head in self.heads for action in head.actions)


def _positions(ids: Iterable[str]) -> Mapping[str, int]:
    return MappingProxyType({name: position for position, name in enumerate(ids)})


def _look_up(kind: str, name: str, positions: Mapping[str, int]) -> int:
    if name not in positions:
        raise unknown_name(kind, name, positions)
    return positions[name]


def _read_only(array: NDArray[np.int64]) -> NDArray[np.int64]:
    array.setflags(write=False)
    return array


def _indices(flags: Iterable[bool]) -> NDArray[np.int64]:
    return _read_only(np.flatnonzero(list(flags)).astype(np.int64))


def _check_filled(owner: str, items: Sequence[object]) -> None:
    if not items:
        raise ContractError(f"{owner} has an empty list; heads, their actions and observations need one entry at least")


def _check_unique(kind: str, ids: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise ContractError(f"{kind} id {name!r} is used twice; ids must be unique in the whole contract")
        seen.add(name)
