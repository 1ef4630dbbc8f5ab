"""Any two-player game of PettingZoo as a game: its contract is made from its spaces."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sb3_pvp.common.snapshots import Snapshot
from sb3_pvp.contract import Contract, Head, Observation, SubAction
from sb3_pvp.game import NUM_SEATS, Game
from sb3_pvp.simple_game import ArrayWorld

OBSERVATION, ACTION_MASK = "observation", "action_mask"
#: What the player does whose turn it is not: the first choice of the first head in games that are played in turns.
WAIT = SubAction("wait", "Wait for the other player.")


class PettingZooGame(Game):
    """A game of PettingZoo; its name is that of its metadata.

    Args:
        make_env: makes an ``AECEnv`` or a ``ParallelEnv`` with two agents, such as ``connect_four_v3.raw_env``; one is
            made at once. For processes of their own (``SubprocVecEnv``) it must be a function that can be pickled.
        shuffle_agents: the seats change agents at random from match to match, so that a learner is now the first, now
            the second; false: the first seat, which is the learner's, is the first agent.
        privileged: a critic sees what the opponent sees: of use where players move at once or hide something.

    Raises:
        ValueError: unless there are two players with the same spaces, actions that are Discrete or a vector of
            MultiDiscrete, and observations that can be flattened.
    """

    def __init__(self, make_env: Callable[[], Any], shuffle_agents: bool = True, privileged: bool = False) -> None:
        self.make_env, self.shuffle_agents = make_env, shuffle_agents
        env = make_env()
        try:
            self.layout = _Layout(env, privileged)
        finally:
            env.close()
        self.contract = self.layout.contract
        self.name = self.contract.name

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> PettingZooWorld:
        """See `sb3_pvp.game.Game`; ``params`` are the ``options`` of the game's ``reset``."""
        return PettingZooWorld(self, num_fights, seed, params)


class PettingZooWorld(ArrayWorld):
    """F matches of a game.

    In games with turns a player whose turn it is not has one legal action, to wait. A choice that is not possible
    becomes the first that is. A match ends for both players at once; whoever has the larger sum of rewards has won,
    equal sums are a tie, also where the game calls its end a truncation.

    A match follows from its seed and its moves; with this, and no knowledge of the game, `get_state` and `set_state` go
    back to any moment, provided that the game draws all its random numbers from the seed of its ``reset``.
    """

    def __init__(self, game: PettingZooGame, num_fights: int, seed: int, params: Mapping[str, Any]) -> None:
        super().__init__(game.contract, num_fights, seed)
        self._shuffles, self._params = game.shuffle_agents, dict(params)
        self._matches = [_Match(game.make_env(), game.layout) for _ in range(num_fights)]

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        """Starts a match, from a seed of the fight's own random numbers."""
        rng = self.random[fight]
        seed, swapped = int(rng.integers(2**31)), self._shuffles and bool(rng.integers(2))
        self._matches[fight].begin(seed, swapped, dict(options.get("reset_params", self._params)))
        self._publish(fight)

    def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
        """Plays one move, or both players' moves."""
        match = self._matches[fight]
        match.play(match.turned(actions))
        self._publish(fight)

    def close(self) -> None:
        """Closes the environments."""
        for match in self._matches:
            match.env.close()

    def get_state(self) -> Snapshot:
        """See `ArrayWorld.get_state`."""
        starts, moves = ([getattr(each, name) for each in self._matches] for name in ("start", "moves"))
        return super().get_state() | copy.deepcopy({"starts": starts, "moves": moves})

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes back to the moment of `get_state` by playing all matches again."""
        super().set_state(state)
        for fight, (start, moves) in enumerate(zip(state["starts"], state["moves"], strict=True)):
            if start is not None:
                self._matches[fight].begin(*copy.deepcopy(start))
                for move in moves:
                    self._matches[fight].play(np.array(move))

    def _publish(self, fight: int) -> None:
        """Shows the state of a match to its seats."""
        match = self._matches[fight]
        self.obs[fight], self.masks[fight] = match.turned(match.features), match.turned(match.masks)
        if match.is_over:
            self.end(fight, *match.turned(match.totals))


class _Match:
    """A match between the agents 0 and 1 of an environment, who move in turns (``AECEnv``) or at once."""

    def __init__(self, env: Any, layout: _Layout) -> None:
        self.env, self._layout = env, layout
        #: What each agent sees, may do, and has got in sum.
        self.features = np.zeros((NUM_SEATS, layout.contract.num_observations), np.float32)
        self.masks = np.zeros((NUM_SEATS, layout.contract.num_flat_actions), bool)
        self.totals = np.zeros(NUM_SEATS)
        self.is_over = True  # for both as soon as for one
        #: How the match began (seed, whether agents are swapped, options), and the moves of both agents since.
        self.start: tuple[int, bool, dict[str, Any]] | None = None
        self.moves: list[list[list[int]]] = []

    def begin(self, seed: int, swapped: bool, options: dict[str, Any]) -> None:
        """Starts a new match."""
        self.start, self.moves = (seed, swapped, options), []
        self.totals[:], self.is_over = 0.0, False
        self._look(*(self.env.reset(seed=seed, options=options or None) or self._around()))

    def turned(self, by_seat: NDArray[Any]) -> NDArray[Any]:
        """What is told by seat, by agent; or the other way around."""
        return by_seat[::-1] if self.start is not None and self.start[1] else by_seat

    def play(self, choices: NDArray[np.int64]) -> None:
        """Plays the choices ``(2, heads)`` of both agents."""
        env, layout = self.env, self._layout
        choices = layout.legal(choices, self.masks)
        self.moves.append(choices.tolist())
        actions = dict(zip(layout.agents, map(layout.action, choices), strict=True))
        if layout.in_turns:
            env.step(actions[env.agent_selection])
            rewards, endings, seen = env.rewards, (env.terminations, env.truncations), self._around()
        else:
            observations, rewards, *endings, infos = env.step(actions)
            seen = observations, infos
        self.totals += [float(rewards.get(agent, 0.0)) for agent in layout.agents]
        self.is_over = any(any(ending.values()) for ending in endings)
        self._look(*seen)

    def _around(self) -> tuple[dict[str, Any], Mapping[str, Any]]:
        return {agent: self.env.observe(agent) for agent in self._layout.agents}, self.env.infos

    def _look(self, observations: Mapping[str, Any], infos: Mapping[str, Any]) -> None:
        layout = self._layout
        for number, agent in enumerate(layout.agents):
            if agent in observations:  # of agents who are gone some games tell nothing
                seen = observations[agent]
                to_move = not self.is_over and (not layout.in_turns or agent == self.env.agent_selection)
                self.features[number] = layout.features(seen, number, to_move)
                self.masks[number] = layout.mask(seen, infos.get(agent, {})) if to_move else layout.idle


class _Layout:
    """Translates between a game's spaces and a contract; both players must have the same spaces.

    The features are those of `gymnasium.spaces.flatten`, then whether this is the game's second agent and, in games
    that are played in turns, whether it is this player's turn.

    With ``hidden``, observations are what the opponent does not know. For errors see `PettingZooGame`.
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
        """What a player who is to move may do, flat; everything if the game does not tell, in observation or info."""
        told = (observation if _is_masked(observation) else info).get(ACTION_MASK)
        mask = np.ones(self.contract.num_flat_actions, bool)
        if self.in_turns:
            mask[0] = False
        if told is not None:  # for several heads it may be a tuple
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
