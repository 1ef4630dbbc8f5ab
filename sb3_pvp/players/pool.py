"""The opponents of N fights, which act in as few batched calls as possible."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain
from os import fspath
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.random_words import uniform, words_from_seeds
from sb3_pvp.common.snapshots import Snapshot
from sb3_pvp.game import Game, World
from sb3_pvp.players.opponents import WORLD_BOT, OpponentChoice, league_players, make_opponent
from sb3_pvp.players.seats import ActionMaskOverride, ObservationNoise, SeatHistory, Seats
from sb3_pvp.policies.acting import Decision, Opponent

# Streams of a fight's seed, so that no use of random numbers depends on another.
_DELAYS, _NOISE, _CHANGES, _LEAGUE = 4, 5, 6, 7

T = TypeVar("T")
#: Opponents that act in one call: a function like `ModelOpponent.predict_together`, the opponents with their fights,
#: and the array of their states in all fights.
Members = list[tuple[Opponent, NDArray[np.int64]]]  #: Opponents with their fights.
_Group = tuple[Callable[..., Decision], Members, NDArray[Any]]
#: Called with the function, opponents and fights of a group, the frames of each, and then with arrays of all rows.
Ask = Callable[..., Decision]


@dataclass(eq=False)
class LoadedOpponent:
    """An `OpponentChoice` with the objects it stands for."""

    choice: OpponentChoice
    name: str  #: Its name in ``info``.
    opponent: Opponent | None  #: Of a league the player of this episode; ``None`` for the world's bot and self-play.
    noise: ObservationNoise | None
    override: ActionMaskOverride | None

    def __post_init__(self) -> None:
        self.is_self, self.is_bot = self.choice.kind == "self", self.choice.kind == "bot"

    def get_state(self) -> Snapshot:
        """Returns plain values for `OpponentPool.restored`; opponents that are objects are stored by name only."""
        plain: Snapshot = {field.name: getattr(self.choice, field.name) for field in fields(OpponentChoice)}
        plain["opponent"] = None if self.choice.kind == "object" else fspath(self.choice.opponent)
        player = self.name if self.choice.kind == "league" else None
        content = getattr(self.opponent, "content_hash", None)
        return {**plain, "label": self.choice.label, "player": player, "content_hash": content}


class OpponentPool:
    """The opponents in one seat (0 or 1) of each fight; all fights start with the same ``choice``.

    ``ask`` lets opponents decide, by default by calling them: who watches a match may do it in another way.
    """

    def __init__(self, world: World, choice: OpponentChoice, game: Game, seat: int = 1, ask: Ask | None = None) -> None:
        count = world.num_fights
        self._world, self._seat, self._game, self._ask = world, seat, game, ask or ask_opponents
        self._seats = Seats(count, seat)
        self._seen = SeatHistory(world, self._seats, 1, _NOISE)
        # What opponents saw when their delay began, and which of them decide by that next.
        self._delayed, self._is_delayed = self._seen.own.copy(), np.zeros(count, bool)
        self._delay_words = words_from_seeds(range(count), _DELAYS)
        self._predict_alone = partial(_predict_alone, "iuf" if world.contract.numbers.size else "iu")
        # Fights with equal configs share one object, so that its rows can be batched.
        self._cache: dict[tuple[Any, str], Any] = {}
        self._seeds = [0] * count
        self._starts = np.ones(count, bool)
        # States of opponents ``(N, ...)`` by layout (dtype and shape of a row); each fight has a row in every array.
        self._states: dict[str, NDArray[Any]] = {}
        self.current = [self._load(choice)] * count  #: The opponent of each fight.
        self.following: list[LoadedOpponent | None] = [None] * count  #: That of the next episode; ``None``: the same.
        self._regroup()

    def take_seat(self, seat: int) -> None:
        """Moves the opponents to this seat; all episodes must begin anew then."""
        self._seat = seat
        self._seats.take(seat)

    def choose(self, fight: int, choice: OpponentChoice) -> None:
        """Sets the opponent of the next episode; raises `ValueError` or `FileNotFoundError` if it cannot be loaded."""
        # Rows side by side often share one: looking through all rows for each would take long in large environments.
        beside = self.following[fight - 1 : fight]
        known = (each for each in chain(beside, self._loaded) if each is not None and each.choice is choice)
        self.following[fight] = next(known, None) or self._load(choice)

    def begin(self, fights: NDArray[np.int64], seeds: Sequence[int | None]) -> bool:
        """Begins new episodes with the opponents that were chosen; returns whether any opponent may have changed.

        An opponent's random numbers follow from the seed of its fight. Without a new seed, a new opponent gets a seed
        derived from the last one, and a present one keeps its random stream.
        """
        changed = False
        leagues: dict[str, dict[str, str]] = {}  # lists each league's folder only once
        for fight, seed in zip(fights.tolist(), seeds, strict=True):
            upcoming = self.following[fight]
            loaded = upcoming or self.current[fight]
            is_league = loaded.choice.kind == "league"
            is_new = upcoming is not None or is_league
            changed |= is_new
            if seed is not None:
                self._seeds[fight] = seed
                self._delay_words[fight] = words_from_seeds([seed], _DELAYS)[0]
            elif is_new:
                self._seeds[fight] = int(words_from_seeds([self._seeds[fight]], _CHANGES)[0] >> 1)  # fits into int64
            # By the fight's own seed, not a common generator: the player must not depend on what other rows draw.
            if is_league:  # a player is sampled per episode
                league = loaded.choice.opponent
                paths = leagues[league] = leagues.get(league) or league_players(league)
                number = int(words_from_seeds([self._seeds[fight]], _LEAGUE)[0] % len(paths))
                loaded = self._with_player(loaded, paths, list(paths)[number])
            self.current[fight], self.following[fight] = loaded, None
            if loaded.opponent is not None and (is_new or seed is not None):
                state = np.asarray(loaded.opponent.initial_state([self._seeds[fight]]))
                self._states_like(state)[fight] = state[0]
        if changed:
            self._regroup()
        self._starts[fights], self._is_delayed[fights] = True, False
        self._seen.begin(fights, seeds)
        return changed

    def advance(self) -> None:
        """Reads the observations after a tick."""
        if self._agents.size:
            self._seen.advance(self._agents)

    def act(self, actions: NDArray[Any]) -> None:
        """Writes the actions of all opponents that act into their seat of ``actions (N, 2, heads)``."""
        if not self._groups:
            return
        masks, late = self._world.masks[:, self._seat].copy(), self._sample_delays()
        for override, fights in self._restricted:
            masks[fights] = override.applied(masks[fights])
        actions[late, self._seat] = 0  # entry 0 of each head is "do nothing"
        # One call a group, not one an opponent: a league's players have small networks, whose calls cost most.
        # States have a row for each fight, so that those of a group are one index, whoever is in it.
        for predict, members, states in self._groups:
            if late.any():
                members = [(opponent, left) for opponent, fights in members if (left := fights[~late[fights]]).size]
                if not members:
                    continue
            frames = [self._frames(fights, _ages(opponent)) for opponent, fights in members]
            for opponent, fights in members:
                if hasattr(opponent, "watch"):
                    opponent.watch(self._world, fights, self._seat)
            # The rows of one opponent after the other: that is how predictors of several tell them apart.
            rows = np.concatenate([fights for _, fights in members])
            actions[rows, self._seat], next_states = self._ask(
                predict, members, frames, states[rows], self._starts[rows], self._deterministic[rows], masks[rows]
            )
            if next_states is not None:
                states[rows] = next_states
            # Only of those that have acted: one whose first tick was late still has to see the start of its episode.
            self._starts[rows] = False
        self._is_delayed = late

    def get_state(self) -> Snapshot:
        """Returns a snapshot of plain values and copied arrays; opponents that are objects are stored by name only."""
        numbers = {each: number for number, each in enumerate(dict.fromkeys(self._loaded))}
        sight = {"own": self._seen.own, "kept": self._delayed, "stale": self._is_delayed}
        sight |= {"delay_words": self._delay_words, "noise_words": self._seen.words}
        # Not deepcopy: it would take as long as a tick, before each rollout.
        return {
            "rivals": [each.get_state() for each in numbers],
            "current": [numbers[each] for each in self.current],
            "following": [None if each is None else numbers[each] for each in self.following],
            "seeds": [*self._seeds],
            "starts": self._starts.copy(),
            "states": {layout: states.copy() for layout, states in self._states.items()},
            "sight": {name: array.copy() for name, array in sight.items()},
        }

    def set_state(self, state: Mapping[str, Any], loaded: Sequence[LoadedOpponent]) -> None:
        """Restores a snapshot; ``loaded`` are its ``"rivals"``, each one `restored`."""
        self.current = [loaded[index] for index in state["current"]]
        self.following = [None if index is None else loaded[index] for index in state["following"]]
        own = copy.deepcopy({name: state[name] for name in ("seeds", "starts", "states", "sight")})
        self._seeds, self._starts, self._states, sight = own.values()
        self._seen.own, self._seen.words = sight["own"], sight["noise_words"]
        self._delayed, self._is_delayed, self._delay_words = sight["kept"], sight["stale"], sight["delay_words"]
        self._regroup()

    @property
    def _loaded(self) -> Iterator[LoadedOpponent]:
        """All opponents of present and next episodes, with duplicates."""
        return filter(None, chain(self.following, self.current))

    def _load(self, choice: OpponentChoice) -> LoadedOpponent:
        """Loads the opponent of a choice, with its noise and masks."""
        # Here, as the next reset, which would refuse them as well, may be in the middle of a step.
        known = getattr(self._world, "reset_options", None)  # of an `ArrayWorld`
        if choice.reset_params and known is not None and "seat_reset_params" not in known:
            raise ValueError(
                f"{type(self._world).__name__} has no seat_reset_params: give {choice.label} no reset_params of its own"
            )
        contract, given, is_bot = self._world.contract, choice.opponent, choice.kind == "bot" and choice.name is None
        # Models are not `_shared` here: `load_opponent` shares them, and notices when a file has changed.
        if choice.kind in ("file", "league", "search", "team", "object"):
            opponent = make_opponent(given, contract, self._game)
        else:
            opponent = self._shared(make_opponent, given, contract, self._game)
        name = getattr(self._world, "bot_name", WORLD_BOT) if is_bot else choice.label
        noise = self._shared(ObservationNoise, choice.noise, contract)
        override = self._shared(ActionMaskOverride, choice.action_mask_override, contract)
        return LoadedOpponent(choice, name, opponent, noise, override)

    def _with_player(self, loaded: LoadedOpponent, paths: Mapping[str, str], name: str) -> LoadedOpponent:
        """Returns a copy with a player of its league; ``paths`` are those of all players by name."""
        if name not in paths:
            raise ValueError(f"{name} has left the league {loaded.choice.opponent}")
        return replace(loaded, name=name, opponent=make_opponent(paths[name], self._world.contract, self._game))

    def _shared(self, make: Callable[..., T], config: Any, *more: Any) -> T | None:
        """Returns ``make(config, *more)``, one object for equal configs; ``None`` for ``None``."""
        key = make, repr(config)
        if config is not None and key not in self._cache:
            self._cache[key] = make(config, *more)
        return self._cache.get(key)

    def restored(self, state: Mapping[str, Any]) -> LoadedOpponent:
        """Loads one of the ``"rivals"`` of a snapshot; raises `ValueError` if it is missing or has changed."""
        # Snapshots of earlier versions lack what was added since.
        given = {field.name: state[field.name] for field in fields(OpponentChoice) if field.name in state}
        if given["opponent"] is None:
            # An object cannot be loaded, so it must be among the present opponents, by its name.
            objects = [each.choice.opponent for each in self._loaded if each.choice.kind == "object"]
            named = [each for each in objects if OpponentChoice(each, given["name"]).label == state["label"]]
            if not named:
                raise ValueError(f"the snapshot has the opponent {state['label']!r}, an object that is not here")
            given["opponent"] = named[0]
        try:
            loaded = self._load(OpponentChoice(**given))
            if loaded.choice.kind == "league":
                loaded = self._with_player(loaded, league_players(given["opponent"]), state["player"])
        except OSError as error:
            raise ValueError(f"an opponent of the snapshot is gone: {error}") from error
        if getattr(loaded.opponent, "content_hash", None) != state["content_hash"]:
            raise ValueError(f"the model of the opponent {state['label']!r} has changed since the snapshot was taken")
        return loaded

    def _regroup(self) -> None:
        """Groups opponents that can act in one call, and collects per fight what they see and may do."""
        self._deterministic = np.array([each.choice.deterministic for each in self.current])
        groups: dict[object, _Group] = {}
        for opponent, fights in _fights_by_owner([each.opponent for each in self.current]):
            states = self._states_like(np.asarray(opponent.initial_state([0])))
            # The function is the key: opponents of one class are merged, and those of another never mixed with them.
            if (predict := getattr(opponent, "predict_together", None)) is not None:
                groups.setdefault(predict, (predict, [], states))[1].append((opponent, fights))
                continue
            for flag in (False, True):  # Opponent.predict takes one flag for all rows
                if (alike := fights[self._deterministic[fights] == flag]).size:
                    groups[id(opponent), flag] = (self._predict_alone, [(opponent, alike)], states)
        self._groups = list(groups.values())
        self._agents = np.flatnonzero([each.opponent is not None for each in self.current])
        self._seen.noises = _fights_by_owner([each.noise for each in self.current])
        self._restricted = _fights_by_owner([each.override for each in self.current])
        self._chances = np.array([each.choice.delay_chance for each in self.current], np.float64)
        self._slow = np.flatnonzero(self._chances)
        missing = 1 + max(max(_ages(each.opponent)) for each in self.current) - self._delayed.shape[1]
        if missing > 0:  # missing frames are zero-padded, as before the start of an episode
            padding = ((0, 0), (0, missing), (0, 0))
            self._seen.own, self._delayed = np.pad(self._seen.own, padding), np.pad(self._delayed, padding)

    def _states_like(self, state: NDArray[Any]) -> NDArray[Any]:
        """Returns the array ``(N, ...)`` for states of this layout, in which each fight's opponent has its row."""
        layout = f"{state.dtype.str}{state.shape[1:]}"
        if layout not in self._states:
            # Large enough for all fights at once, as opponents come and go with every episode.
            self._states[layout] = np.repeat(state, len(self.current), axis=0)
        return self._states[layout]

    def _sample_delays(self) -> NDArray[np.bool_]:
        """Samples which opponents do nothing in this tick, bool ``(N,)``, and keeps their view when a delay begins."""
        late = np.zeros(len(self._is_delayed), bool)
        if self._slow.size:
            chance, self._delay_words[self._slow] = uniform(self._delay_words[self._slow])
            late[self._slow] = chance < self._chances[self._slow]
            # What it saw when the delay began: after it, a late human acts on what is no longer there.
            begins = late & ~self._is_delayed
            self._delayed[begins] = self._seen.own[begins]
        return late

    def _frames(self, fights: NDArray[np.int64], ages: Sequence[int]) -> NDArray[np.float32]:
        """Returns the frames that opponents decide by, delayed ones after a delay: a new array ``(n, frames, D)``."""
        rows, which, delayed = fights[:, np.newaxis], list(ages), self._is_delayed[fights]
        frames: NDArray[np.float32] = self._seen.own[rows, which]
        if delayed.any():
            frames[delayed] = self._delayed[rows[delayed], which]
        return frames


def ask_opponents(predict: Callable[..., Decision], members: Members, *seen: Any) -> Decision:
    """Lets the opponents of a group decide: those of one network in one call."""
    return predict([opponent for opponent, _ in members], *seen)


def _ages(opponent: Opponent | None) -> Sequence[int]:
    """Returns the ages of the frames that an opponent sees; one without the attribute sees the newest only."""
    return getattr(opponent, "frame_ages", (0,))


def _predict_alone(
    kinds: str,
    opponents: Sequence[Opponent],
    frames: Sequence[NDArray[np.float32]],
    states: NDArray[Any],
    *flags: NDArray[np.bool_],
) -> Decision:
    """Calls `Opponent.predict` of a single opponent, whose ``deterministic`` flags are all equal.

    ``kinds`` are those of the dtypes that actions may have.
    """
    (opponent,), (seen,), (starts, deterministic, masks) = opponents, frames, flags
    if not hasattr(opponent, "frame_ages"):
        seen = seen[:, 0]
    actions, next_states = opponent.predict(seen, states, starts, bool(deterministic[0]), masks)
    if np.asarray(actions).dtype.kind not in kinds:
        raise ValueError(f"actions of an opponent must be integers, got {actions!r:.60} from {opponent!r:.60}")
    return actions, next_states


def _fights_by_owner(owners: Sequence[T | None]) -> list[tuple[T, NDArray[np.int64]]]:
    """Returns each distinct object with the fights that have it, ascending."""
    by_id: dict[int, tuple[T, list[int]]] = {}
    for fight, owner in enumerate(owners):
        if owner is not None:
            by_id.setdefault(id(owner), (owner, []))[1].append(fight)
    return [(owner, np.array(fights)) for owner, fights in by_id.values()]
