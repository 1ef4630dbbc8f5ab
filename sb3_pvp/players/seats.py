"""Observations and masks of a seat: frames, noise (training.md §10) and forbidden actions (rewards.md §7)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from sb3_pvp.common.arguments import Kind
from sb3_pvp.common.random_words import RandomWords, uniforms, words_from_seeds
from sb3_pvp.common.schedules import Schedule, parse_schedule, sampling_from
from sb3_pvp.game import World
from sb3_pvp.game.contract import Contract

Selection = NDArray[np.int64] | slice
Observation = dict[str, NDArray[Any]]
_RANGE = re.compile(r"(\d+):(\d+)")
# Streams of a fight's seed: 1 are scripts, 3 are models, 4 to 7 are those of `OpponentPool`, and 9 are searches.
_LEARNERS_NOISE, _AVERSIONS = 2, 8


class _Adder(BaseModel, extra="forbid"):
    indices: Annotated[list[int | str], Field(min_length=1)]
    value: Any


class _Adders(BaseModel, extra="forbid"):
    adders: list[_Adder]


_CONFIG = Kind[_Adders](_Adders, '{"adders": [{"indices": [5, "0:9", "an_id"], "value": ...}, ...]}')


class ObservationNoise:
    """Adds noise to a seat's observations: one number per adder, tick and fight (training.md §10).

    A schedule, such as ``{"type": "expression", "expression": "normal(0, 0.01)"}``, is evaluated in every tick for all
    fights at once.

    Args:
        config: ``{"adders": [{"indices": [...], "value": schedule}, ...]}``. Indices are positions, half-open ranges
            ``"a:b"`` or ids of observations; the same number is added to all indices of an adder.

    Raises:
        ValueError: for another form, an unknown observation, or a value that is not a finite number.
    """

    def __init__(self, config: Mapping[str, Any], contract: Contract) -> None:
        self._adders: list[tuple[list[int], Schedule]] = []
        for adder in _CONFIG.read("noise", config).adders:
            positions = {position for index in adder.indices for position in _positions(index, contract)}
            self._adders.append((sorted(positions), parse_schedule(adder.value)))
        self._num_observations, self._pixels = contract.num_observations, contract.pixels
        self.set_trained_rollouts(0)

    def set_trained_rollouts(self, trained_rollouts: int) -> None:
        """Sets the time of the schedules; raises `ValueError` if a value is no finite number then."""
        self._time = trained_rollouts
        self.add(np.zeros((1, self._num_observations), np.float32), np.zeros(1, np.uint64))

    def add(
        self, observations: NDArray[np.float32], words: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.uint64]]:
        """Returns observations ``(n, D)`` with the noise of one tick, a new array, and the next random words.

        ``words`` are the random words of the fights, uint64 ``(n,)`` (`sb3_pvp.common.random_words`).
        """
        noisy, generator = observations.copy(), RandomWords(words)
        for positions, schedule in self._adders:
            with sampling_from(generator):
                value = np.asarray(schedule(self._time))  # one number per fight ``(n,)``, or one for all ``()``
            if value.dtype.kind not in "iuf" or not np.isfinite(value).all():
                raise ValueError(
                    f"the value of a noise adder must be a finite number, got {value.tolist()!r} at t = {self._time}"
                )
            noisy[:, positions] += value.astype(np.float64)[..., np.newaxis]
        if self._pixels:  # or bright ones would be dark as bytes
            noisy.clip(0, 255, out=noisy)
        return noisy, generator.words


def _positions(index: int | str, contract: Contract) -> Sequence[int]:
    """Returns the positions of one entry of ``indices``."""
    found = _RANGE.fullmatch(str(index))
    if isinstance(index, str) and found is None:
        return [contract.observation_index(index)]
    positions = range(int(found[1]), int(found[2])) if found else [int(index)]
    if not positions or min(positions) < 0 or max(positions) >= contract.num_observations:
        raise ValueError(f"indices of noise must be observations 0 to {contract.num_observations - 1}, got {index!r}")
    return positions


class ActionMaskOverride:
    """Removes sub-actions from action masks, always or by a schedule (rewards.md §7).

    Args:
        config: ``{"forbid": [ids]}``; or a schedule of arrays with one boolean per sub-action, such as an
            ``npboolarray`` or a ``jump`` of them, in which ids may be used as indices and ``size`` may be omitted.

    Raises:
        ValueError: for another form, or an unknown id.
    """

    def __init__(self, config: Any, contract: Contract) -> None:
        self._num_actions = contract.num_flat_actions
        self._first_entries = contract.head_offsets[:-1]
        self._schedule = parse_schedule(_spelled_out(config, contract))
        for threshold, _ in getattr(self._schedule, "jumps", ()):
            self.set_trained_rollouts(threshold)  # report invalid later values now, not after hours of training
        self.set_trained_rollouts(0)

    def set_trained_rollouts(self, trained_rollouts: int) -> None:
        """Sets the time of the schedule; raises `ValueError` if its value is no mask."""
        self.allowed = np.asarray(self._schedule(trained_rollouts))
        if self.allowed.shape != (self._num_actions,) or self.allowed.dtype != bool:
            raise ValueError(
                f"action_mask_override must give {self._num_actions} booleans, one per sub-action, "
                f"got {self.allowed.dtype} {self.allowed.shape} at t = {trained_rollouts}"
            )

    def applied(self, masks: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Returns the restricted masks ``(..., A)``, a new array; a head left with nothing gets entry 0."""
        return _restricted(masks, self.allowed, self._first_entries)


def _restricted(masks: NDArray[np.bool_], allowed: NDArray[np.bool_], first_entries: Any) -> NDArray[np.bool_]:
    # A head must keep an entry: entry 0 is what the rules between heads fall back to as well (contract.md §2.3).
    left: NDArray[np.bool_] = masks & allowed
    left[..., first_entries] |= ~np.logical_or.reduceat(left, first_entries, axis=-1)
    return left


def _spelled_out(config: Any, contract: Contract) -> Any:
    """Returns the config with positions instead of ids, including nested schedules."""
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


def _reseed(words: NDArray[np.uint64], rows: NDArray[np.int64], seeds: Sequence[int | None], stream: int) -> None:
    """Sets the random words of rows to those of their seeds; without a seed a row keeps its own."""
    for row, seed in zip(rows.tolist(), seeds, strict=True):
        if seed is not None:
            words[row] = words_from_seeds([seed], stream)[0]


class _Aversions(BaseModel, extra="forbid"):
    actions: Annotated[list[str], Field(min_length=1)]
    share: Annotated[float, Field(ge=0, le=1)]


_AVERSIONS_CONFIG = Kind[_Aversions](_Aversions, '{"actions": [ids of sub-actions], "share": a number from 0 to 1}')


class Aversions:
    """Actions that players avoid, each to a degree of its own that is drawn for each fight.

    In a share of the fights each of the actions is forbidden in every tick with a chance that stays the same throughout
    the fight: half of these chances are 0, a quarter are 1, the others are uniform. So learners in self-play meet
    players who never or rarely do what they themselves always do, and learn to see it, which is what best responses
    live on (docs/recipes.md, "What the responses guess").

    Args:
        config: ``{"actions": [ids of sub-actions], "share": share of the fights, for each seat on its own}``.
        num_rows: rows of the environment; each has aversions of its own.

    Raises:
        ValueError: for another form, or an unknown id.
    """

    def __init__(self, config: Any, contract: Contract, num_rows: int) -> None:
        given = _AVERSIONS_CONFIG.read("aversions", config)
        self._actions, self._share = np.array([contract.flat_index(each) for each in given.actions]), given.share
        self._first_entries = contract.head_offsets[:-1]
        self.words = words_from_seeds(range(num_rows), _AVERSIONS)  #: Random words, uint64 ``(N,)``.
        self.chances = np.zeros((num_rows, len(self._actions)), np.float32)  #: Of being forbidden in a tick.
        self.allowed = np.ones((num_rows, contract.num_flat_actions), bool)  #: In this tick, bool ``(N, A)``.

    def begin(self, rows: NDArray[np.int64], seeds: Sequence[int | None]) -> None:
        """Draws aversions for the fights that begin; without a seed a row keeps its stream."""
        _reseed(self.words, rows, seeds, _AVERSIONS)
        numbers, self.words[rows] = uniforms(self.words[rows], 1 + len(self._actions))
        self.chances[rows] = np.where(numbers[:, :1] < self._share, np.clip(4 * numbers[:, 1:] - 2, 0, 1), 0)
        self.advance(rows)

    def advance(self, rows: NDArray[np.int64]) -> None:
        """Draws what is forbidden in the next tick."""
        numbers, self.words[rows] = uniforms(self.words[rows], len(self._actions))
        self.allowed[rows[:, np.newaxis], self._actions] = numbers >= self.chances[rows]

    def applied(self, masks: NDArray[np.bool_], rows: Selection) -> NDArray[np.bool_]:
        """Restricts the masks of these rows ``(rows, A)``, as `ActionMaskOverride.applied`."""
        return _restricted(masks, self.allowed[rows], self._first_entries)


class Seats:
    """The fight and seat of each row of an environment.

    Rows ``2j`` and ``2j + 1`` are a pair. In self-play they have seats 0 and 1 of fight ``2j``, and fight ``2j + 1`` is
    idle. Any other row ``r`` has the given seat of fight ``r``.
    """

    def __init__(self, num_rows: int, seat: int = 0) -> None:
        self._alone = seat  # the seat of rows that do not play their partner
        self.pair(np.zeros(num_rows, bool))

    def take(self, seat: int) -> None:
        """Moves all rows to this seat of their own fights."""
        self._alone = seat
        self.pair(np.zeros(len(self.fight), bool))

    def pair(self, paired: NDArray[np.bool_]) -> None:
        """Sets which rows play their partner, bool ``(N,)``; must be equal for both rows of a pair."""
        rows = np.arange(len(paired))
        # ``& ~1`` gives the first row of a pair, ``& 1`` the place in it, ``^ 1`` the partner.
        self.order = 1 if self._alone == 0 else -1  #: Of what is given by seat, beginning with that of unpaired rows.
        self.fight = np.where(paired, rows & ~1, rows)  #: Fight of each row, int64 ``(N,)``.
        self.seat = np.where(paired, rows & 1, self._alone)  #: Seat of each row in its fight, int64 ``(N,)``.
        self.paired = np.flatnonzero(paired)  #: The rows that play their partner.
        self.partner = self.paired ^ 1  #: The partners of these rows.
        self.playing = np.unique(self.fight) if self.paired.size else None  #: Fights that are played; ``None``: all.

    def own(self, array: NDArray[Any], rows: Selection = slice(None)) -> NDArray[Any]:
        """Returns what belongs to the rows' seats of an array ``(N, 2, ...)``, a new array ``(rows, ...)``."""
        # Two layouts: rows of one seat are a slice, rows of pairs are scattered over fights and seats.
        if self.playing is None and isinstance(rows, slice):
            return array[rows, self._alone].copy()  # in half the time of an index
        own: NDArray[Any] = array[self.fight[rows], self.seat[rows]]
        return own

    def others(self, array: NDArray[Any], rows: Selection, columns: NDArray[np.int64]) -> NDArray[Any]:
        """Returns columns of what belongs to the other seats, ``(N, 2, D)``: a new array ``(rows, columns)``."""
        if self.playing is None and isinstance(rows, slice):  # both seats side by side, without a copy
            entries, columns = array.reshape(len(array), -1)[rows], columns + (1 - self._alone) * array.shape[2]
        else:
            entries = array[self.fight[rows], 1 - self.seat[rows]]
        return entries.take(columns, axis=1)


class SeatHistory:
    """The last ``depth`` observations (perhaps none) of N rows from their seats, with noise.

    ``hidden`` are indices of the other seat's observations to keep as well; ``stream`` is that of a fight's seed for
    the noise. After `Seats.pair`, call `begin` for the rows whose seat has changed.
    """

    def __init__(
        self, world: World, seats: Seats, depth: int, stream: int, hidden: NDArray[np.int64] | tuple[()] = ()
    ) -> None:
        self._world, self._seats, self._stream, self._hidden = world, seats, stream, np.asarray(hidden, np.int64)
        shape = (world.num_fights, depth) if depth else (0, 1)  # the format of snapshots: no rows, one frame
        #: Float32 ``(N, depth, D)``, newest first; zero before the start of the episode (contract.md §5).
        self.own = np.zeros((*shape, world.contract.num_observations), np.float32)
        self.hidden = np.zeros((*shape, len(hidden)), np.float32)  #: The same of the other seat, for ``hidden``.
        self.words = words_from_seeds(range(world.num_fights), stream)  #: Random words of the noise, uint64 ``(N,)``.
        #: Each noise with the rows that have it.
        self.noises: Sequence[tuple[ObservationNoise, NDArray[np.int64]]] = ()

    def begin(self, rows: NDArray[np.int64], seeds: Sequence[int | None]) -> None:
        """Clears the history of these rows and adds their first observation; without a seed a row keeps its stream."""
        _reseed(self.words, rows, seeds, self._stream)
        if len(self.own):
            self.own[rows] = self.hidden[rows] = 0.0
            self._read_newest(rows)

    def advance(self, rows: NDArray[np.int64]) -> None:
        """Adds the observations of these rows after a tick; frames of other rows become meaningless."""
        if len(self.own):
            # Slices shift all rows faster than an index shifts some.
            # NumPy takes care of overlapping slices. The newest frame comes first, so that an age is an index.
            self.own[:, 1:] = self.own[:, :-1]
            self.hidden[:, 1:] = self.hidden[:, :-1]
            self._read_newest(rows)

    def _read_newest(self, rows: NDArray[np.int64]) -> None:
        """Copies the newest frame from the world, and adds noise to it."""
        self.own[rows, 0] = self._seats.own(self._world.obs, rows)
        for noise, affected in self.noises:
            # Once per tick, as the frame enters the history: an older frame keeps the noise that it was seen with.
            noisy = np.intersect1d(affected, rows)
            self.own[noisy, 0], self.words[noisy] = noise.add(self.own[noisy, 0], self.words[noisy])
        if self._hidden.size:
            self.hidden[rows, 0] = self._seats.others(self._world.obs, rows, self._hidden)


def observation_space(contract: Contract, num_frames: int, privileged: bool = True) -> spaces.Dict:
    """Returns the space of one row of `SeatObservations.stacked`; ``"privileged"`` only if the contract has some.

    If ``privileged`` is false, it is left out, as for one agent of a team. The mask is a `Box` and not a `MultiBinary`,
    because SB3's ``VecNormalize`` only accepts Boxes.
    """
    parts: dict[str, spaces.Space[Any]] = {"observation": contract.stacked_space(num_frames)}
    if privileged and (num_privileged := len(contract.partial_indices)):
        parts["privileged"] = spaces.Box(-np.inf, np.inf, (num_frames, num_privileged), np.float32)
    return spaces.Dict({**parts, "action_mask": spaces.Box(0, 1, (contract.num_flat_actions,), np.int8)})


class SeatObservations(SeatHistory):
    """The learner's observations and masks in each row of an environment.

    ``frame_ages`` are the ages of the frames in an observation, in ticks, ascending; ``noise``, ``override`` and
    ``aversions`` are configs of `ObservationNoise`, `ActionMaskOverride` and `Aversions`.
    """

    def __init__(
        self,
        world: World,
        seats: Seats,
        frame_ages: tuple[int, ...],
        noise: Any = None,
        override: Any = None,
        aversions: Any = None,
    ) -> None:
        # No history is needed if the observation is just the newest frame as the world has it.
        contract, depth = world.contract, 0 if frame_ages == (0,) and noise is None else max(frame_ages) + 1
        super().__init__(world, seats, depth, _LEARNERS_NOISE, contract.partial_indices)
        if noise is not None:
            self.noises = [(ObservationNoise(noise, contract), np.arange(world.num_fights))]
        self._override = None if override is None else ActionMaskOverride(override, contract)
        self.aversions = None if aversions is None else Aversions(aversions, contract, world.num_fights)
        self._ages = list(frame_ages)
        self._array = contract.stacked_space(len(self._ages)) if contract.shape else None

    def begin(self, rows: NDArray[np.int64], seeds: Sequence[int | None]) -> None:
        """Does as `SeatHistory.begin`, and draws aversions."""
        super().begin(rows, seeds)
        if self.aversions is not None:
            self.aversions.begin(rows, seeds)

    def advance(self, rows: NDArray[np.int64]) -> None:
        """Does as `SeatHistory.advance`, and draws what aversions forbid."""
        super().advance(rows)
        if self.aversions is not None:
            self.aversions.advance(rows)

    def set_trained_rollouts(self, trained_rollouts: int) -> None:
        """Sets the time of the schedules of noise and override."""
        for part in (self._override, *(noise for noise, _ in self.noises)):
            if part is not None:
                part.set_trained_rollouts(trained_rollouts)

    def stacked(self, rows: Selection = slice(None)) -> Observation:
        """Returns new arrays: ``observation`` float32 ``(N, frames, D)``, ``privileged`` float32 ``(N, frames, P)``
        (what only the opponent sees, if the contract has that) and ``action_mask`` int8 ``(N, A)``. An observation with
        a shape is as in `Contract.stacked_space`."""
        if len(self.own):
            own, hidden = self.own[rows][:, self._ages], self.hidden[rows][:, self._ages]
        else:
            own = self._seats.own(self._world.obs, rows)[:, np.newaxis]
            hidden = self._seats.others(self._world.obs, rows, self._hidden)[:, np.newaxis]
        if self._array is not None:
            own = own.reshape(len(own), *self._array.shape).astype(self._array.dtype, copy=False)
        privileged = {"privileged": hidden} if self._hidden.size else {}
        return {"observation": own, **privileged, "action_mask": self.masks(rows).view(np.int8)}

    def masks(self, rows: Selection | int = slice(None)) -> NDArray[np.bool_]:
        """Returns the learner's flat masks, bool ``(N, A)``, or ``(A,)`` for one row: a new array."""
        chosen = slice(rows, rows + 1) if isinstance(rows, int) else rows
        masks = self._seats.own(self._world.masks, chosen)
        if self._override is not None:
            masks = self._override.applied(masks)
        if self.aversions is not None:
            masks = self.aversions.applied(masks, chosen)
        return masks[0] if isinstance(rows, int) else masks
