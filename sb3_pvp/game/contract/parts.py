"""What a contract consists of: observations, perhaps as an array, heads of sub-actions, and agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Literal

AXES = 3  #: Of every array of observations: planes of a board, or channels of an image.


class ContractError(ValueError):
    """Raised for an invalid contract or contract file, an unknown id, and masks or choices that do not fit."""


@dataclass(frozen=True)
class Observation:
    """One number of the observation vector."""

    id: str
    description: str
    partial: bool = False  #: Hidden from the opponent; part of the privileged observation (contract.md §5).
    constant: bool = False  #: Hardly changes within a fight (a hint only).
    kind: Literal["int", "float"] = "float"  #: How the number is written on the wire.


@dataclass(frozen=True)
class SubAction:
    """One choice of a head. The rules name sub-actions of earlier heads, of which all, any or none must be chosen."""

    id: str
    description: str
    require_all: tuple[str, ...] = ()
    require_any: tuple[str, ...] = ()
    require_none: tuple[str, ...] = ()


@dataclass(frozen=True)
class Head:
    """One component of the action: exactly one of ``actions`` is chosen, by its position; or it is a number."""

    id: str
    description: str
    actions: tuple[SubAction, ...] = ()
    #: Whether it is a real number from -1 to 1, which the game scales to its own bounds. In masks it has one entry,
    #: which is always legal: a sub-action that is called like the head, and that a contract adds.
    number: bool = False


@dataclass(frozen=True)
class Agent:
    """One agent of a seat that is a team: what it sees and decides, as half-open ranges of positions."""

    id: str
    observations: tuple[int, int]
    heads: tuple[int, int]
    #: Id of the observation of its own that is 0 while it is out of the game; ``None``: it never is.
    active: str | None = None
    seats: tuple[int, ...] = (0, 1)  #: Those on which it is ever in the game.


def agents_per_seat(agents: Sequence[Agent]) -> float:
    """Returns how many agents a team has, on average over the seats that have any; 1 in a game without agents."""
    seats = [seat for agent in agents for seat in agent.seats]
    return len(seats) / len({*seats}) if seats else 1.0


def with_entry(head: Head) -> Head:
    """Returns a head that is a number with its entry, any other as it is; `ContractError` for a number with choices."""
    own = (SubAction(head.id, head.description),)
    if head.number and head.actions not in ((), own):
        raise ContractError(f"head {head.id!r} is a number: leave out its choices")
    return replace(head, actions=own) if head.number else head


def cells_of(shape: tuple[int, ...]) -> tuple[Observation, ...]:
    """Returns observations for all numbers of an array, in C order, with their place in it as id."""
    places = ("_".join(map(str, place)) for place in product(*map(range, shape)))
    return tuple(Observation(f"cell_{place}", f"The number at {place.replace('_', ', ')}.") for place in places)


def check_shape(shape: tuple[int, ...], pixels: bool, num_observations: int) -> None:
    """Raises `ContractError` unless this is the shape of an array of so many numbers, and of an image if of pixels."""
    if len(shape) != AXES or min(shape) < 1:
        raise ContractError(f"the shape of observations has {AXES} axes of at least 1, such as (8, 8, 12), got {shape}")
    if prod(shape) != num_observations:
        raise ContractError(
            f"the shape {shape} has {prod(shape)} numbers, but there are {num_observations} observations"
        )
    if pixels and shape[0] != min(shape):  # else SB3 would transpose them, for the learner only
        raise ContractError(f"pixels have their channels on the first axis, as PyTorch takes them, got {shape}")
