"""What games for a team alone have in common.

The team has the first seat. The other one is empty: one legal action, zeros to see, and no reward.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.arrays import OutcomeRewards
from sb3_pvp.game.contract import Agent, Contract, Head, Observation, SubAction
from sb3_pvp.game.world import Transition

#: Fields of the report of a world for `TeamRewards`.
TEAM_REPORT = (("reward", np.float32),)


class TeamRewards(OutcomeRewards):
    """What the game itself rewards: the field ``reward`` of the report, times a weight."""

    terms: ClassVar[Mapping[str, str]] = {"team": "The sum of what the game gives to the agents of the team."}
    tags: ClassVar[Mapping[str, str]] = {"team_weight": "team"}

    def __init__(self) -> None:
        self._defaults = {"team": 1.0}

    def compute(self, transition: Transition, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the term, float32 ``(1, N)``."""
        weighted: NDArray[np.float32] = weights * transition.report["reward"]
        return weighted


def team_contract(
    name: str,
    moves: Mapping[str, Sequence[Iterable[Any] | None]],
    seen: Mapping[str, Sequence[str]],
    shared: bool = True,
) -> Contract:
    """Returns the contract of a team alone.

    Args:
        name: of the contract.
        moves: for each agent its heads, by what they choose between; ``None`` for a number.
        seen: for each agent what it sees; behind that comes whether it is ``active``.
        shared: whether one policy can play all agents.
    """
    heads: list[Head] = []
    observations: list[Observation] = []
    agents = []
    for agent, its_heads in moves.items():
        begins = len(observations), len(heads)
        for number, choices in enumerate(its_heads):
            head = agent if len(its_heads) == 1 else f"{agent}_{number}"
            actions = [SubAction(f"{head}_{choice}", f"{agent}: {choice}.") for choice in choices or ()]
            heads.append(Head(f"{head}_head", f"What {agent} does.", tuple(actions), number=choices is None))
        observations += [Observation(f"{agent}_{each}", f"{agent}: {each}.") for each in (*seen[agent], "active")]
        ranges = (begins[0], len(observations)), (begins[1], len(heads))
        agents.append(Agent(agent, *ranges, active=f"{agent}_active", seats=(0,)))
    return Contract(name, tuple(heads), tuple(observations), tuple(agents), shared_weights=shared)
