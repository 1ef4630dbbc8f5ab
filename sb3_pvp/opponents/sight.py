"""What a seat sees and may do: noise (training.md §10), forbidden actions (rewards.md §7), frames and delays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from sb3_pvp.common.arguments import Kind
from sb3_pvp.common.random_words import RandomWords, uniform, words_from_seeds
from sb3_pvp.contract import Contract
from sb3_pvp.game import World
from sb3_pvp.schedules import Schedule, drawing_from, parse_schedule

if TYPE_CHECKING:
    from sb3_pvp.opponents.pool import Rival

_LEARNERS_NOISE, _DELAYS, _NOISE = 2, 4, 5  # streams of a fight's seed
_RANGE = re.compile(r"(\d+):(\d+)")


class _Adder(BaseModel):
    model_config = ConfigDict(extra="forbid")
    indices: Annotated[list[int | str], Field(min_length=1)]
    value: Any


class _Adders(BaseModel):
    model_config = ConfigDict(extra="forbid")
    adders: list[_Adder]


_CONFIG = Kind[_Adders](_Adders, '{"adders": [{"indices": [5, "0:9", "an_id"], "value": ...}, ...]}')


class ObservationNoise:
    """Adds one number per adder, tick and fight to some of a seat's own observations.

    A schedule without chance is evaluated when `set_trained_rollouts` moves its time. One that draws, such as
    ``{"type": "expression", "expression": "normal(0, 0.01)"}``, is evaluated in every tick for all fights at once, and
    each fight draws from random numbers of its own, which its seed determines.

    Args:
        config: ``{"adders": [{"indices": [...], "value": schedule}, ...]}``; indices are positions, half-open ranges
            ``"a:b"`` or ids of observations. The same number is added to all indices of an adder.
        contract: what the observations are called.
        num_fights: N.

    Attributes:
        words: uint64 ``(N,)``, the random state of each fight.

    Raises:
        ValueError: for another form, an unknown observation, or a value that is no finite number.
    """

    def __init__(self, config: Mapping[str, Any], contract: Contract, num_fights: int) -> None:
        self._adders: list[tuple[list[int], Schedule]] = []
        for adder in _CONFIG.read("noise", config).adders:
            positions = {position for index in adder.indices for position in _positions(index, contract)}
            self._adders.append((sorted(positions), parse_schedule(adder.value)))
        self._num_observations = contract.num_observations
        self.words = words_from_seeds(range(num_fights), _LEARNERS_NOISE)
        self.set_trained_rollouts(0)

    def set_trained_rollouts(self, trained_rollouts: int) -> None:
        """Moves the time of the schedules."""
        self._time = trained_rollouts
        self._offset = np.zeros(self._num_observations, np.float32)
        self._random: list[tuple[list[int], Schedule]] = []
        for positions, schedule in self._adders:
            trial = RandomWords(np.zeros(1, np.uint64))
            value = self._values(schedule, trial)
            if trial.words.any():
                self._random.append((positions, schedule))
            else:
                self._offset[positions] += value

    def seed(self, fights: NDArray[np.int64], seeds: Sequence[int | None]) -> None:
        """Seeds these fights; without a seed a fight goes on with its random numbers."""
        for fight, seed in zip(fights, seeds, strict=True):
            if seed is not None:
                self.words[fight] = words_from_seeds([seed], _LEARNERS_NOISE)[0]

    def add(self, observations: NDArray[np.float32], fights: NDArray[np.int64] | slice) -> NDArray[np.float32]:
        """The observations ``(n, D)`` of these fights with the noise of one tick, a new array."""
        noisy = observations + self._offset
        draws = RandomWords(self.words[fights])
        for positions, schedule in self._random:
            noisy[:, positions] += self._values(schedule, draws)[..., np.newaxis]
        self.words[fights] = draws.words
        return noisy

    def _values(self, schedule: Schedule, draws: RandomWords) -> NDArray[np.float64]:
        """One number per fight, or one for all."""
        with drawing_from(draws):
            value = schedule(self._time)
        array = np.asarray(value)
        if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
            raise ValueError(f"the value of a noise adder must be a finite number, got {value!r} at t = {self._time}")
        return array.astype(np.float64)


def _positions(index: int | str, contract: Contract) -> Sequence[int]:
    """What one entry of ``indices`` stands for."""
    found = _RANGE.fullmatch(str(index))
    if isinstance(index, str) and found is None:
        return [contract.observation_index(index)]
    positions = range(int(found[1]), int(found[2])) if found else [int(index)]
    if not positions or min(positions) < 0 or max(positions) >= contract.num_observations:
        raise ValueError(f"noise reaches the observations 0 to {contract.num_observations - 1}, got {index!r}")
    return positions


class ActionMaskOverride:
    """Takes sub-actions out of action masks, for good or for a while; it can only forbid.

    Args:
        config: a schedule of arrays with one boolean per sub-action, such as an ``npboolarray`` or a ``jump`` of them.
            Ids of sub-actions may stand for their positions, ``size`` may be left out, and ``{"forbid": [ids]}`` is
            short for an ``npboolarray`` with these ``false-indices``.
        contract: what the sub-actions are called.

    Attributes:
        allowed: bool ``(A,)``, what the schedule gives at its present time.

    Raises:
        ValueError: for anything that is no such schedule, and for an unknown sub-action.
    """

    def __init__(self, config: Any, contract: Contract) -> None:
        self._num_actions = contract.num_flat_actions
        self._first_entries = contract.head_offsets[:-1]
        self._schedule = parse_schedule(_spelled_out(config, contract))
        for threshold, _ in getattr(self._schedule, "jumps", ()):
            self.set_trained_rollouts(threshold)  # what will be wrong later is refused now
        self.set_trained_rollouts(0)

    def set_trained_rollouts(self, trained_rollouts: int) -> None:
        """Moves the time of the schedule."""
        self.allowed = np.asarray(self._schedule(trained_rollouts))
        if self.allowed.shape != (self._num_actions,) or self.allowed.dtype != bool:
            raise ValueError(
                f"action_mask_override must give {self._num_actions} booleans, one per sub-action, "
                f"got {self.allowed.dtype} {self.allowed.shape} at t = {trained_rollouts}"
            )

    def applied(self, masks: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Masks ``(..., A)`` without what is forbidden, a new array; a head without any choice keeps its entry 0."""
        left: NDArray[np.bool_] = masks & self.allowed
        left[..., self._first_entries] |= ~np.logical_or.reduceat(left, self._first_entries, axis=-1)
        return left


def _spelled_out(config: Any, contract: Contract) -> Any:
    """The configuration with positions for ids, in schedules inside schedules too."""
    if not isinstance(config, Mapping):
        return config
    if set(config) == {"forbid"}:
        config = {"type": "npboolarray", "false_indices": config["forbid"]}
    keys = {str(key).replace("-", "_"): value for key, value in config.items()}
    for key in ("true_indices", "false_indices"):
        if isinstance(keys.get(key), (list, tuple)):
            keys[key] = [contract.flat_index(entry) if isinstance(entry, str) else entry for entry in keys[key]]
    if keys.get("type") == "npboolarray":
        keys.setdefault("size", contract.num_flat_actions)
    return {key: _spelled_out(value, contract) for key, value in keys.items()}


_Owner = TypeVar("_Owner", ObservationNoise, ActionMaskOverride)


class OpponentSight:
    """One seat (0 or 1) of N fights, as those see it who sit there: frames, noise, masks, and delays.

    Attributes:
        own: float32 ``(N, depth, D)``, what the seats saw of late, newest first.
        kept: the same, when those who are late last were in time.
        stale: bool ``(N,)``, who decides next by what was kept.
        delay_words: uint64 ``(N,)``, random numbers of delays.
        noise_words: the same of noise.
    """

    ARRAYS = ("own", "kept", "stale", "delay_words", "noise_words")

    def __init__(self, world: World, seat: int) -> None:
        self._world, self._seat = world, seat
        count = world.num_fights
        shape = (count, 1, world.contract.num_observations)
        self.own, self.kept = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self.stale = np.zeros(count, bool)
        self.delay_words, self.noise_words = (words_from_seeds(range(count), stream) for stream in (_DELAYS, _NOISE))

    def seed(self, fight: int, seed: int) -> None:
        """Determines the delays and the noise in a fight."""
        for words, stream in ((self.delay_words, _DELAYS), (self.noise_words, _NOISE)):
            words[fight] = words_from_seeds([seed], stream)[0]

    def follow(self, rivals: Sequence[Rival]) -> None:
        """Says who plays in each fight."""
        self._agents = np.flatnonzero([rival.opponent is not None for rival in rivals])
        self._noisy = _users(rival.noise for rival in rivals)
        self._restricted = _users(rival.override for rival in rivals)
        self._chances = np.array([rival.choice.delay_chance for rival in rivals], np.float64)
        self._slow = np.flatnonzero(self._chances)
        missing = 1 + max(max(rival.frame_ages) for rival in rivals) - self.own.shape[1]
        if missing > 0:  # frames that nobody saw are zero, as before the start of an episode
            padding = ((0, 0), (0, missing), (0, 0))
            self.own, self.kept = np.pad(self.own, padding), np.pad(self.kept, padding)

    def begin(self, fights: NDArray[np.int64]) -> None:
        """New episodes have begun: their first observation is taken up."""
        self.stale[fights] = False
        self.own[fights] = 0.0
        self._take_up(fights)

    def advance(self) -> None:
        """Takes up the observations after a tick."""
        if self._agents.size:
            self.own[:, 1:] = self.own[:, :-1]
            self._take_up(self._agents)

    def frames(self, fights: NDArray[np.int64], ages: Sequence[int]) -> NDArray[np.float32]:
        """What the opponents in these fights decide by, ``(n, frames, D)``, a new array."""
        rows, which = fights[:, np.newaxis], list(ages)
        frames: NDArray[np.float32] = self.own[rows, which]
        stale = self.stale[fights]
        if stale.any():
            frames[stale] = self.kept[rows[stale], which]
        return frames

    def masks(self) -> NDArray[np.bool_]:
        """Their flat masks ``(N, A)``."""
        masks = self._world.masks[:, self._seat].copy()
        for override, fights in self._restricted:
            masks[fights] = override.applied(masks[fights])
        return masks

    def draw_delays(self) -> NDArray[np.bool_]:
        """Who does nothing in this tick, bool ``(N,)``; whoever is late keeps what was seen when the delay began."""
        late = np.zeros(len(self.stale), bool)
        if self._slow.size:
            chance, self.delay_words[self._slow] = uniform(self.delay_words[self._slow])
            late[self._slow] = chance < self._chances[self._slow]
            fresh = late & ~self.stale
            self.kept[fresh] = self.own[fresh]
        return late

    def put_back(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Takes over arrays of another moment, with as many frames as were seen then."""
        for name in self.ARRAYS[:2]:
            setattr(self, name, arrays[name].copy())
        for name in self.ARRAYS[2:]:
            getattr(self, name)[:] = arrays[name]

    def _take_up(self, fights: NDArray[np.int64]) -> None:
        self.own[fights, 0] = self._world.obs[fights, self._seat]
        for noise, users in self._noisy:
            noisy = np.intersect1d(users, fights)
            self.own[noisy, 0] = noise.add(self.own[noisy, 0], noisy)


def _users(owners: Iterable[_Owner | None]) -> list[tuple[_Owner, NDArray[np.int64]]]:
    """Everybody who is there, with the fights that use it, ascending."""
    users: dict[int, tuple[_Owner, list[int]]] = {}
    for fight, owner in enumerate(owners):
        if owner is not None:
            users.setdefault(id(owner), (owner, []))[1].append(fight)
    return [(owner, np.array(fights)) for owner, fights in users.values()]
