"""The `Contract` and its parts, with lookups by id instead of index numbers; contracts by name and from files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.common.arguments import from_plain
from sb3_pvp.common.errors import loadable, shown, unknown_name
from sb3_pvp.game.contract.parts import (
    Agent,
    ContractError,
    Head,
    Observation,
    cells_of,
    check_shape,
    with_entry,
)
from sb3_pvp.game.contract.rules import Booleans, DependencyTables, check_agents, compile_dependencies


@dataclass(frozen=True)
class Contract:
    """The observations and action heads of a game, both in wire order.

    A flat mask is the concatenation of the masks of all heads (contract.md §2.1). All arrays are read-only. Raises
    `ContractError` if an id is used twice, a list is empty, or a rule names anything but earlier sub-actions.

    A seat may be a team: then ``agents`` divide observations and heads among them, in order and without a gap, and no
    rule goes from one agent to another, since they act at the same time. Other algorithms than those for teams see one
    large contract.
    """

    name: str
    heads: tuple[Head, ...]
    observations: tuple[Observation, ...] = ()  #: May be left out if there is a shape.
    agents: tuple[Agent, ...] = ()  #: Of a seat that is a team.
    shared_weights: bool = False  #: Whether one policy can play all agents, which then have ranges of the same sizes.
    #: Of the observations as an array of three axes, in C order; ``()``: they are a vector.
    shape: tuple[int, ...] = ()
    #: Whether this array is an image: whole numbers from 0 to 255, with the channels on its first axis.
    pixels: bool = False

    def __post_init__(self) -> None:
        if any(head.number for head in self.heads):
            object.__setattr__(self, "heads", tuple(map(with_entry, self.heads)))
        if self.shape and not self.observations:
            object.__setattr__(self, "observations", cells_of(self.shape))
        if self.shape or self.pixels:
            check_shape(self.shape, self.pixels, len(self.observations))
        if not all((self.heads, self.observations, *(head.actions for head in self.heads))):
            raise ContractError(f"contract {self.name!r} has no heads, no observations, or a head without actions")
        _ = self._positions, self.dependencies  # computed now, so that a wrong contract fails at once
        if self.agents:
            check_agents(self.agents, [each.id for each in self.observations], self.heads, self.shared_weights)

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the cached properties, of which the modules can be neither pickled nor deep-copied.
        return Contract, tuple(getattr(self, each.name) for each in fields(self))

    @cached_property
    def head_sizes(self) -> tuple[int, ...]:
        """The number of sub-actions of each head."""
        return tuple(len(head.actions) for head in self.heads)

    @cached_property
    def num_heads(self) -> int:
        """The number of heads, which is the length of an action."""
        return len(self.heads)

    @cached_property
    def numbers(self) -> NDArray[np.int64]:
        """The positions of the heads that are numbers, ascending."""
        return _read_only(np.flatnonzero([head.number for head in self.heads]))

    @property
    def action_dtype(self) -> type[Any]:
        """The type of an action's array: if a head is a number, choices stand beside it as whole numbers."""
        return np.float32 if self.numbers.size else np.int64

    @cached_property
    def num_observations(self) -> int:
        """The length of the observation vector."""
        return len(self.observations)

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The shape of an observation: that of its array, else the length of its vector."""
        return self.shape or (self.num_observations,)

    @cached_property
    def num_flat_actions(self) -> int:
        """The length of the flat mask: the number of sub-actions of all heads."""
        return sum(self.head_sizes)

    @cached_property
    def head_offsets(self) -> NDArray[np.int64]:
        """Where each head begins in the flat mask, and where the last one ends, int64 ``(num_heads + 1,)``."""
        return _read_only(np.cumsum([0, *self.head_sizes]))

    @cached_property
    def fingerprint(self) -> str:
        """A text that is equal for contracts with the same observations, heads, entries and rules."""
        parts = self.observation_shape, self.observations, self.heads, self.agents, self.shared_weights
        return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()

    def flat_offset(self, head: int | str) -> int:
        """Returns where a head, given by position or id, begins in the flat mask."""
        return int(self.head_offsets[self.head_index(head) if isinstance(head, str) else range(self.num_heads)[head]])

    def observation_index(self, observation_id: str) -> int:
        """Returns the position of an observation; `ContractError` for an unknown id, here and below."""
        return self._position("observation", observation_id)

    def agent_index(self, agent_id: str) -> int:
        """Returns the position of an agent of a team."""
        return self._position("agent", agent_id)

    def head_index(self, head_id: str) -> int:
        """Returns the position of a head."""
        return self._position("head", head_id)

    def action_index(self, sub_action_id: str) -> tuple[int, int]:
        """Returns the positions of a sub-action's head and of the sub-action in it (the integer on the wire)."""
        flat = self.flat_index(sub_action_id)
        head = int(np.searchsorted(self.head_offsets, flat, side="right")) - 1  # the last that begins at or before it
        return head, flat - int(self.head_offsets[head])

    def flat_index(self, sub_action_id: str) -> int:
        """Returns the position of a sub-action in the flat mask."""
        return self._position("sub-action", sub_action_id)

    @cached_property
    def agent_entries(self) -> tuple[slice, ...]:
        """The entries of each agent in the flat mask."""
        return tuple(slice(*self.head_offsets[list(agent.heads)].tolist()) for agent in self.agents)

    def active_agents(self, observations: ArrayLike) -> Booleans:
        """Returns which agents are in the game, bool ``(..., agents)``, by observations ``(..., num_observations)``."""
        seen = np.asarray(observations)
        by_id = (each.active for each in self.agents)
        flags = [True if name is None else seen[..., self.observation_index(name)] for name in by_id]
        return np.stack([np.broadcast_to(flag, seen.shape[:-1]) for flag in flags], axis=-1).astype(np.bool_)

    def of_agent(self, agent: Agent) -> Contract:
        """Returns the contract of one agent alone: its observations and heads."""
        heads = self.heads[slice(*agent.heads)]
        return Contract(f"{self.name}/{agent.id}", heads, self.observations[slice(*agent.observations)])

    @cached_property
    def partial_indices(self) -> NDArray[np.int64]:
        """The positions of the partial observations, ascending (contract.md §5)."""
        return _read_only(np.flatnonzero([each.partial for each in self.observations]))

    @cached_property
    def constant_indices(self) -> NDArray[np.int64]:
        """The positions of the constant observations, ascending."""
        return _read_only(np.flatnonzero([observation.constant for observation in self.observations]))

    @cached_property
    def dependencies(self) -> DependencyTables:
        """The rules between heads as tables over flat entries."""
        return compile_dependencies(self.heads)

    @property
    def observation_space(self) -> spaces.Box:
        """A new space of observations: a box `observation_shape`, unbounded float32, or uint8 for pixels."""
        return self._box(self.observation_shape)

    def stacked_space(self, num_frames: int) -> spaces.Box:
        """Returns a new space of several frames, newest first: ``(frames, *observation_shape)``.

        Of a single array the axis of frames is left out, so that extractors of images take it.
        """
        return self._box(self.shape if self.shape and num_frames == 1 else (num_frames, *self.observation_shape))

    def _box(self, shape: tuple[int, ...]) -> spaces.Box:
        # Not cached, here and below: spaces have a random generator, and must not be shared.
        if self.pixels:
            return spaces.Box(0, 255, shape, np.uint8)
        return spaces.Box(-np.inf, np.inf, shape, np.float32)

    @property
    def action_space(self) -> spaces.MultiDiscrete | spaces.Box:
        """A new space of actions ``(num_heads,)``: int64, or a float32 box if a head is a number."""
        sizes = np.array(self.head_sizes, dtype=np.int64)
        if not self.numbers.size:
            return spaces.MultiDiscrete(sizes)
        low, high = np.zeros(self.num_heads, np.float32), (sizes - 1).astype(np.float32)
        low[self.numbers], high[self.numbers] = -1, 1
        return spaces.Box(low, high, dtype=np.float32)

    def split_mask(self, flat_mask: ArrayLike) -> list[Booleans]:
        """Splits a flat mask ``(..., num_flat_actions)`` into one per head, bool ``(..., size of the head)``."""
        return np.split(self._checked_mask(flat_mask), self.head_offsets[1:-1], axis=-1)

    def conditional_mask(self, flat_mask: ArrayLike, chosen: ArrayLike) -> Booleans:
        """Returns the mask of head h, bool ``(..., size of head h)``, after the choices of the heads before it.

        ``flat_mask`` is bool ``(..., num_flat_actions)``, ``chosen`` ints ``(..., h)``. Where mask and rules leave
        nothing, entry 0 is legal (contract.md §2.3). Raises `ContractError` for wrong shapes, dtypes and choices.
        """
        mask, choices = self._checked_mask(flat_mask), np.asarray(chosen)
        if not choices.ndim or choices.shape[-1] >= self.num_heads:
            raise ContractError(f"{self.name} takes 0 to {self.num_heads - 1} earlier choices, not {choices.shape}")
        if choices.size and choices.dtype.kind not in "iu":
            raise ContractError(f"choices of {self.name} must be integers, not {choices.dtype}")
        if ((choices < 0) | (choices >= self.head_sizes[: choices.shape[-1]])).any():
            raise ContractError(f"a choice is out of range: the heads of {self.name} have sizes {self.head_sizes}")
        return self._allowed(mask, choices.astype(np.int64))

    def random_action(
        self, flat_mask: ArrayLike, rng: np.random.Generator | Sequence[np.random.Generator]
    ) -> NDArray[Any]:
        """Samples an action per mask ``(..., num_heads)``, each head uniformly from its `conditional_mask`.

        ``rng`` is a generator, or one for each of the masks ``(N, num_flat_actions)``: then an action does not depend
        on which others are sampled beside it.
        """
        mask = self._checked_mask(flat_mask)
        action = np.zeros((*mask.shape[:-1], self.num_heads), dtype=np.int64)
        for head in range(self.num_heads):
            allowed = self._allowed(mask, action[..., :head])
            # Not the product of independent draws: what is allowed in a head depends on the draws before it.
            # -1 for forbidden entries, because `random` may return 0.0 for an allowed one.
            action[..., head] = np.where(allowed, _uniform(rng, allowed.shape), -1.0).argmax(axis=-1)
        if self.numbers.size:
            action = action.astype(np.float32)
            action[..., self.numbers] = 2 * _uniform(rng, (*mask.shape[:-1], len(self.numbers))) - 1
        return action

    @cached_property
    def observation_numbers(self) -> ModuleType:
        """A module with the position of each observation as an attribute: compile-time constants for Numba."""
        return self._numbers("observation_numbers", self._positions["observation"])

    @cached_property
    def head_numbers(self) -> ModuleType:
        """The same for the positions of heads."""
        return self._numbers("head_numbers", self._positions["head"])

    @cached_property
    def action_numbers(self) -> ModuleType:
        """The same for the positions of sub-actions in their heads."""
        return self._numbers(
            "action_numbers", {each: self.action_index(each)[1] for each in self._positions["sub-action"]}
        )

    @cached_property
    def flat_numbers(self) -> ModuleType:
        """The same for the positions of sub-actions in the flat mask."""
        return self._numbers("flat_numbers", self._positions["sub-action"])

    def _checked_mask(self, flat_mask: ArrayLike) -> Booleans:
        mask = np.asarray(flat_mask)
        if mask.ndim == 0 or mask.shape[-1] != self.num_flat_actions:
            expected = f"(..., {self.num_flat_actions})"
            raise ContractError(f"a flat mask of {self.name} must have shape {expected}, got {mask.shape}")
        return mask.astype(np.bool_)

    def _allowed(self, mask: Booleans, choices: NDArray[np.int64]) -> Booleans:
        # The same in Numba: `sample_head` in policies/kernels.py.
        head = choices.shape[-1]
        entries = np.zeros((*choices.shape[:-1], self.num_flat_actions), dtype=np.bool_)
        np.put_along_axis(entries, choices + self.head_offsets[:head], True, axis=-1)
        begin, end = self.head_offsets[head : head + 2]
        allowed = (mask & self.dependencies.satisfied(entries))[..., begin:end]  # a copy, made by the &
        allowed[..., 0] |= ~allowed.any(axis=-1)  # the fallback of contract.md §2.3
        return allowed

    def _numbers(self, title: str, positions: Mapping[str, int]) -> ModuleType:
        module = ModuleType(f"{__name__}.{self.name}.{title}")
        vars(module).update(positions)
        return module

    @cached_property
    def _positions(self) -> Mapping[str, Mapping[str, int]]:
        choices = [action.id for head in self.heads for action in head.actions]
        heads, observations = [head.id for head in self.heads], [each.id for each in self.observations]
        agents = [agent.id for agent in self.agents]
        every = {"head": heads, "sub-action": choices, "observation": observations, "agent": agents}
        for kind, ids in every.items():
            if len(set(ids)) < len(ids):
                twice = next(name for name in ids if ids.count(name) > 1)
                raise ContractError(f"{kind} id {twice!r} is used twice; ids must be unique in the whole contract")
        return {kind: {name: position for position, name in enumerate(ids)} for kind, ids in every.items()}

    def _position(self, kind: str, name: str) -> int:
        if name not in self._positions[kind]:
            raise unknown_name(kind, name, self._positions[kind], ContractError)
        return self._positions[kind][name]


def _uniform(rng: np.random.Generator | Sequence[np.random.Generator], shape: tuple[int, ...]) -> NDArray[np.float64]:
    if isinstance(rng, np.random.Generator):
        return rng.random(shape)
    return np.array([each.random(shape[-1]) for each in rng]).reshape(shape)


def _read_only(array: NDArray[np.int64]) -> NDArray[np.int64]:
    array.setflags(write=False)  # it is cached, and every caller gets the same array
    return array


_HEADER = {"format": "sb3_pvp.contract", "version": 1}
#: Keys of our own file format, with the keys of the original system's format (contract.md §1) that they replace.
_NAMES = {"heads": "actions", "about": "description", "choices": "actions"}
_NAMES |= {rule: f"require_{rule}" for rule in ("all", "any", "none")}

_registered: dict[str, Contract] = {}
#: Pairs of functions that list names and load a contract; `sb3_pvp.game`, which imports this package, adds the games'.
_sources: list[tuple[Callable[[], Iterable[str]], Callable[[str], Contract]]] = []


def load_contract(name: str | Path | Contract) -> Contract:
    """Returns a contract by registered name (always the same object), from a file (see `read_contract`), or itself.

    Anything with a folder or the ending ``.json`` is a file. `ContractError` if name or file cannot be loaded.
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
    """Returns all named contracts; warns once about each that cannot be loaded, and leaves it out."""
    return list(loadable("contract", registered_contracts(), load_contract))


def register_contract(name: str, contract: str | Path | Contract) -> None:
    """Registers a contract, or the one in a file, under a name; `ContractError` if the name is taken."""
    if name in registered_contracts():
        raise ContractError(f"contract {name!r} is already registered; choose another name")
    _registered[name] = load_contract(contract)


def registered_contracts() -> tuple[str, ...]:
    """Returns the names of all contracts: those of the sources, mainly games, then those registered one by one."""
    return (*(name for names, _ in _sources for name in names()), *_registered)


def add_contract_source(names: Callable[[], Iterable[str]], load: Callable[[str], Contract]) -> None:
    """Adds contracts that are listed by ``names`` and loaded on demand; ``load`` must cache what it returns."""
    _sources.append((names, load))


@dataclass
class _Content:
    # What both formats contain. The order of the fields is that of `Contract`.
    name: str  # by default that of the file: the original format has none
    actions: tuple[Head, ...]
    observations: tuple[Observation, ...] = ()
    agents: tuple[Agent, ...] = ()
    shared_weights: bool = False
    shape: tuple[int, ...] = ()
    pixels: bool = False


def read_contract(path: str | Path) -> Contract:
    """Reads a contract from a JSON file in either format; `ContractError`, with file and field, if it is invalid."""
    file = Path(path)
    try:
        data = json.loads(file.read_text(encoding="utf-8"), object_pairs_hook=_object)
        if not isinstance(data, dict):
            raise ContractError(f"it must be an object, not {shown(data)}")
        if {name: data.pop(name, value) for name, value in _HEADER.items()} != _HEADER:
            raise ContractError("only version 1 of the format 'sb3_pvp.contract' can be read")
        if not data.keys() & {"observations", "shape"}:
            raise ContractError("it lacks 'observations', or a 'shape' of them")
        return Contract(*vars(from_plain(_Content, {"name": file.stem, **data})).values())
    except OSError as error:
        raise ContractError(f"cannot read contract file {file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ContractError(f"contract file {file}: {error}") from error


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Converts a JSON object of either format to the keys of the original format."""
    fields = dict(pairs)
    if len(fields) < len(pairs):  # the json module would silently keep the last one
        raise ContractError(f"a field is repeated among {', '.join(name for name, _ in pairs)}")
    if isinstance(fields.get("dependencies"), dict):
        fields |= fields.pop("dependencies")
    if isinstance(fields.get("flags"), list):
        fields |= {str(flag): True for flag in fields.pop("flags")}
    # The heads of an agent are a range of positions; those of the contract are what the original calls actions.
    heads = fields.get("heads")
    is_agent = isinstance(heads, list) and bool(heads) and all(isinstance(each, int) for each in heads)
    return fields if is_agent else {_NAMES.get(name, name): value for name, value in fields.items()}
