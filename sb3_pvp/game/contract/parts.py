"""What a contract consists of: observations, and heads of sub-actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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
    """One component of the action: exactly one of ``actions`` is chosen, by its position."""

    id: str
    description: str
    actions: tuple[SubAction, ...]


@dataclass(frozen=True)
class Agent:
    """One agent of a seat that is a team: what it sees and decides, as half-open ranges of positions."""

    id: str
    observations: tuple[int, int]
    heads: tuple[int, int]
    #: Id of the observation of its own that is 0 while it is out of the game; ``None``: it never is.
    active: str | None = None
