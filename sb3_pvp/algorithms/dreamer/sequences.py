"""Replay of sequences: fresh ones are trained on first, then any (dreamer.md §5.1, W2 to W7)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import BaseBuffer, ReplayBuffer

Arrays = dict[str, NDArray[Any]]
#: The name, shape and type of each part of a record.
Layout = Mapping[str, tuple[tuple[int, ...], Any]]


class Chosen(NamedTuple):
    """Where sequences start: int64 ``(batch,)`` each, the environment and the number of its record."""

    envs: NDArray[np.int64]
    starts: NDArray[np.int64]


class SequenceReplayBuffer(ReplayBuffer):
    """Records of each environment in the order of time, replayed as sequences of ``length`` that may cross episodes.

    A record is an observation with the reward received on arriving there and the action taken there. ``buffer_size``
    counts the positions that a sequence can start at, of all environments together; the oldest go first. Each
    record that follows ``length`` others completes one more sequence, and every ``length``-th of these waits to be
    sampled before any other: all that is new is trained on once, soon.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: Any = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        *,
        layout: Layout,
        length: int,
        seed: int | None = None,
    ) -> None:
        # Not `ReplayBuffer`'s own: that would allocate transitions.
        BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs)
        self.length = length
        self.rows = max(buffer_size // n_envs, 1) + length - 1
        #: All records ``(n_envs, rows, …)``; the system gives memory as they fill up.
        self.records = {name: np.zeros((n_envs, self.rows, *shape), dtype) for name, (shape, dtype) in layout.items()}
        #: How many records each environment has added in all.
        self.counts = np.zeros(n_envs, np.int64)
        self.fresh: deque[tuple[int, int]] = deque()
        self.random = np.random.default_rng(seed)
        # What SB3 looks at when it loads a buffer.
        self.handle_timeout_termination = False

    def append(self, env: int, record: Mapping[str, Any]) -> None:
        """Adds the next record of an environment."""
        row = self.counts[env] % self.rows
        for name, values in self.records.items():
            values[env, row] = record[name]
        self.counts[env] += 1
        start = int(self.counts[env]) - self.length
        # As in the original, the first one of a stream starts at its second record.
        if start >= 0 and start % self.length == 1:
            self.fresh.append((env, start))

    def starts_of(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns for each environment the oldest record that a sequence can start at, and how many there are."""
        oldest = np.maximum(self.counts - self.rows, 0)
        return oldest, np.maximum(self.counts - oldest - self.length + 1, 0)

    def size(self) -> int:
        """Returns how many sequences there are."""
        return int(self.starts_of()[1].sum())

    def choose(self, batch_size: int) -> Chosen:
        """Returns where the next sequences start: the fresh ones, then any, with replacement."""
        oldest, counts = self.starts_of()
        chosen: list[tuple[int, int]] = []
        while self.fresh and len(chosen) < batch_size:
            env, start = self.fresh.popleft()
            if start >= oldest[env]:
                chosen.append((env, start))
        ends = counts.cumsum()
        for number in self.random.integers(ends[-1], size=batch_size - len(chosen)):
            env = int(np.searchsorted(ends, number, side="right"))
            chosen.append((env, int(oldest[env] + number - (ends[env] - counts[env]))))
        envs, starts = np.array(chosen, np.int64).T
        return Chosen(envs, starts)

    def read(self, chosen: Chosen) -> Arrays:
        """Returns the records of sequences ``(batch, length, …)``.

        Each begins like an episode; the last record before another episode is the last of its own.
        """
        envs, rows = chosen.envs[:, None], self._rows_of(chosen, 0)
        records = {name: values[envs, rows] for name, values in self.records.items()}
        records["is_first"][:, 0] = True
        np.logical_or(records["is_last"][:, :-1], records["is_first"][:, 1:], out=records["is_last"][:, :-1])
        return records

    def refresh(self, chosen: Chosen, latents: Mapping[str, NDArray[Any]]) -> None:
        """Writes what was computed anew for all records of sequences but the first ``(batch, length - 1, …)``."""
        rows = self._rows_of(chosen, 1)
        for name, values in latents.items():
            self.records[name][chosen.envs[:, None], rows] = values

    def _rows_of(self, chosen: Chosen, skipped: int) -> NDArray[np.int64]:
        rows: NDArray[np.int64] = (chosen.starts[:, None] + np.arange(skipped, self.length)) % self.rows
        return rows


class TrainRatio:
    """How many updates are due: ``ratio`` for each record, counted from the first time that it is asked."""

    def __init__(self, ratio: float) -> None:
        self.ratio = ratio
        self.counted: float | None = None

    def due(self, records: int) -> int:
        """Returns the number of updates due after so many records; a first one at once."""
        if self.counted is None:
            self.counted = records
            return 1
        updates = int((records - self.counted) * self.ratio)
        self.counted += updates / self.ratio
        return updates
