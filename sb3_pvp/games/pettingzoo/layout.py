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
WAIT = "wait"


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
        self.agents = _two_agents(env)
        #: Whether players move in turns.
        self.in_turns = hasattr(env, "agent_selection") or hasattr(env, "agent_iter")
        self._space = _features_space(_common_space(env.observation_space, self.agents, "observation"))
        action_space = _common_space(env.action_space, self.agents, "action")
        self._is_discrete = isinstance(action_space, spaces.Discrete)
        self._start, sizes = _choices(action_space)
        self.contract = _contract(_name(env), sizes, spaces.flatdim(self._space), self.in_turns, hidden)
        #: Where each head begins in the flat mask.
        self._offsets = self.contract.head_offsets[:-1]
        #: All that a player may do who can only wait.
        self.idle = np.zeros(self.contract.num_flat_actions, bool)
        self.idle[self._offsets] = True

    def features(self, observation: Any, agent: int, to_move: bool) -> NDArray[np.float32]:
        """What the agent, 0 or 1, sees: float32 ``(num_observations,)``."""
        seen = observation[OBSERVATION] if _is_masked(observation) else observation
        flat = np.asarray(spaces.flatten(self._space, seen), np.float32)
        return np.concatenate([flat, np.array([agent, to_move][: 1 + self.in_turns], np.float32)])

    def mask(self, observation: Any, info: Mapping[str, Any]) -> NDArray[np.bool_]:
        """What a player who is to move may do, flat; everything if the game does not tell.

        Games tell under the key ``action_mask`` of the observation or of the info.
        """
        told = observation[ACTION_MASK] if _is_masked(observation) else info.get(ACTION_MASK)
        mask = np.ones(self.contract.num_flat_actions, bool)
        if self.in_turns:
            mask[0] = False
        if told is not None:
            mask[self.in_turns :] = np.concatenate([np.ravel(part) for part in told]) if _is_tuple(told) else told
        return mask

    def legal(self, choices: NDArray[np.int64], mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The choices ``(heads,)``, with the first that is possible in place of those that are not."""
        if mask[self._offsets + choices].all():
            return choices
        firsts = [int(part.argmax()) for part in self.contract.split_mask(mask)]
        return np.where(mask[self._offsets + choices], choices, firsts)

    def random(self, mask: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
        """Choices ``(heads,)``, all that the mask allows equally likely."""
        return np.array([rng.choice(np.flatnonzero(part)) for part in self.contract.split_mask(mask)])

    def action(self, choices: NDArray[np.int64]) -> Any:
        """The game's own action."""
        own = choices + self._start
        own[0] -= self.in_turns
        return int(own[0]) if self._is_discrete else own


def _two_agents(env: Any) -> list[str]:
    agents = list(getattr(env, "possible_agents", ()))
    if len(agents) != NUM_SEATS:
        raise ValueError(f"a game needs two players, this one has {agents}: hand in a PettingZoo environment of two")
    return agents


def _common_space(space_of: Any, agents: list[str], kind: str) -> Any:
    first, second = (space_of(agent) for agent in agents)
    if first != second:
        raise ValueError(f"both players need the same {kind} space, here they are {first} and {second}")
    return first


def _features_space(space: Any) -> Any:
    """The part of an observation that is seen."""
    if isinstance(space, spaces.Dict) and ACTION_MASK in space.spaces:
        space = space[OBSERVATION]
    if not space.is_np_flattenable:
        raise ValueError(f"observations must have a fixed number of features, use a wrapper that makes it so: {space}")
    return space


def _choices(space: Any) -> tuple[Any, list[int]]:
    """The lowest action, and the number of choices of each head."""
    if isinstance(space, spaces.Discrete):
        return space.start, [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return space.start, space.nvec.tolist()
    raise ValueError(f"actions must be a Discrete space or a vector of choices (MultiDiscrete), not {space}")


def _contract(name: str, sizes: list[int], num_features: int, in_turns: bool, hidden: bool) -> Contract:
    heads = []
    for number, size in enumerate(sizes):
        actions = [SubAction(f"head_{number}_choice_{choice}", f"Choice {choice}.") for choice in range(size)]
        if in_turns and number == 0:
            actions.insert(0, SubAction(WAIT, "Wait for the other player."))
        heads.append(Head(f"head_{number}", f"Decision {number}.", tuple(actions)))
    features = [Observation(f"feature_{i}", f"Feature {i}.", partial=hidden) for i in range(num_features)]
    features.append(Observation("second_agent", "Whether this is the game's second agent.", constant=True))
    if in_turns:
        features.append(Observation("to_move", "Whether it is this player's turn."))
    return Contract(name, tuple(heads), tuple(features))


def _name(env: Any) -> str:
    return str((getattr(env, "metadata", None) or {}).get("name", type(env).__name__))


def _is_masked(observation: Any) -> bool:
    return isinstance(observation, Mapping) and ACTION_MASK in observation


def _is_tuple(told: Any) -> bool:
    return isinstance(told, (tuple, list)) and len(told) > 0 and np.ndim(told[0]) > 0
