"""Noise on what the learner sees of itself (training.md §10)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.common.random_words import RandomWords, words_from_seeds
from sb3_pvp.contract import Contract
from sb3_pvp.schedules import Schedule, drawing_from, parse_schedule

_STREAM = 2  # of a fight's seed; 1 are the scripted opponents
_RANGE = re.compile(r"(\d+):(\d+)")

Adder = tuple[NDArray[np.int64], Schedule]


class ObservationNoise:
    """Adds one number per adder, tick and fight to some of the learner's own observations.

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
        self._adders = [_adder(entry, contract) for entry in _entries(config)]
        self._num_observations = contract.num_observations
        self.words = words_from_seeds(range(num_fights), _STREAM)
        self.set_trained_rollouts(0)

    def set_trained_rollouts(self, trained_rollouts: int) -> None:
        """Moves the time of the schedules."""
        self._time = trained_rollouts
        self._offset = np.zeros(self._num_observations, np.float32)
        self._random: list[Adder] = []
        for indices, schedule in self._adders:
            trial = RandomWords(np.zeros(1, np.uint64))
            value = self._values(schedule, trial)
            if trial.words.any():
                self._random.append((indices, schedule))
            else:
                self._offset[indices] += value

    def seed(self, fights: NDArray[np.int64], seeds: Sequence[int | None]) -> None:
        """Seeds these fights; without a seed a fight goes on with its random numbers."""
        for fight, seed in zip(fights, seeds, strict=True):
            if seed is not None:
                self.words[fight] = words_from_seeds([seed], _STREAM)[0]

    def add(self, observations: NDArray[np.float32], fights: NDArray[np.int64] | slice) -> NDArray[np.float32]:
        """The observations ``(n, D)`` of these fights with the noise of one tick, a new array."""
        noisy = observations + self._offset
        draws = RandomWords(self.words[fights])
        for indices, schedule in self._random:
            noisy[:, indices] += self._values(schedule, draws)[..., np.newaxis]
        self.words[fights] = draws.words
        return noisy

    def _values(self, schedule: Schedule, draws: RandomWords) -> NDArray[np.float64]:
        """One number per fight, or one for all."""
        with drawing_from(draws):
            value = schedule(self._time)
        if not _is_finite(value):
            raise ValueError(f"the value of a noise adder must be a finite number, got {value!r} at t = {self._time}")
        return np.asarray(value, np.float64)


def _entries(config: Mapping[str, Any]) -> Sequence[Any]:
    entries = config.get("adders") if isinstance(config, Mapping) and set(config) == {"adders"} else None
    if not isinstance(entries, (list, tuple)):
        raise ValueError(f'noise must be {{"adders": [{{"indices": [...], "value": ...}}, ...]}}, got {config!r}')
    return entries


def _adder(entry: Any, contract: Contract) -> Adder:
    if not isinstance(entry, Mapping) or set(entry) != {"indices", "value"}:
        raise ValueError(f'a noise adder must be {{"indices": [...], "value": ...}}, got {entry!r}')
    indices = entry["indices"]
    if not isinstance(indices, (list, tuple)) or not indices:
        raise ValueError(f"the indices of a noise adder must be a list with one entry at least, got {indices!r}")
    positions = sorted({position for index in indices for position in _positions(index, contract)})
    return np.array(positions, np.int64), parse_schedule(entry["value"])


def _positions(index: Any, contract: Contract) -> Sequence[int]:
    """What one entry of ``indices`` stands for."""
    found = _RANGE.fullmatch(index) if isinstance(index, str) else None
    if isinstance(index, str) and found is None:
        return [contract.observation_index(index)]
    if found is None and (isinstance(index, bool) or not isinstance(index, (int, np.integer))):
        raise ValueError(f"an index of a noise adder must be an integer, a range 'a:b' or an id, got {index!r}")
    positions = range(int(found[1]), int(found[2])) if found else [int(index)]
    if not positions or min(positions) < 0 or max(positions) >= contract.num_observations:
        raise ValueError(f"noise reaches the observations 0 to {contract.num_observations - 1}, got {index!r}")
    return positions


def _is_finite(value: ArrayLike) -> bool:
    array = np.asarray(value)
    return array.dtype.kind in "iuf" and bool(np.isfinite(array).all())
