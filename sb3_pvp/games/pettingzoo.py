"""PettingZoo environments for two players, or for a team alone, as games; the contract is derived from the spaces."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.common.arguments import check_mask
from sb3_pvp.common.errors import foreign
from sb3_pvp.common.snapshots import Snapshot
from sb3_pvp.game import NUM_SEATS, Game
from sb3_pvp.game.arrays import ArrayWorld
from sb3_pvp.game.contract import Contract, Head, Observation, SubAction
from sb3_pvp.game.contract.turn import fight_numbers
from sb3_pvp.games.boards import board_viewer
from sb3_pvp.games.team_alone import TEAM_REPORT, TeamRewards, team_contract

OBSERVATION, ACTION_MASK = "observation", "action_mask"
#: In turn-based games the first choice of the first head, and all that a player may choose out of turn.
WAIT = SubAction("wait", "Wait for the other player.")


class PettingZooGame(Game):
    """A PettingZoo environment as a game, named after ``metadata["name"]``.

    Args:
        make_env: returns a new ``AECEnv`` or ``ParallelEnv`` with two agents, e.g. ``connect_four_v3.raw_env``. Called
            once in the constructor, for the spaces. With ``SubprocVecEnv`` it must be picklable.
        shuffle_agents: assign the agents to the seats at random for each match, so that a learner plays both sides. If
            false, the first seat, which is the learner's, is always the first agent.
        privileged: let the critic see the opponent's observation, for simultaneous moves or hidden information.
        perfect_information: players move in turns and nothing is hidden, so that a search may look ahead in copies.

    Raises `ValueError` unless there are two agents with equal spaces, observations that can be flattened, and actions
    that are ``Discrete``, one-dimensional ``MultiDiscrete``, a bounded ``Box`` of floats, or a ``Tuple`` or ``Dict`` of
    these. A player decides on numbers of a box from -1 to 1, which are scaled to its bounds.
    """

    report: ClassVar[Sequence[tuple[str, Any]]] = ()  #: Fields of its worlds' report.

    def __init__(
        self,
        make_env: Callable[[], Any],
        shuffle_agents: bool = True,
        privileged: bool = False,
        perfect_information: bool = False,
    ) -> None:
        self.make_env, self.shuffle_agents, self.perfect_information = make_env, shuffle_agents, perfect_information
        env = make_env()
        try:
            self.layout = self._layout(env, privileged)
        finally:
            env.close()
        self.contract = self.layout.contract
        self.name = self.contract.name
        self.viewer = board_viewer(self.contract, self.layout.shape, self.layout.in_turns)

    def _layout(self, env: Any, privileged: bool) -> _Layout:
        return _Layout(env, privileged)

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> PettingZooWorld:
        """See `sb3_pvp.game.Game.make_world`; ``params`` are the ``options`` of the environment's ``reset``."""
        return PettingZooWorld(self, num_fights, seed, params)


class PettingZooTeam(PettingZooGame):
    """A PettingZoo environment for a team alone, whose agents have the first seat; the other one is empty.

    The reward is the sum of those of all agents, and a match with a positive sum is won. The team's match goes on, as
    far as the environment does, when one of them is out of the game: it then sees zeros, and has one legal action.

    Args:
        make_env: returns a new ``ParallelEnv``, such as ``knights_archers_zombies_v11.parallel_env``. Its agents need
            not be equal. With ``SubprocVecEnv`` it must be picklable.

    Raises `ValueError` as `PettingZooGame` does, but for any number of agents.
    """

    rewards, report = TeamRewards(), TEAM_REPORT

    def __init__(self, make_env: Callable[[], Any]) -> None:
        super().__init__(partial(_TeamEnv, make_env), shuffle_agents=False)

    def _layout(self, env: Any, privileged: bool) -> _Layout:
        return _TeamLayout(env)


class PettingZooWorld(ArrayWorld):
    """F matches of a PettingZoo game.

    Out of turn, a player's only legal action is to wait. An illegal choice is replaced by the first legal one. A match
    ends for both players as soon as one is terminated or truncated; the larger sum of rewards wins, equal sums are a
    tie.

    `get_state` saves the seed and the moves of each match, and `set_state` replays them. This restores any game whose
    random numbers depend on the seed of ``reset`` only.
    """

    def __init__(self, game: PettingZooGame, num_fights: int, seed: int, params: Mapping[str, Any]) -> None:
        super().__init__(game.contract, num_fights, seed, game.report)
        self._shuffles, self._params = game.shuffle_agents, dict(params)
        self._matches = [_Match(game.make_env(), game.layout) for _ in range(num_fights)]

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        """Starts a match with a seed from the fight's random generator."""
        rng = self.random[fight]
        seed, swapped = int(rng.integers(2**31)), self._shuffles and bool(rng.integers(2))
        self._matches[fight].begin(seed, swapped, dict(options.get("reset_params", self._params)))
        self._publish(fight)

    def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
        """Plays one move, or the simultaneous moves of both players."""
        match = self._matches[fight]
        match.play(match.turned(actions))
        self._publish(fight)

    def close(self) -> None:
        """Closes the environments."""
        for match in self._matches:
            match.env.close()

    def get_state(self) -> Snapshot:
        """Returns the state of `ArrayWorld`, and the start and moves of every match."""
        starts, moves = ([getattr(each, name) for each in self._matches] for name in ("start", "moves"))
        return super().get_state() | copy.deepcopy({"starts": starts, "moves": moves})

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state of `get_state` by replaying all matches."""
        super().set_state(state)
        for fight, (start, moves) in enumerate(zip(state["starts"], state["moves"], strict=True)):
            if start is not None:
                match = self._matches[fight]
                match.begin(*start)
                for move in moves:
                    match.reseed(move) if isinstance(move, int) else match.play(np.array(move))

    def reseed(self, fights: ArrayLike, seeds: Sequence[int]) -> None:
        """See `sb3_pvp.game.Reseedable`; of environments, this concerns all NumPy generators that are attributes.

        One that draws its random numbers from elsewhere goes on with those that it had.
        """
        super().reseed(fights, seeds)
        for fight, seed in zip(fight_numbers(fights, self.num_fights).tolist(), seeds, strict=True):
            self._matches[fight].reseed(int(seed))

    def copy_fights(self, fights: ArrayLike, source: Any, others: ArrayLike) -> None:
        """See `sb3_pvp.game.Copyable`; what chance decides begins anew, as far as `reseed` can see to that."""
        super().copy_fights(fights, source, others)
        pairs = fight_numbers(fights, self.num_fights).tolist(), fight_numbers(others, source.num_fights).tolist()
        for fight, other in zip(*pairs, strict=True):
            copied = self._matches[fight] = source._matches[other].copied()
            copied.reseed(int(self.random[fight].integers(2**31)))

    def _publish(self, fight: int) -> None:
        """Writes the observations, masks and outcome of a match into the arrays."""
        match = self._matches[fight]
        self.obs[fight], self.masks[fight] = match.turned(match.features), match.turned(match.masks)
        if self.report.dtype.names:
            self.report["reward"][fight] = match.turned(match.rewards)
        if match.is_over:
            self.end(fight, *match.turned(match.totals))


class _Match:
    """A match between agents 0 and 1 of an environment, turn-based (``AECEnv``) or simultaneous (``ParallelEnv``)."""

    def __init__(self, env: Any, layout: _Layout) -> None:
        self.env, self._layout = env, layout
        #: By agent: observations, flat masks, rewards of the last move and their sums.
        self.features = np.zeros((NUM_SEATS, layout.contract.num_observations), np.float32)
        self.masks = np.zeros((NUM_SEATS, layout.contract.num_flat_actions), bool)
        self.rewards, self.totals = np.zeros(NUM_SEATS), np.zeros(NUM_SEATS)
        self.is_over = True  # for both as soon as for one
        #: Arguments of the last `begin` (seed, swapped, options); since then, the legal choices of both agents, and the
        #: seed of each `reseed`.
        self.start: tuple[int, bool, dict[str, Any]] | None = None
        self.moves: list[list[list[float]] | int] = []

    def begin(self, seed: int, swapped: bool, options: dict[str, Any]) -> None:
        """Starts a new match; ``swapped``: the first seat is the second agent."""
        self.start, self.moves = (seed, swapped, options), []
        self.rewards[:], self.totals[:], self.is_over = 0.0, 0.0, False
        # The environment may change the options. `reset` of a ParallelEnv returns observations and infos, that of an
        # AECEnv nothing.
        self._read(*(self.env.reset(seed=seed, options=copy.deepcopy(options) or None) or self._around()))

    def copied(self) -> _Match:
        """Returns a match at the same moment; `ValueError` if the environment cannot be copied."""
        memo: dict[int, Any] = {id(self._layout): self._layout}
        with foreign(f"matches of {self._layout.contract.name} cannot be copied"):
            _copy(self.env, memo)
            return copy.deepcopy(self, memo)

    def reseed(self, seed: int) -> None:
        """Gives new seeds to the random generators of the environment."""
        self.moves.append(seed)
        own = vars(getattr(self.env, "unwrapped", self.env)).values()
        for number, random in enumerate((each for each in own if isinstance(each, np.random.Generator)), 1):
            # In place: parts of the environment may hold the same generator.
            random.bit_generator.state = type(random.bit_generator)([seed, number]).state

    def turned(self, by_seat: NDArray[Any]) -> NDArray[Any]:
        """Converts an array ``(2, ...)`` from seats to agents, or back, which is the same swap."""
        return by_seat[::-1] if self.start is not None and self.start[1] else by_seat

    def play(self, choices: NDArray[Any]) -> None:
        """Plays the choices ``(2, heads)`` of both agents; in turn-based games only the mover's count."""
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
        self.rewards[:] = [float(rewards.get(agent, 0.0)) for agent in layout.agents]
        self.totals += self.rewards
        self.is_over = any(any(ending.values()) for ending in endings)
        self._read(*seen)

    def _around(self) -> tuple[dict[str, Any], Mapping[str, Any]]:
        return {agent: self.env.observe(agent) for agent in self._layout.agents}, self.env.infos

    def _read(self, observations: Mapping[str, Any], infos: Mapping[str, Any]) -> None:
        layout = self._layout
        for number, agent in enumerate(layout.agents):
            if agent in observations:  # some games leave out agents that have finished
                seen = observations[agent]
                to_move = not self.is_over and (not layout.in_turns or agent == self.env.agent_selection)
                self.features[number] = layout.features(seen, number, to_move)
                self.masks[number] = layout.mask(seen, infos.get(agent, {})) if to_move else layout.idle


def _copy(env: Any, memo: dict[int, Any]) -> None:
    """Adds a copy of an environment, and of those that it wraps, to the memo of a ``deepcopy``.

    Left to itself, that would make most of them anew, as at their start, since they are pickled so (``EzPickle``).
    """
    if "env" in vars(env):
        _copy(env.env, memo)
    made = memo[id(env)] = object.__new__(type(env))
    vars(made).update(copy.deepcopy(vars(env), memo))


class _Layout:
    """Converts between the spaces of an environment and a contract.

    Features: `gymnasium.spaces.flatten` of the observation; whether this is the second agent; and, in turn-based games,
    whether it is this player's turn. ``hidden`` marks observations as partial. For errors see `PettingZooGame`.
    """

    def __init__(self, env: Any, hidden: bool = False) -> None:
        self.agents = list(getattr(env, "possible_agents", ()))
        if len(self.agents) != NUM_SEATS:
            raise ValueError(f"a game needs two agents, this one has {self.agents}")
        self.in_turns = hasattr(env, "agent_iter")  # `AECEnv` has it, `ParallelEnv` does not
        self._space = self._common(env.observation_space, "observation")
        if isinstance(self._space, spaces.Dict) and ACTION_MASK in self._space.spaces:
            self._space = self._space[OBSERVATION]
        if not self._space.is_np_flattenable:
            raise ValueError(f"observations need a fixed size: wrap the environment, whose space is {self._space}")
        self.shape = self._space.shape  #: Of an observation, ``None`` if it has several parts.
        self._actions = self._common(env.action_space, "action")
        sizes = [size for part in _parts(self._actions) for size in _sizes(part)]
        name = str((getattr(env, "metadata", None) or {}).get("name", type(env).__name__))
        self.contract = _contract(name, sizes, spaces.flatdim(self._space), self.in_turns, hidden)
        self._offsets, self._waits = self.contract.head_offsets[:-1], int(WAIT in self.contract.heads[0].actions)
        #: The entries of a mask that the environment may give.
        self._masked = np.delete(np.arange(self.contract.num_flat_actions), self._offsets[self.contract.numbers])
        #: The mask of a player that can only wait: the first action of each head.
        self.idle = np.isin(np.arange(self.contract.num_flat_actions), self._offsets)

    def features(self, observation: Any, agent: int, to_move: bool) -> NDArray[np.float32]:
        """Returns the observation of agent 0 or 1 as features, float32 ``(num_observations,)``."""
        seen = observation[OBSERVATION] if _is_masked(observation) else observation
        flat: Any = spaces.flatten(self._space, seen)
        return np.concatenate([flat, [agent, to_move][: 1 + self.in_turns]], dtype=np.float32, casting="unsafe")

    def mask(self, observation: Any, info: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Returns the mover's flat mask, from the observation or the info; all true if neither has one."""
        given = (observation if _is_masked(observation) else info).get(ACTION_MASK)
        mask = np.ones(self.contract.num_flat_actions, bool)
        if self._waits:
            mask[0] = False  # the mover must not wait
        if given is not None:  # spaces.MultiDiscrete takes a tuple of masks, one per head
            given = np.concatenate(given) if isinstance(given, tuple) else given
            check_mask(given)
            mask[self._masked[self._waits :]] = given
        return mask

    def legal(self, choices: NDArray[Any], masks: NDArray[np.bool_]) -> NDArray[Any]:
        """Returns the choices ``(2, heads)``, illegal ones replaced by the head's first legal choice."""
        picked = choices.astype(np.int64)
        picked[:, self.contract.numbers] = 0
        possible = np.take_along_axis(masks, picked + self._offsets, axis=1)
        firsts = [part.argmax(axis=1) for part in self.contract.split_mask(masks)]
        return np.where(possible, choices, np.stack(firsts, axis=1))

    def action(self, choices: NDArray[Any]) -> Any:
        """Returns the environment's action for the choices ``(heads,)``."""
        own = choices.copy()
        own[0] -= self._waits  # the first head begins with `WAIT`
        return _action(self._actions, iter(own.tolist()))

    def _common(self, space_of: Any, kind: str) -> Any:
        first, second = (space_of(agent) for agent in self.agents)
        if first != second:
            raise ValueError(f"both agents need the same {kind} space, but they have {first} and {second}")
        return first


class _TeamLayout(_Layout):
    """That of a `_TeamEnv`, whose observations have all that the contract of a team needs."""

    def __init__(self, env: _TeamEnv) -> None:
        super().__init__(env)
        self.contract = env.contract

    def features(self, observation: Any, agent: int, to_move: bool) -> NDArray[np.float32]:
        return super().features(observation, agent, to_move)[:-1]

    def action(self, choices: NDArray[Any]) -> Any:
        return choices


class _TeamEnv:
    """A ``ParallelEnv`` of a team as one of two agents: the team, which sees and does all, and nobody."""

    possible_agents = TEAM, NOBODY = "team", "nobody"

    def __init__(self, make_env: Callable[[], Any]) -> None:
        self._env = env = make_env()
        if hasattr(env, "agent_iter"):
            raise ValueError(f"the agents of a team act at the same time: make a ParallelEnv, not {type(env).__name__}")
        self.metadata = {"name": (getattr(env, "metadata", None) or {}).get("name", type(env).__name__)}
        self._agents = {agent: _Layout(self._alone(agent)) for agent in env.possible_agents}
        parts = {agent: layout.contract for agent, layout in self._agents.items()}
        moves = {
            agent: [None if head.number else range(len(head.actions)) for head in part.heads]
            for agent, part in parts.items()
        }
        kinds = {(parts[agent].num_observations, *heads) for agent, heads in moves.items()}
        seen = {agent: [each.id for each in part.observations[:-1]] for agent, part in parts.items()}
        self.contract = team_contract(self.metadata["name"], moves, seen, shared=len(kinds) == 1)
        self._idle = np.concatenate([layout.idle for layout in self._agents.values()])

    @property
    def unwrapped(self) -> Any:
        return self._env.unwrapped

    def _alone(self, agent: str) -> SimpleNamespace:
        spaces_of = {name: getattr(self._env, name) for name in ("observation_space", "action_space")}
        return SimpleNamespace(possible_agents=[agent] * NUM_SEATS, metadata=self.metadata, **spaces_of)

    def observation_space(self, agent: str) -> spaces.Dict:
        seen = spaces.Box(-np.inf, np.inf, (self.contract.num_observations,), np.float32)
        return spaces.Dict({OBSERVATION: seen, ACTION_MASK: spaces.MultiBinary(self.contract.num_flat_actions)})

    def action_space(self, agent: str) -> spaces.MultiDiscrete:
        return spaces.MultiDiscrete(list(self.contract.head_sizes))

    def reset(self, seed: int, options: dict[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._seen(*self._env.reset(seed=seed, options=options)), {}

    def step(self, actions: Mapping[str, NDArray[Any]]) -> tuple[dict[str, Any], ...]:
        heads = (slice(*each.heads) for each in self.contract.agents)
        chosen = {agent: actions[self.TEAM][part] for agent, part in zip(self._agents, heads, strict=True)}
        acting = {agent: self._agents[agent].action(chosen[agent]) for agent in self._env.agents}
        observations, rewards, _, _, infos = self._env.step(acting)
        over = dict.fromkeys(self.possible_agents, not self._env.agents)
        return self._seen(observations, infos), {self.TEAM: sum(rewards.values())}, over, {}, {}

    def close(self) -> None:
        self._env.close()

    def _seen(self, observations: Mapping[str, Any], infos: Mapping[str, Any]) -> dict[str, Any]:
        seen, mask = np.zeros(self.contract.num_observations, np.float32), self._idle.copy()
        entries = zip(self.contract.agents, self.contract.agent_entries, strict=True)
        for (agent, layout), (each, flat) in zip(self._agents.items(), entries, strict=True):
            if agent in self._env.agents:
                # What follows the features is 1: it is in the game.
                seen[slice(*each.observations)] = layout.features(observations[agent], 1, True)
                mask[flat] = layout.mask(observations[agent], infos.get(agent, {}))
        nothing = {OBSERVATION: np.zeros_like(seen), ACTION_MASK: self._idle}
        return {self.TEAM: {OBSERVATION: seen, ACTION_MASK: mask}, self.NOBODY: nothing}


def _parts(space: Any) -> list[Any]:
    """Returns the simple spaces that a space of actions consists of, in order; `ValueError` for one that has others."""
    if isinstance(space, spaces.Tuple | spaces.Dict):
        inner = space.spaces if isinstance(space, spaces.Tuple) else space.spaces.values()
        return [part for each in inner for part in _parts(each)]
    is_box = (
        isinstance(space, spaces.Box) and space.is_bounded() and space.dtype is not None and space.dtype.kind == "f"
    )
    if not (is_box or (isinstance(space, spaces.Discrete | spaces.MultiDiscrete) and len(space.shape or ()) < 2)):
        raise ValueError(
            f"actions must be Discrete, one-dimensional MultiDiscrete or a bounded Box of floats, not {space}"
        )
    return [space]


def _sizes(space: Any) -> list[int]:
    """Returns the number of choices of each head of a simple space, 0 for a number."""
    if isinstance(space, spaces.Box):
        return [0] * space.low.size
    return [int(space.n)] if isinstance(space, spaces.Discrete) else space.nvec.tolist()


def _action(space: Any, decided: Iterator[Any]) -> Any:
    """Returns an action in a space, by what was decided in each head."""
    if isinstance(space, spaces.Tuple):
        return tuple(_action(each, decided) for each in space.spaces)
    if isinstance(space, spaces.Dict):
        return {key: _action(each, decided) for key, each in space.spaces.items()}
    own = np.array([next(decided) for _ in _sizes(space)])
    if isinstance(space, spaces.Box):
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        return (low + (own.reshape(space.shape) + 1) / 2 * (high - low)).clip(low, high).astype(space.dtype)
    own = own.astype(np.int64) + space.start  # these spaces need not count from 0, contracts do
    return int(own[0]) if isinstance(space, spaces.Discrete) else own


def _contract(name: str, sizes: list[int], num_features: int, in_turns: bool, hidden: bool) -> Contract:
    heads = []
    for number, size in enumerate(sizes):
        if not size:
            heads.append(Head(f"head_{number}", f"Number {number}.", number=True))
            continue
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
