"""What a player of a PettingZoo game sees and may do, as a contract, feature vectors and flat masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sb3_pvp.contract import Contract, Head, Observation, SubAction
from sb3_pvp.game import NUM_SEATS

OBSERVATION, ACTION_MASK = "observation", "action_mask"
#: What the player does whose turn it is not: the first choice of the first head in games that are played in turns.
WAIT = SubAction("wait", "Wait for the other player.")


class GameLayout:
    """Translates between a game's spaces and a contract; both players must have the same spaces.

    The features are those of `gymnasium.spaces.flatten`, then whether this is the game's second agent and, in games
    that are played in turns, whether it is this player's turn.

    Args:
        env: a PettingZoo environment.
        hidden: whether observations are what the opponent does not know.

    Raises:
        ValueError: unless there are two players with the same spaces, actions that are Discrete or a vector of
            MultiDiscrete, and observations that can be flattened.
    """

    def __init__(self, env: Any, hidden: bool = False) -> None:
        self.agents = list(getattr(env, "possible_agents", ()))
        if len(self.agents) != NUM_SEATS:
            raise ValueError(f"a game needs two players, this one has {self.agents}")
        #: Whether players move in turns.
        self.in_turns = hasattr(env, "agent_iter")
        self._space = self._common(env.observation_space, "observation")
        if isinstance(self._space, spaces.Dict) and ACTION_MASK in self._space.spaces:
            self._space = self._space[OBSERVATION]
        if not self._space.is_np_flattenable:
            raise ValueError(f"observations need a fixed number of features, wrap the game: {self._space}")
        actions = self._common(env.action_space, "action")
        self._is_discrete = isinstance(actions, spaces.Discrete)
        if not self._is_discrete and not (isinstance(actions, spaces.MultiDiscrete) and actions.nvec.ndim == 1):
            raise ValueError(f"actions must be a Discrete space or a vector of choices (MultiDiscrete), not {actions}")
        self._start = actions.start
        sizes = [int(actions.n)] if self._is_discrete else actions.nvec.tolist()
        name = str((getattr(env, "metadata", None) or {}).get("name", type(env).__name__))
        self.contract = _contract(name, sizes, spaces.flatdim(self._space), self.in_turns, hidden)
        self._offsets = self.contract.head_offsets[:-1]
        #: All that a player may do who can only wait.
        self.idle = np.isin(np.arange(self.contract.num_flat_actions), self._offsets)

    def features(self, observation: Any, agent: int, to_move: bool) -> NDArray[np.float32]:
        """What the agent, 0 or 1, sees: float32 ``(num_observations,)``."""
        seen = observation[OBSERVATION] if _is_masked(observation) else observation
        flat: Any = spaces.flatten(self._space, seen)
        return np.concatenate([flat, [agent, to_move][: 1 + self.in_turns]], dtype=np.float32, casting="unsafe")

    def mask(self, observation: Any, info: Mapping[str, Any]) -> NDArray[np.bool_]:
        """What a player who is to move may do, flat; everything if the game does not tell.

        Games tell under the key ``action_mask`` of the observation or of the info, for several heads also in a tuple.
        """
        told = (observation if _is_masked(observation) else info).get(ACTION_MASK)
        mask = np.ones(self.contract.num_flat_actions, bool)
        if self.in_turns:
            mask[0] = False
        if told is not None:
            mask[self.in_turns :] = np.concatenate(told) if isinstance(told, tuple) else told
        return mask

    def legal(self, choices: NDArray[np.int64], masks: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The choices ``(2, heads)``, with the first that is possible in place of those that are not."""
        possible = np.take_along_axis(masks, choices + self._offsets, axis=1)
        firsts = [part.argmax(axis=1) for part in self.contract.split_mask(masks)]
        return np.where(possible, choices, np.stack(firsts, axis=1))

    def action(self, choices: NDArray[np.int64]) -> Any:
        """The game's own action."""
        own = choices + self._start
        own[0] -= self.in_turns
        return int(own[0]) if self._is_discrete else own

    def _common(self, space_of: Any, kind: str) -> Any:
        first, second = (space_of(agent) for agent in self.agents)
        if first != second:
            raise ValueError(f"both players need the same {kind} space, here they are {first} and {second}")
        return first


def _contract(name: str, sizes: list[int], num_features: int, in_turns: bool, hidden: bool) -> Contract:
    heads = []
    for number, size in enumerate(sizes):
        actions = [SubAction(f"head_{number}_choice_{choice}", f"Choice {choice}.") for choice in range(size)]
        waits = [WAIT] if in_turns and number == 0 else []
        heads.append(Head(f"head_{number}", f"Decision {number}.", (*waits, *actions)))
    features = [Observation(f"feature_{i}", f"Feature {i}.", partial=hidden) for i in range(num_features)]
    features.append(Observation("second_agent", "Whether this is the game's second agent.", constant=True))
    if in_turns:
        features.append(Observation("to_move", "Whether it is this player's turn."))
    return Contract(name, tuple(heads), tuple(features))


def _is_masked(observation: Any) -> bool:
    return isinstance(observation, Mapping) and ACTION_MASK in observation
