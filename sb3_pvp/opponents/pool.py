"""The opponents of N fights, who act in few batched calls."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common import snapshots
from sb3_pvp.common.random_words import words_from_seeds
from sb3_pvp.common.snapshots import Snapshot
from sb3_pvp.game import Game, World
from sb3_pvp.opponents.choice import OpponentChoice
from sb3_pvp.opponents.opponents import Opponent
from sb3_pvp.opponents.rivals import Rival, RivalMaker
from sb3_pvp.opponents.sight import OpponentSight

_CHANGES = 6  # stream of a fight's seed

Decision = tuple[NDArray[np.int64], NDArray[Any] | None]


@dataclass(frozen=True)
class _Group:
    """Opponents who are asked in one call, and the fights of each.

    Attributes:
        ask: `Opponent.predict` of several opponents, with a list of them and of the frames of each in front; what they
            have in common holds for all their fights, one opponent after the other.
        states: of all fights.
    """

    ask: Callable[..., Decision]
    opponents: list[Opponent]
    fights: list[NDArray[np.int64]]
    states: NDArray[Any]

    def without(self, absent: NDArray[np.bool_]) -> _Group:
        """The group without the fights where somebody is absent, bool ``(N,)``."""
        left = [fights[~absent[fights]] for fights in self.fights]
        opponents = [opponent for opponent, fights in zip(self.opponents, left, strict=True) if fights.size]
        return _Group(self.ask, opponents, [fights for fights in left if fights.size], self.states)


class OpponentPool:
    """Who sits in one seat of each fight, by default the second one, and what they decide.

    Args:
        world: where the fights take place.
        choice: everybody's opponent at first.
        seat: 0 or 1, the same in all fights.
        game: what is played; ``None``: the game with the world's contract.

    Attributes:
        current: the rival in each fight.
        following: who comes in its next episode; ``None``: the same.
    """

    def __init__(self, world: World, choice: OpponentChoice, seat: int = 1, game: Game | None = None) -> None:
        count = world.num_fights
        self._seat, self._sight = seat, OpponentSight(world, seat)
        self._maker = RivalMaker(world, game, self._sight.noise_words)
        self._seeds = [0] * count
        self._starts = np.ones(count, bool)
        #: Of each layout that states of opponents have, the states in all fights.
        self._states: dict[str, NDArray[Any]] = {}
        self.current = [self._maker.make(choice)] * count
        self.following: list[Rival | None] = [None] * count
        self._divide()

    def expected(self, fight: int) -> Rival:
        """The rival in the next episode."""
        return self.following[fight] or self.current[fight]

    def choose(self, fight: int, choice: OpponentChoice) -> None:
        """Says who comes in the next episode; raises `ValueError`, and `FileNotFoundError`, if nobody can."""
        known = (rival for rival in (*self.following, *self.current) if rival is not None and rival.choice is choice)
        self.following[fight] = next(known, None) or self._maker.make(choice)

    def change(self, fights: NDArray[np.int64], seeds: Sequence[int | None]) -> bool:
        """New episodes are about to begin: those who were chosen come. Returns whether there were any.

        An opponent's random numbers follow from the seed of its fight. Whoever comes to a fight that goes on without a
        new seed gets those that follow from the last one.
        """
        changed = False
        for fight, seed in zip(fights.tolist(), seeds, strict=True):
            follower, self.following[fight] = self.following[fight], None
            if follower is not None:
                self.current[fight] = follower
                changed = True
            if seed is not None:
                self._seeds[fight] = seed
                self._sight.seed(fight, seed)
            elif follower is not None:
                self._seeds[fight] = int(words_from_seeds([self._seeds[fight]], _CHANGES)[0] >> 1)  # fits into int64
            if follower is not None or seed is not None:
                self._begin_state(fight)
        if changed:
            self._divide()
        return changed

    def begin(self, fights: NDArray[np.int64]) -> None:
        """New episodes have begun."""
        self._starts[fights] = True
        self._sight.begin(fights)

    def advance(self) -> None:
        """A tick was played."""
        self._sight.advance()

    def act(self, actions: NDArray[np.int64]) -> None:
        """Chooses for all opponents that act; ``actions`` ``(N, 2, heads)`` are changed in their seat."""
        if not self._groups:
            return
        masks, late = self._sight.masks(), self._sight.draw_delays()
        actions[late, self._seat] = 0
        for group in self._groups:
            punctual = group.without(late) if late.any() else group
            if punctual.opponents:
                self._decide(punctual, masks, actions)
        self._sight.stale = late

    def get_state(self) -> Snapshot:
        """A snapshot, plain values and copied arrays; of opponents that are objects it has the names only."""
        rivals: list[Rival] = []
        for rival in (*self.current, *self.following):
            if rival is not None and rival not in rivals:
                rivals.append(rival)
        return {
            "rivals": [rival.get_state() for rival in rivals],
            "current": [rivals.index(rival) for rival in self.current],
            "following": [None if rival is None else rivals.index(rival) for rival in self.following],
            "seeds": list(self._seeds),
            "starts": self._starts.copy(),
            "states": copy.deepcopy(self._states),
            "sight": snapshots.copies(self._sight, self._sight.ARRAYS),
        }

    def restored_rivals(self, state: Mapping[str, Any]) -> list[Rival]:
        """The rivals of a snapshot, for `set_state`; raises `ValueError` if one is not to be had; changes nothing."""
        present = [rival for rival in (*self.current, *self.following) if rival is not None]
        return [self._maker.restored(rival, present) for rival in state["rivals"]]

    def set_state(self, state: Mapping[str, Any], rivals: Sequence[Rival]) -> None:
        """Goes back to the moment of `get_state`, with the rivals that `restored_rivals` gave."""
        self.current = [rivals[index] for index in state["current"]]
        self.following = [None if index is None else rivals[index] for index in state["following"]]
        self._seeds = list(state["seeds"])
        self._starts[:] = state["starts"]
        self._states = copy.deepcopy(dict(state["states"]))
        self._sight.put_back(state["sight"])
        self._divide()

    def _divide(self) -> None:
        """Finds out who can be asked together."""
        self._sight.follow(self.current)
        self._deterministic = np.array([rival.choice.deterministic for rival in self.current])
        fights: dict[int, list[int]] = {}
        opponents: dict[int, Opponent] = {}
        for fight, rival in enumerate(self.current):
            if rival.opponent is not None:
                opponents[id(rival.opponent)] = rival.opponent
                fights.setdefault(id(rival.opponent), []).append(fight)
        groups: dict[object, _Group] = {}
        for key, opponent in opponents.items():
            ask = getattr(opponent, "predict_together", None)
            new = _Group(ask or _ask_alone, [], [], self._states_like(opponent))
            group = groups.setdefault(ask or key, new)
            group.opponents.append(opponent)
            group.fights.append(np.array(fights[key]))
        self._groups = list(groups.values())

    def _states_like(self, opponent: Opponent) -> NDArray[Any]:
        """The array of states in which this opponent has its own; nobody else uses a fight's place in it."""
        first = np.asarray(opponent.initial_state([0]))
        layout = f"{first.dtype.str}{first.shape[1:]}"
        if layout not in self._states:
            self._states[layout] = np.repeat(first, len(self.current), axis=0)
        return self._states[layout]

    def _begin_state(self, fight: int) -> None:
        opponent = self.current[fight].opponent
        if opponent is not None:
            self._states_like(opponent)[fight] = np.asarray(opponent.initial_state([self._seeds[fight]]))[0]

    def _decide(self, group: _Group, masks: NDArray[np.bool_], actions: NDArray[np.int64]) -> None:
        frames = [
            self._sight.frames(fights, getattr(opponent, "frame_ages", (0,)))
            for opponent, fights in zip(group.opponents, group.fights, strict=True)
        ]
        fights = np.concatenate(group.fights)
        deterministic = self._deterministic[fights]
        actions[fights, self._seat], states = group.ask(
            group.opponents, frames, group.states[fights], self._starts[fights], deterministic, masks[fights]
        )
        if states is not None:
            group.states[fights] = states
        self._starts[fights] = False


def _ask_alone(
    opponents: Sequence[Opponent],
    frames: Sequence[NDArray[np.float32]],
    states: NDArray[Any],
    starts: NDArray[np.bool_],
    deterministic: NDArray[np.bool_],
    masks: NDArray[np.bool_],
) -> Decision:
    """One opponent on its own; those fights in which it acts by chance, and the others, are two calls."""
    (opponent,), (seen,) = opponents, frames
    if not hasattr(opponent, "frame_ages"):
        seen = seen[:, 0]
    chosen, following = [], states.copy()
    calls = [(flag, rows) for flag in (False, True) if (rows := np.flatnonzero(deterministic == flag)).size]
    for flag, rows in calls:
        actions, told = opponent.predict(seen[rows], states[rows], starts[rows], flag, masks[rows])
        chosen.append(actions)
        if told is not None:
            following[rows] = told
    joint = np.concatenate(chosen)
    joint[np.concatenate([rows for _, rows in calls])] = joint.copy()
    return joint, following
