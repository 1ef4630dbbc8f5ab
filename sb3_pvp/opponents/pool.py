"""The opponents of N fights, who act in few batched calls."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from os import fspath
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.random_words import uniform, words_from_seeds
from sb3_pvp.common.snapshots import Snapshot
from sb3_pvp.game import Game, World
from sb3_pvp.opponents.opponents import WORLD_BOT, Decision, Opponent, OpponentChoice, league_players, make_opponent
from sb3_pvp.opponents.seat_views import ActionMaskOverride, ObservationNoise, SeatHistory, Seats

_DELAYS, _NOISE, _CHANGES, _DRAWS = 4, 5, 6, 7  # streams of a fight's seed

T = TypeVar("T")
#: Who is asked in one call: `Opponent.predict` of several, with lists of them and of their frames, and else the rows of
#: one after the other; each of them with its fights; and their states in all fights.
_Group = tuple[Callable[..., Decision], list[tuple[Opponent, NDArray[np.int64]]], NDArray[Any]]


@dataclass(eq=False)
class LoadedOpponent:
    """An `OpponentChoice` with all that it stands for."""

    choice: OpponentChoice
    name: str  #: What it is called in ``info``.
    opponent: Opponent | None  #: Of a league the player of this episode; ``None``: the world's bot, or self-play.
    noise: ObservationNoise | None
    override: ActionMaskOverride | None

    def __post_init__(self) -> None:
        self.is_self, self.is_bot = self.choice.kind == "self", self.choice.kind == "bot"
        self.is_drawn = self.choice.kind == "league"  # each episode has another player
        self.frame_ages: tuple[int, ...] = tuple(getattr(self.opponent, "frame_ages", (0,)))

    def get_state(self) -> Snapshot:
        """Plain values, of which `OpponentPool` makes it again; an object among opponents is only told by its name."""
        plain: Snapshot = {field.name: getattr(self.choice, field.name) for field in fields(OpponentChoice)}
        plain["opponent"] = None if self.choice.kind == "object" else fspath(self.choice.opponent)
        player, content = self.name if self.is_drawn else None, getattr(self.opponent, "content_hash", None)
        return {**plain, "label": self.choice.label, "player": player, "content_hash": content}


class OpponentPool:
    """Who sits in one seat (0 or 1) of each fight, and what they decide; at first everybody has the same ``choice``."""

    def __init__(self, world: World, choice: OpponentChoice, game: Game, seat: int = 1) -> None:
        count = world.num_fights
        self._world, self._seat, self._game, seats = world, seat, game, Seats(count)
        seats.seat[:] = seat
        self._seen = SeatHistory(world, seats, 1, _NOISE)
        #: What those who are late saw when they last were in time, and who decides next by that.
        self._kept, self._stale = self._seen.own.copy(), np.zeros(count, bool)
        self._delay_words = words_from_seeds(range(count), _DELAYS)
        #: What opponents share that is equal, so that they can be asked together.
        self._made: dict[tuple[Any, str], Any] = {}
        self._seeds = [0] * count
        self._starts = np.ones(count, bool)
        #: Of each layout that states of opponents have, the states in all fights.
        self._states: dict[str, NDArray[Any]] = {}
        self.current = [self._load(choice)] * count  #: Who is there in each fight.
        self.following: list[LoadedOpponent | None] = [None] * count  #: Who comes next; ``None``: the same.
        self._divide()

    def expected(self) -> list[LoadedOpponent]:
        """Who comes in the next episode of each fight."""
        return [follower or present for follower, present in zip(self.following, self.current, strict=True)]

    def choose(self, fight: int, choice: OpponentChoice) -> None:
        """Says who comes in the next episode; raises `ValueError`, and `FileNotFoundError`, if nobody can."""
        known = (each for each in self._present if each.choice is choice)
        self.following[fight] = next(known, None) or self._load(choice)

    def begin(self, fights: NDArray[np.int64], seeds: Sequence[int | None]) -> bool:
        """New episodes have begun: those who were chosen come. Returns whether there were any.

        An opponent's random numbers follow from the seed of its fight. Whoever comes to a fight that goes on without a
        new seed gets those that follow from the last one.
        """
        changed = False
        leagues: dict[str, dict[str, str]] = {}  # each is looked at once
        for fight, seed in zip(fights.tolist(), seeds, strict=True):
            follower = self.following[fight]
            loaded = follower or self.current[fight]
            comes = follower is not None or loaded.is_drawn
            changed |= comes
            if seed is not None:
                self._seeds[fight] = seed
                self._delay_words[fight] = words_from_seeds([seed], _DELAYS)[0]
            elif comes:
                self._seeds[fight] = int(words_from_seeds([self._seeds[fight]], _CHANGES)[0] >> 1)  # fits into int64
            if loaded.is_drawn:
                league = loaded.choice.opponent
                paths = leagues[league] = leagues.get(league) or league_players(league)
                number = int(words_from_seeds([self._seeds[fight]], _DRAWS)[0] % len(paths))
                loaded = self._player(loaded, paths, list(paths)[number])
            self.current[fight], self.following[fight] = loaded, None
            if loaded.opponent is not None and (comes or seed is not None):
                state = np.asarray(loaded.opponent.initial_state([self._seeds[fight]]))
                self._states_like(state)[fight] = state[0]
        if changed:
            self._divide()
        self._starts[fights], self._stale[fights] = True, False
        self._seen.begin(fights, seeds)
        return changed

    def advance(self) -> None:
        """A tick was played."""
        if self._agents.size:
            self._seen.advance(self._agents)

    def act(self, actions: NDArray[np.int64]) -> None:
        """Chooses for all opponents that act; ``actions`` ``(N, 2, heads)`` are changed in their seat."""
        if not self._groups:
            return
        masks, late = self._world.masks[:, self._seat].copy(), self._draw_delays()
        for override, fights in self._restricted:
            masks[fights] = override.applied(masks[fights])
        actions[late, self._seat] = 0
        for ask, asked, states in self._groups:
            if late.any():
                asked = [(opponent, left) for opponent, fights in asked if (left := fights[~late[fights]]).size]
                if not asked:
                    continue
            frames = [self._frames(fights, getattr(opponent, "frame_ages", (0,))) for opponent, fights in asked]
            opponents, rows = [opponent for opponent, _ in asked], np.concatenate([fights for _, fights in asked])
            actions[rows, self._seat], following = ask(
                opponents, frames, states[rows], self._starts[rows], self._deterministic[rows], masks[rows]
            )
            if following is not None:
                states[rows] = following
            self._starts[rows] = False
        self._stale = late

    def get_state(self) -> Snapshot:
        """A snapshot, plain values and copied arrays; of opponents that are objects it has the names only."""
        loaded = list(dict.fromkeys(self._present))
        sight = {"own": self._seen.own, "kept": self._kept, "stale": self._stale}
        sight |= {"delay_words": self._delay_words, "noise_words": self._seen.words}
        state = {
            "rivals": [each.get_state() for each in loaded],
            "current": [loaded.index(each) for each in self.current],
            "following": [None if each is None else loaded.index(each) for each in self.following],
            "seeds": self._seeds,
            "starts": self._starts,
            "states": self._states,
            "sight": sight,
        }
        return copy.deepcopy(state)

    def set_state(self, state: Mapping[str, Any], loaded: Sequence[LoadedOpponent]) -> None:
        """Goes back to the moment of `get_state`, with its ``"rivals"`` as `restored` gave them."""
        self.current = [loaded[index] for index in state["current"]]
        self.following = [None if index is None else loaded[index] for index in state["following"]]
        own = copy.deepcopy({name: state[name] for name in ("seeds", "starts", "states", "sight")})
        self._seeds, self._starts, self._states, sight = own.values()
        self._seen.own, self._seen.words = sight["own"], sight["noise_words"]
        self._kept, self._stale, self._delay_words = sight["kept"], sight["stale"], sight["delay_words"]
        self._divide()

    @property
    def _present(self) -> Iterator[LoadedOpponent]:
        return filter(None, (*self.following, *self.current))

    def _load(self, choice: OpponentChoice) -> LoadedOpponent:
        contract, given, is_bot = self._world.contract, choice.opponent, choice.kind == "bot" and choice.name is None
        if choice.kind in ("file", "league", "object"):  # models have a cache, which knows when files have changed
            opponent = make_opponent(given, contract, self._game)
        else:
            opponent = self._shared(make_opponent, given, contract, self._game)
        name = getattr(self._world, "bot_name", WORLD_BOT) if is_bot else choice.label
        noise = self._shared(ObservationNoise, choice.noise, contract)
        override = self._shared(ActionMaskOverride, choice.action_mask_override, contract)
        return LoadedOpponent(choice, name, opponent, noise, override)

    def _player(self, loaded: LoadedOpponent, paths: Mapping[str, str], name: str) -> LoadedOpponent:
        """The same with that player of its league."""
        if name not in paths:
            raise ValueError(f"{name} has left the league {loaded.choice.opponent}")
        return replace(loaded, name=name, opponent=make_opponent(paths[name], self._world.contract, self._game))

    def _shared(self, make: Callable[..., T], config: Any, *more: Any) -> T | None:
        """What is made of it, once for all who have the same."""
        key = make, repr(config)
        if config is not None and key not in self._made:
            self._made[key] = make(config, *more)
        return self._made.get(key)

    def restored(self, state: Mapping[str, Any]) -> LoadedOpponent:
        """One of the ``"rivals"`` of a snapshot; `ValueError` if it is not to be had. Of objects only those present."""
        given = {field.name: state[field.name] for field in fields(OpponentChoice)}
        if given["opponent"] is None:
            objects = [each.choice.opponent for each in self._present if each.choice.kind == "object"]
            named = [each for each in objects if OpponentChoice(each, given["name"]).label == state["label"]]
            if not named:
                raise ValueError(f"the snapshot has the opponent {state['label']!r}, an object that is not here")
            given["opponent"] = named[0]
        try:
            loaded = self._load(OpponentChoice(**given))
            if loaded.is_drawn:
                loaded = self._player(loaded, league_players(given["opponent"]), state["player"])
        except OSError as error:
            raise ValueError(f"an opponent of the snapshot is gone: {error}") from error
        if getattr(loaded.opponent, "content_hash", None) != state["content_hash"]:
            raise ValueError(f"the opponent {state['label']!r} is not what it was when the snapshot was taken")
        return loaded

    def _divide(self) -> None:
        """Finds out who can be asked together, and what each of them sees and may do."""
        self._deterministic = np.array([each.choice.deterministic for each in self.current])
        groups: dict[object, _Group] = {}
        for opponent, fights in _users([each.opponent for each in self.current]):
            states = self._states_like(np.asarray(opponent.initial_state([0])))
            if (ask := getattr(opponent, "predict_together", None)) is not None:
                groups.setdefault(ask, (ask, [], states))[1].append((opponent, fights))
                continue
            for flag in (False, True):  # two calls, where some act by chance and others do not
                if (alike := fights[self._deterministic[fights] == flag]).size:
                    groups[id(opponent), flag] = (_ask_alone, [(opponent, alike)], states)
        self._groups = list(groups.values())
        self._agents = np.flatnonzero([each.opponent is not None for each in self.current])
        self._seen.noises = _users([each.noise for each in self.current])
        self._restricted = _users([each.override for each in self.current])
        self._chances = np.array([each.choice.delay_chance for each in self.current], np.float64)
        self._slow = np.flatnonzero(self._chances)
        missing = 1 + max(max(each.frame_ages) for each in self.current) - self._kept.shape[1]
        if missing > 0:  # frames that nobody saw are zero, as before the start of an episode
            padding = ((0, 0), (0, missing), (0, 0))
            self._seen.own, self._kept = np.pad(self._seen.own, padding), np.pad(self._kept, padding)

    def _states_like(self, state: NDArray[Any]) -> NDArray[Any]:
        """The array in which opponents with such states have theirs; nobody else uses a fight's place in it."""
        layout = f"{state.dtype.str}{state.shape[1:]}"
        if layout not in self._states:
            self._states[layout] = np.repeat(state, len(self.current), axis=0)
        return self._states[layout]

    def _draw_delays(self) -> NDArray[np.bool_]:
        """Who does nothing in this tick, bool ``(N,)``; whoever is late keeps what was seen when the delay began."""
        late = np.zeros(len(self._stale), bool)
        if self._slow.size:
            chance, self._delay_words[self._slow] = uniform(self._delay_words[self._slow])
            late[self._slow] = chance < self._chances[self._slow]
            fresh = late & ~self._stale
            self._kept[fresh] = self._seen.own[fresh]
        return late

    def _frames(self, fights: NDArray[np.int64], ages: Sequence[int]) -> NDArray[np.float32]:
        """What the opponents in these fights decide by, ``(n, frames, D)``, a new array."""
        rows, which, stale = fights[:, np.newaxis], list(ages), self._stale[fights]
        frames: NDArray[np.float32] = self._seen.own[rows, which]
        if stale.any():
            frames[stale] = self._kept[rows[stale], which]
        return frames


def _ask_alone(
    opponents: Sequence[Opponent],
    frames: Sequence[NDArray[np.float32]],
    states: NDArray[Any],
    *flags: NDArray[np.bool_],
) -> Decision:
    """One opponent on its own, all of whose fights are as deterministic."""
    (opponent,), (seen,), (starts, deterministic, masks) = opponents, frames, flags
    if not hasattr(opponent, "frame_ages"):
        seen = seen[:, 0]
    actions, following = opponent.predict(seen, states, starts, bool(deterministic[0]), masks)
    if np.asarray(actions).dtype.kind not in "iu":
        raise ValueError(f"actions of an opponent must be integers, got {actions!r:.60} from {opponent!r:.60}")
    return actions, following


def _users(owners: Sequence[T | None]) -> list[tuple[T, NDArray[np.int64]]]:
    """Everybody who is there, with the fights that have them, ascending."""
    users: dict[int, tuple[T, list[int]]] = {}
    for fight, owner in enumerate(owners):
        if owner is not None:
            users.setdefault(id(owner), (owner, []))[1].append(fight)
    return [(owner, np.array(fights)) for owner, fights in users.values()]
