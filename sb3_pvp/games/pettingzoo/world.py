"""Any two-player game of PettingZoo as a world to train in."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.common.checks import check_seed
from sb3_pvp.common.names import require_known
from sb3_pvp.common.snapshots import Snapshot, check_identity
from sb3_pvp.contract import Contract
from sb3_pvp.contract.actions import fight_numbers, joint_actions
from sb3_pvp.game import NUM_SEATS, Outcome
from sb3_pvp.games.osrs.report import META_DTYPE
from sb3_pvp.games.pettingzoo.layout import GameLayout
from sb3_pvp.games.pettingzoo.match import make_match

#: The options of a reset; ``death_match`` and ``training``, which environments always tell, mean nothing here.
_OPTIONS = ("seed", "bots", "reset_params", "death_match", "training")
_BOT_SEAT = 1


@dataclass(frozen=True)
class PettingZooGame:
    """A game: give it to ``NhVecEnv(world=...)`` or ``NhEnv(world=...)``, which then play it.

    Attributes:
        make_env: makes an ``AECEnv`` or a ``ParallelEnv`` with two agents, such as ``connect_four_v3.env``. For
            processes of their own (``SubprocVecEnv``) it must be a function that can be pickled.
        shuffle_agents: the seats change agents at random from match to match, so that a learner is now the first, now
            the second; false: the first seat, which is the learner's, is the first agent.
        privileged: a critic sees what the opponent sees: of use where players move at once or hide something.
    """

    make_env: Callable[[], Any]
    shuffle_agents: bool = True
    privileged: bool = False

    @cached_property
    def layout(self) -> GameLayout:
        """What players see and do; raises `ValueError` for a game that cannot be played here (`GameLayout`)."""
        env = self.make_env()
        try:
            return GameLayout(env, self.privileged)
        finally:
            env.close()

    @property
    def contract(self) -> Contract:
        """The contract of the game, made from its spaces."""
        return self.layout.contract

    def __call__(
        self,
        num_fights: int = 1,
        seed: int = 0,
        reset_params: Mapping[str, Any] | None = None,
        contract: str | Contract | None = None,
    ) -> PettingZooWorld:
        """A world of so many matches; the contract is always the game's own."""
        return PettingZooWorld(self, num_fights, seed, reset_params)


class PettingZooWorld:
    """F matches of a game behind the face of `sb3_pvp.game.World`.

    In games with turns a player whose turn it is not has one legal action, to wait. A choice that is not possible
    becomes the first that is. A match ends for both players at once; whoever has the larger sum of rewards has won,
    equal sums are a tie, also where the game calls its end a truncation. The world's own bot, ``"baseline"``, moves at
    random and is called so.

    A match follows from its seed and its moves; with this, and no knowledge of the game, `get_state` and `set_state` go
    back to any moment, provided that the game draws all its random numbers from the seed of its ``reset``.

    Args:
        game: what is played.
        num_fights: F.
        seed: fight ``i`` is seeded with ``seed + i``.
        reset_params: the ``options`` of the game's ``reset``.

    Raises:
        ValueError: for impossible values.
    """

    bot_name = "random"

    def __init__(
        self, game: PettingZooGame, num_fights: int = 1, seed: int = 0, reset_params: Mapping[str, Any] | None = None
    ) -> None:
        if num_fights < 1:
            raise ValueError(f"num_fights must be at least 1, got {num_fights!r}")
        self.contract, self.num_fights = game.contract, num_fights
        self._shuffles, self._reset_params = game.shuffle_agents, dict(reset_params or {})
        self._matches = [make_match(game.make_env, game.layout) for _ in range(num_fights)]
        shape = (num_fights, NUM_SEATS)
        self.obs = np.zeros((*shape, self.contract.num_observations), np.float32)
        self.masks = np.zeros((*shape, self.contract.num_flat_actions), np.bool_)
        self.meta: NDArray[np.void] = np.zeros(shape, META_DTYPE)
        self.outcome = np.zeros(shape, np.uint8)
        self._random = [np.random.default_rng(seed + fight) for fight in range(num_fights)]
        self._bots = [False] * num_fights
        #: How each match began (seed, whether agents are swapped, options), and the moves of both agents since.
        self._starts: list[tuple[int, bool, dict[str, Any]] | None] = [None] * num_fights
        self._moves: list[list[list[list[int]]]] = [[] for _ in range(num_fights)]

    def reset(
        self, fights: ArrayLike | None = None, options: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        """Starts new matches; see `World.reset`. With a shared seed, the ``i``-th of these fights gets ``seed + i``.

        Options are ``seed``, ``bots`` and ``reset_params``. Raises `ValueError` for any other.
        """
        which = fight_numbers(fights, self.num_fights).tolist()
        given = _per_fight(options, len(which))
        for each in given:
            _check_options(each)
        for fight, each in zip(which, given, strict=True):
            if "seed" in each:
                self._random[fight] = np.random.default_rng(each["seed"])
            self._bots[fight] = each.get("bots", (None, None))[_BOT_SEAT] is not None
            rng = self._random[fight]
            seed, swapped = int(rng.integers(2**31)), self._shuffles and bool(rng.integers(2))
            self._begin(fight, seed, swapped, dict(each.get("reset_params", self._reset_params)))
            self._publish(fight)

    def step(self, actions: ArrayLike, fights: ArrayLike | None = None) -> None:
        """Plays one move, or both players' moves; in matches that are over nothing happens. See `World.step`."""
        which = fight_numbers(fights, self.num_fights)
        joint = joint_actions(actions, len(which), self.contract)
        for fight, choices in zip(which.tolist(), joint, strict=True):
            match = self._matches[fight]
            if match.is_over:
                continue
            by_agent = choices[::-1].copy() if self._is_swapped(fight) else choices.copy()
            if self._bots[fight]:
                agent = _BOT_SEAT ^ self._is_swapped(fight)
                by_agent[agent] = match.random_choices(agent, self._random[fight])
            match.play(by_agent)
            self._moves[fight].append(by_agent.tolist())
            self._publish(fight)

    def close(self) -> None:
        """Closes the environments."""
        for match in self._matches:
            match.env.close()

    def get_state(self) -> Snapshot:
        """A snapshot, plain values: how every match began and what was played, and the random numbers."""
        return {
            **self._identity,
            "random": [copy.deepcopy(rng.bit_generator.state) for rng in self._random],
            "bots": list(self._bots),
            "starts": copy.deepcopy(self._starts),
            "moves": copy.deepcopy(self._moves),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes back to the moment of `get_state` by playing all matches again.

        Raises `ValueError` if a world of another game or size took the snapshot; nothing has changed then.
        """
        check_identity(state, self._identity)
        for rng, words in zip(self._random, state["random"], strict=True):
            rng.bit_generator.state = words
        self._bots = list(state["bots"])
        for fight, (start, moves) in enumerate(zip(state["starts"], state["moves"], strict=True)):
            if start is not None:
                self._replay(fight, start, moves)

    @property
    def _identity(self) -> dict[str, Any]:
        return {
            "kind": "PettingZooWorld",
            "version": 1,
            "contract": self.contract.name,
            "num_fights": self.num_fights,
            "shuffle_agents": self._shuffles,
        }

    def _is_swapped(self, fight: int) -> bool:
        start = self._starts[fight]
        return start is not None and start[1]

    def _begin(self, fight: int, seed: int, swapped: bool, options: dict[str, Any]) -> None:
        self._starts[fight] = (seed, swapped, options)
        self._moves[fight] = []
        self._matches[fight].begin(seed, options)

    def _replay(self, fight: int, start: tuple[int, bool, dict[str, Any]], moves: list[list[list[int]]]) -> None:
        self._begin(fight, *start)
        for move in moves:
            self._matches[fight].play(np.array(move))
        self._moves[fight] = copy.deepcopy(moves)
        self._publish(fight)

    def _publish(self, fight: int) -> None:
        """Shows the state of a match to its seats."""
        match, order = self._matches[fight], slice(None, None, -1 if self._is_swapped(fight) else 1)
        self.obs[fight], self.masks[fight] = match.features[order], match.masks[order]
        self.meta["episode_ticks"][fight] = len(self._moves[fight])
        self.outcome[fight] = _outcomes(match.totals[order]) if match.is_over else Outcome.RUNNING


def _outcomes(totals: NDArray[np.float64]) -> tuple[int, int]:
    first, second = totals
    if first == second:
        return Outcome.TIED, Outcome.TIED
    return (Outcome.WON, Outcome.LOST) if first > second else (Outcome.LOST, Outcome.WON)


def _per_fight(options: Any, count: int) -> list[Mapping[str, Any]]:
    """One mapping for each fight, from one for all or a list."""
    if options is not None and not isinstance(options, Mapping):
        if len(options) != count:
            raise ValueError(f"{len(options)} mappings of options were given for {count} fights")
        return list(options)
    shared = dict(options or {})
    if "seed" not in shared:
        return [shared] * count
    first = check_seed(shared["seed"])
    return [{**shared, "seed": None if first is None else first + number} for number in range(count)]


def _check_options(options: Mapping[str, Any]) -> None:
    for name in options:
        require_known("reset option", name, _OPTIONS)
    if "seed" in options and check_seed(options["seed"]) is None:
        raise ValueError("a seed must be a non-negative integer; leave the option out to go on without one")
