"""`TeamOpponent`: a team of which each agent is a fighter of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract import Contract
from sb3_pvp.policies.acting import Decision, Flags, Frames, Opponent


class TeamOpponent:
    """Plays a seat with one opponent per agent of the contract: each decides for its agent, and knows what a team sees.

    Opponents with ``of_agent(number, contract)`` are asked for one that does only that. Raises `ValueError` if the
    contract has no agents, or another number of them, or an opponent cannot play its agent.
    """

    def __init__(self, name: str, members: Sequence[Opponent], contract: Contract) -> None:
        agents = [agent.id for agent in contract.agents]
        if not agents:
            raise ValueError(f"{contract.name} has no teams: its seats are single fighters")
        if len(members) != len(agents):
            raise ValueError(
                f"a team of {contract.name} has {len(agents)} fighters ({', '.join(agents)}), got {len(members)}"
            )
        places = enumerate(members)
        placed = (each.of_agent(place, contract) if hasattr(each, "of_agent") else each for place, each in places)
        self.name, self.members = name, tuple(placed)
        self._heads, self._dtype = [slice(*agent.heads) for agent in contract.agents], contract.action_dtype
        self.frame_ages = tuple(sorted({age for each in members for age in getattr(each, "frame_ages", (0,))}))
        self.content_hash = "+".join(str(getattr(each, "content_hash", "")) for each in members)
        #: States of members without their number of rows, which together are kept as bytes.
        self._layouts = [np.asarray(each.initial_state([0]))[0] for each in members]

    def initial_state(self, seeds: Sequence[int]) -> NDArray[np.uint8]:
        """Returns the states of all members, as bytes ``(N, ...)``; equal members draw different random numbers."""
        places = enumerate(self.members)
        return _as_bytes([each.initial_state([seed + (place << 40) for seed in seeds]) for place, each in places])

    def predict(
        self, observation: Frames, state: NDArray[Any], episode_start: Flags, deterministic: bool, action_masks: Flags
    ) -> Decision:
        """Implements `Opponent.predict`."""
        actions, states, begin = np.zeros((len(observation), self._heads[-1].stop), self._dtype), [], 0
        for each, heads, layout in zip(self.members, self._heads, self._layouts, strict=True):
            begin, end = begin + layout.nbytes, begin
            own = np.ascontiguousarray(state[:, end:begin]).view(layout.dtype).reshape(-1, *layout.shape)
            ages = [self.frame_ages.index(age) for age in getattr(each, "frame_ages", (0,))]
            seen = observation[:, ages] if hasattr(each, "frame_ages") else observation[:, ages[0]]
            decided, following = each.predict(seen, own, episode_start, deterministic, action_masks)
            actions[:, heads] = decided[:, heads]
            states.append(own if following is None else following)
        return actions, _as_bytes(states)


def _as_bytes(states: Sequence[NDArray[Any]]) -> NDArray[np.uint8]:
    rows = [np.ascontiguousarray(each).reshape(len(each), -1).view(np.uint8) for each in states]
    return np.concatenate(rows, axis=1)
