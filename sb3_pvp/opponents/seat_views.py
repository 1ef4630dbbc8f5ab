"""What a seat sees and may do: frames, noise (training.md §10) and forbidden actions (rewards.md §7)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from sb3_pvp.common.arguments import Kind
from sb3_pvp.common.random_words import RandomWords, words_from_seeds
from sb3_pvp.contract import Contract
from sb3_pvp.game import World
from sb3_pvp.schedules import Schedule, drawing_from, parse_schedule

Selection = NDArray[np.int64] | slice
Observation = dict[str, NDArray[Any]]
_LEARNERS_NOISE = 2  # stream of a fight's seed
_RANGE = re.compile(r"(\d+):(\d+)")


class _Adder(BaseModel, extra="forbid"):
    indices: Annotated[list[int | str], Field(min_length=1)]
    value: Any


class _Adders(BaseModel, extra="forbid"):
    adders: list[_Adder]


_CONFIG = Kind[_Adders](_Adders, '{"adders": [{"indices": [5, "0:9", "an_id"], "value": ...}, ...]}')


class ObservationNoise:
    """Adds one number per adder, tick and fight to some of a seat's own observations.

    A schedule without chance is evaluated when `set_trained_rollouts` moves its time. One that draws, such as
    ``{"type": "expression", "expression": "normal(0, 0.01)"}``, is evaluated in every tick for all fights at once.

    ``config`` is ``{"adders": [{"indices": [...], "value": schedule}, ...]}``; indices are positions, half-open ranges
    ``"a:b"`` or ids of observations. The same number is added to all indices of an adder. Raises `ValueError` for
    another form, an unknown observation, or a value that is no finite number.
    """

    def __init__(self, config: Mapping[str, Any], contract: Contract) -> None:
        self._adders: list[tuple[list[int], Schedule]] = []
        for adder in _CONFIG.read("noise", config).adders:
            positions = {position for index in adder.indices for position in _positions(index, contract)}
            self._adders.append((sorted(positions), parse_schedule(adder.value)))
        self._num_observations = contract.num_observations
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

    def add(
        self, observations: NDArray[np.float32], words: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.uint64]]:
        """Observations ``(n, D)`` with the noise of one tick, a new array, and the random numbers that come next.

        ``words``: uint64 ``(n,)``, of each fight (`sb3_pvp.common.random_words`).
        """
        noisy, draws = observations + self._offset, RandomWords(words)
        for positions, schedule in self._random:
            noisy[:, positions] += self._values(schedule, draws)[..., np.newaxis]
        return noisy, draws.words

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

    ``config`` is a schedule of arrays with one boolean per sub-action, such as an ``npboolarray`` or a ``jump`` of
    them. Ids of sub-actions may stand for their positions, ``size`` may be left out, and ``{"forbid": [ids]}`` is short
    for an ``npboolarray`` with these ``false-indices``. Raises `ValueError` for anything else, and for unknown ids.
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


class Seats:
    """The seat of each row of an environment: a seat of a fight of its own, or one of a pair's common fight.

    Rows ``2j`` and ``2j + 1`` are a pair. When they play each other, they have seats 0 and 1 of fight ``2j``, and fight
    ``2j + 1`` is idle. Any other row ``r`` has seat 0 of fight ``r``.
    """

    def __init__(self, num_rows: int) -> None:
        self.pair(np.zeros(num_rows, bool))

    def pair(self, paired: NDArray[np.bool_]) -> None:
        """Says which rows play their partner, bool ``(N,)``, equal for the rows of a pair."""
        rows = np.arange(len(paired))
        self.fight = np.where(paired, rows & ~1, rows)  #: Of each row, int64 ``(N,)``; and its seat there.
        self.seat = np.where(paired, rows & 1, 0)
        self.paired = np.flatnonzero(paired)  #: The rows that play their partner; and the partners of these.
        self.partner = self.paired ^ 1
        self.playing = np.unique(self.fight) if self.paired.size else None  #: Fights; ``None``: all of them.

    def own(self, array: NDArray[Any], rows: Selection | int = slice(None)) -> NDArray[Any]:
        """What an array ``(N, 2, ...)`` holds of the rows' seats."""
        own: NDArray[Any] = array[self.fight[rows], self.seat[rows]]
        return own


class SeatHistory:
    """What N rows saw of late from their seats, with noise: so many frames as ``depth`` says, which may be none.

    After `Seats.pair` the rows concerned begin anew. ``stream``: of a fight's seed, for the noise. ``hidden``: which
    observations of the other seat are taken up as well.
    """

    def __init__(
        self, world: World, seats: Seats, depth: int, stream: int, hidden: NDArray[np.int64] | tuple[()] = ()
    ) -> None:
        self._world, self._seats, self._stream, self._hidden = world, seats, stream, np.asarray(hidden, np.int64)
        shape = (world.num_fights, depth) if depth else (0, 1)  # as snapshots have it
        #: Float32 ``(N, depth, D)``, newest first; zero before the start of the episode (contract.md §5).
        self.own = np.zeros((*shape, world.contract.num_observations), np.float32)
        self.hidden = np.zeros((*shape, len(hidden)), np.float32)  #: What the other seat saw at the same time.
        self.words = words_from_seeds(range(world.num_fights), stream)  #: Random numbers of the noise, uint64 ``(N,)``.
        #: Each noise with the rows that it is for.
        self.noises: Sequence[tuple[ObservationNoise, NDArray[np.int64]]] = ()

    def begin(self, rows: NDArray[np.int64], seeds: Sequence[int | None]) -> None:
        """Forgets what these rows saw and takes up their first observation.

        Without a seed a row goes on with its random numbers.
        """
        for row, seed in zip(rows.tolist(), seeds, strict=True):
            if seed is not None:
                self.words[row] = words_from_seeds([seed], self._stream)[0]
        if len(self.own):
            self.own[rows] = self.hidden[rows] = 0.0
            self._take_up(rows)

    def advance(self, rows: NDArray[np.int64]) -> None:
        """Takes up the observations of these rows after a tick; nobody asks for those of the others."""
        if len(self.own):
            self.own[:, 1:] = self.own[:, :-1]
            self.hidden[:, 1:] = self.hidden[:, :-1]
            self._take_up(rows)

    def _take_up(self, rows: NDArray[np.int64]) -> None:
        self.own[rows, 0] = self._seats.own(self._world.obs, rows)
        for noise, users in self.noises:
            noisy = np.intersect1d(users, rows)
            self.own[noisy, 0], self.words[noisy] = noise.add(self.own[noisy, 0], self.words[noisy])
        if self._hidden.size:
            self.hidden[rows, 0] = self._fresh_hidden(rows)

    def _fresh_hidden(self, rows: Selection) -> NDArray[np.float32]:
        facing = self._world.obs[self._seats.fight[rows], 1 - self._seats.seat[rows]]
        hidden: NDArray[np.float32] = facing.take(self._hidden, axis=-1)
        return hidden


def observation_space(contract: Contract, num_frames: int) -> spaces.Dict:
    """The space of `SeatObservations.stacked` for one fight; without a privileged part where nothing is hidden.

    The mask is a `Box`, not a `MultiBinary`, because SB3's ``VecNormalize`` accepts nothing else.
    """
    sizes = {"observation": contract.num_observations, "privileged": len(contract.partial_indices)}
    parts: dict[str, spaces.Space[Any]] = {
        name: spaces.Box(-np.inf, np.inf, (num_frames, size), np.float32) for name, size in sizes.items() if size
    }
    return spaces.Dict({**parts, "action_mask": spaces.Box(0, 1, (contract.num_flat_actions,), np.int8)})


class SeatObservations(SeatHistory):
    """What the learner sees in each row of an environment; its history is empty if the newest frame is enough.

    Frames of ``frame_ages`` (ascending, in ticks before the newest one) are shown; ``noise`` and ``override`` are
    configurations of `ObservationNoise` and `ActionMaskOverride`.
    """

    def __init__(
        self,
        world: World,
        seats: Seats,
        frame_ages: tuple[int, ...],
        noise: Mapping[str, Any] | None = None,
        override: Any = None,
    ) -> None:
        contract, depth = world.contract, 0 if frame_ages == (0,) and noise is None else max(frame_ages) + 1
        super().__init__(world, seats, depth, _LEARNERS_NOISE, contract.partial_indices)
        if noise is not None:
            self.noises = [(ObservationNoise(noise, contract), np.arange(world.num_fights))]
        self._override = None if override is None else ActionMaskOverride(override, contract)
        self._ages = list(frame_ages)

    def set_trained_rollouts(self, trained_rollouts: int) -> None:
        """Moves the time of schedules."""
        for follower in (self._override, *(noise for noise, _ in self.noises)):
            if follower is not None:
                follower.set_trained_rollouts(trained_rollouts)

    def stacked(self, rows: Selection = slice(None)) -> Observation:
        """New arrays: ``observation`` float32 ``(N, frames, D)``, ``privileged`` float32 ``(N, frames, P)`` (what the
        opponent sees and this seat does not, if there is such) and ``action_mask`` int8 ``(N, A)``."""
        if len(self.own):
            own, hidden = self.own[rows][:, self._ages], self.hidden[rows][:, self._ages]
        else:
            own = self._seats.own(self._world.obs, rows)[:, np.newaxis]
            hidden = self._fresh_hidden(rows)[:, np.newaxis]
        privileged = {"privileged": hidden} if self._hidden.size else {}
        return {"observation": own, **privileged, "action_mask": self.masks(rows).view(np.int8)}

    def masks(self, rows: Selection | int = slice(None)) -> NDArray[np.bool_]:
        """The seat's flat masks, bool ``(N, A)``, or ``(A,)`` of one fight: a new array."""
        masks = self._seats.own(self._world.masks, rows)
        return masks.copy() if self._override is None else self._override.applied(masks)
