"""The opponents of N fights, who act in few batched calls."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from os import fspath
from pathlib import PurePath
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common import snapshots
from sb3_pvp.common.random_words import words_from_seeds
from sb3_pvp.common.snapshots import Snapshot
from sb3_pvp.game import Game, World
from sb3_pvp.opponents.opponents import (
    SELF_PLAY,
    WORLD_BOT,
    Opponent,
    OpponentChoice,
    OpponentLike,
    is_league,
    is_path,
    league_players,
    make_opponent,
)
from sb3_pvp.opponents.sight import ActionMaskOverride, ObservationNoise, OpponentSight

_CHANGES, _DRAWS = 6, 7  # streams of a fight's seed

Decision = tuple[NDArray[np.int64], NDArray[Any] | None]
_T = TypeVar("_T")


@dataclass(eq=False)
class Rival:
    """An `OpponentChoice` with all that it stands for.

    Attributes:
        choice: what was chosen.
        name: what it is called in ``info``.
        opponent: who acts, of a league the player of this episode; ``None`` for the world's bot and in self-play.
        noise: on what it sees.
        override: of its masks.
        is_self: the learner has the other seat, too.
        is_bot: the world itself plays.
        is_drawn: each episode has another player of a league.
        frame_ages: the frames that it sees.
    """

    choice: OpponentChoice
    name: str
    opponent: Opponent | None
    noise: ObservationNoise | None
    override: ActionMaskOverride | None

    def __post_init__(self) -> None:
        self.is_self = isinstance(self.choice.opponent, str) and self.choice.opponent == SELF_PLAY
        self.is_bot = self.opponent is None and not self.is_self
        self.is_drawn = is_league(self.choice.opponent)
        self.frame_ages: tuple[int, ...] = tuple(getattr(self.opponent, "frame_ages", (0,)))

    def get_state(self) -> Snapshot:
        """Plain values, of which `OpponentPool` makes it again; an object among opponents is only told by its name."""
        plain: Snapshot = {field.name: getattr(self.choice, field.name) for field in fields(OpponentChoice)}
        opponent = self.choice.opponent
        plain["opponent"] = fspath(opponent) if isinstance(opponent, (str, PurePath)) else None
        plain |= {"label": self.choice.label, "player": self.name if self.is_drawn else None}
        return {**plain, "content_hash": getattr(self.opponent, "content_hash", None)}


class _Group(NamedTuple):
    """Opponents who are asked in one call.

    Attributes:
        ask: `Opponent.predict` of several opponents, with a list of them and of the frames of each in front; what they
            have in common holds for all their fights, one opponent after the other.
        asked: each with its fights.
        states: of all fights.
    """

    ask: Callable[..., Decision]
    asked: list[tuple[Opponent, NDArray[np.int64]]]
    states: NDArray[Any]


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
        self._contract, self._game = world.contract, game
        self._bot_name = getattr(world, "bot_name", WORLD_BOT)
        #: What rivals share that is equal, so that they can be asked together.
        self._made: dict[tuple[Any, str], Any] = {}
        self._seeds = [0] * count
        self._starts = np.ones(count, bool)
        #: Of each layout that states of opponents have, the states in all fights.
        self._states: dict[str, NDArray[Any]] = {}
        self.current = [self._rival(choice)] * count
        self.following: list[Rival | None] = [None] * count
        self._divide()

    def expected(self, fights: Iterable[int]) -> list[Rival]:
        """The rivals in the next episodes of these fights."""
        return [self.following[fight] or self.current[fight] for fight in fights]

    def choose(self, fight: int, choice: OpponentChoice) -> None:
        """Says who comes in the next episode; raises `ValueError`, and `FileNotFoundError`, if nobody can."""
        known = (rival for rival in (*self.following, *self.current) if rival is not None and rival.choice is choice)
        self.following[fight] = next(known, None) or self._rival(choice)

    def change(self, fights: NDArray[np.int64], seeds: Sequence[int | None]) -> bool:
        """New episodes are about to begin: those who were chosen come. Returns whether there were any.

        An opponent's random numbers follow from the seed of its fight. Whoever comes to a fight that goes on without a
        new seed gets those that follow from the last one.
        """
        changed = False
        leagues: dict[str, dict[str, str]] = {}  # each is looked at once
        for fight, seed in zip(fights.tolist(), seeds, strict=True):
            follower = self.following[fight]
            rival = follower or self.current[fight]
            comes = follower is not None or rival.is_drawn
            changed |= comes
            if seed is not None:
                self._seeds[fight] = seed
                self._sight.seed(fight, seed)
            elif comes:
                self._seeds[fight] = int(words_from_seeds([self._seeds[fight]], _CHANGES)[0] >> 1)  # fits into int64
            if rival.is_drawn:
                league = rival.choice.opponent
                paths = leagues[league] = leagues.get(league) or league_players(league)
                number = int(words_from_seeds([self._seeds[fight]], _DRAWS)[0] % len(paths))
                rival = self._player(rival, paths, list(paths)[number])
            self.current[fight], self.following[fight] = rival, None
            if comes or seed is not None:
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
            self._decide(group, masks, late, actions)
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
        return [self._restored(rival, present) for rival in state["rivals"]]

    def set_state(self, state: Mapping[str, Any], rivals: Sequence[Rival]) -> None:
        """Goes back to the moment of `get_state`, with the rivals that `restored_rivals` gave."""
        self.current = [rivals[index] for index in state["current"]]
        self.following = [None if index is None else rivals[index] for index in state["following"]]
        self._seeds = list(state["seeds"])
        self._starts[:] = state["starts"]
        self._states = copy.deepcopy(dict(state["states"]))
        self._sight.put_back(state["sight"])
        self._divide()

    def _rival(self, choice: OpponentChoice) -> Rival:
        opponent = choice.opponent
        # Models have a cache of their own, which knows when files have changed.
        named = isinstance(opponent, str) and not is_path(opponent) and not is_league(opponent)
        made = self._shared(self._opponent, opponent) if named else self._opponent(opponent)
        noise = self._shared(self._noise, choice.noise)
        rival = Rival(choice, choice.label, made, noise, self._shared(self._override, choice.action_mask_override))
        return replace(rival, name=self._bot_name) if rival.is_bot and choice.name is None else rival

    def _player(self, rival: Rival, paths: Mapping[str, str], name: str) -> Rival:
        """The same with that player of its league."""
        if name not in paths:
            raise ValueError(f"{name} has left the league {rival.choice.opponent}")
        return replace(rival, name=name, opponent=self._opponent(paths[name]))

    def _shared(self, make: Callable[[Any], _T], config: Any) -> _T | None:
        """What is made of it, once for all who have the same."""
        key = make.__name__, repr(config)
        if config is not None and key not in self._made:
            self._made[key] = make(config)
        return self._made.get(key)

    def _opponent(self, opponent: OpponentLike) -> Opponent | None:
        return make_opponent(opponent, self._contract, self._game)

    def _noise(self, config: Any) -> ObservationNoise:
        noise = ObservationNoise(config, self._contract, len(self._seeds))
        noise.words = self._sight.noise_words
        return noise

    def _override(self, config: Any) -> ActionMaskOverride:
        return ActionMaskOverride(config, self._contract)

    def _restored(self, state: Mapping[str, Any], present: Sequence[Rival]) -> Rival:
        """The rival whose state it is; an object must be that of somebody who is present."""
        given = {field.name: state[field.name] for field in fields(OpponentChoice)}
        if given["opponent"] is None:
            objects = [each.choice.opponent for each in present if each.get_state()["opponent"] is None]
            named = [each for each in objects if OpponentChoice(each, given["name"]).label == state["label"]]
            if not named:
                raise ValueError(f"the snapshot has the opponent {state['label']!r}, an object that is not here")
            given["opponent"] = named[0]
        try:
            rival = self._rival(OpponentChoice(**given))
            if rival.is_drawn:
                rival = self._player(rival, league_players(given["opponent"]), state["player"])
        except OSError as error:
            raise ValueError(f"an opponent of the snapshot is gone: {error}") from error
        if getattr(rival.opponent, "content_hash", None) != state["content_hash"]:
            raise ValueError(f"the opponent {state['label']!r} is not what it was when the snapshot was taken")
        return rival

    def _divide(self) -> None:
        """Finds out who can be asked together."""
        rivals = self.current
        agents: dict[int, tuple[Opponent, list[int]]] = {}
        for fight, rival in enumerate(rivals):
            if rival.opponent is not None:
                agents.setdefault(id(rival.opponent), (rival.opponent, []))[1].append(fight)
        groups: dict[object, _Group] = {}
        for key, (opponent, fights) in agents.items():
            ask = getattr(opponent, "predict_together", None)
            new = _Group(ask or _ask_alone, [], self._states_like(np.asarray(opponent.initial_state([0]))))
            groups.setdefault(ask or key, new).asked.append((opponent, np.array(fights)))
        self._groups = list(groups.values())
        self._deterministic = np.array([rival.choice.deterministic for rival in rivals])
        self._sight.follow(rivals)

    def _states_like(self, state: NDArray[Any]) -> NDArray[Any]:
        """The array in which opponents with such states have theirs; nobody else uses a fight's place in it."""
        layout = f"{state.dtype.str}{state.shape[1:]}"
        if layout not in self._states:
            self._states[layout] = np.repeat(state, len(self.current), axis=0)
        return self._states[layout]

    def _begin_state(self, fight: int) -> None:
        opponent = self.current[fight].opponent
        if opponent is not None:
            state = np.asarray(opponent.initial_state([self._seeds[fight]]))
            self._states_like(state)[fight] = state[0]

    def _decide(
        self, group: _Group, masks: NDArray[np.bool_], late: NDArray[np.bool_], actions: NDArray[np.int64]
    ) -> None:
        asked = group.asked
        if late.any():
            asked = [(opponent, left) for opponent, fights in asked if (left := fights[~late[fights]]).size]
        if not asked:
            return
        frames = [self._sight.frames(fights, getattr(opponent, "frame_ages", (0,))) for opponent, fights in asked]
        opponents, fights = [opponent for opponent, _ in asked], np.concatenate([fights for _, fights in asked])
        actions[fights, self._seat], states = group.ask(
            opponents, frames, group.states[fights], self._starts[fights], self._deterministic[fights], masks[fights]
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
