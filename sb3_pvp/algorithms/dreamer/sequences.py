"""Replay of sequences: fresh ones are trained on first, then any (dreamer.md §5.1, W2 to W7)."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.buffers import ReplayBuffer

from sb3_pvp.common.rows_on_disk import RowsOnDisk

Arrays = dict[str, NDArray[Any]]
#: The name, shape and type of each part of a record.
Layout = dict[str, tuple[tuple[int, ...], Any]]


class SequenceReplayBuffer(ReplayBuffer):
    """Records of each environment in the order of time, replayed as sequences of ``length`` that may cross episodes.

    A record is an observation with the reward received on arriving there and the action taken there. ``buffer_size``
    counts the positions that a sequence can start at, of all environments together; the oldest go first. Each
    record that follows ``length`` others completes one more sequence, and every ``length``-th of these waits to be
    sampled before any other: all that is new is trained on once, soon.

    Records are in a ``folder``, which may be of an earlier process, or in memory. Raises `ValueError` for a folder of
    other records.
    """

    counted: ClassVar[tuple[str, ...]] = ("counts", "fresh", "random")  #: What it counts beside its records.

    def __init__(
        self, buffer_size: int, n_envs: int, layout: Layout, length: int, seed: int | None, folder: Path | None = None
    ) -> None:
        # Without `ReplayBuffer`'s own, which would allocate transitions.
        self.n_envs, self.layout, self.length = n_envs, layout, length
        self.rows = max(buffer_size // n_envs, 1) + length - 1
        record = np.dtype([(name, dtype, shape) for name, (shape, dtype) in layout.items()], align=True)
        self.disk = None if folder is None else RowsOnDisk(folder, self.rows * n_envs, record)
        #: Without a disk; the system gives memory as it fills up.
        self.memory = np.zeros(0 if self.disk else self.rows * n_envs, record)
        #: How many records each environment has added in all.
        self.counts = np.zeros(n_envs, np.int64)
        self.fresh: deque[tuple[int, int]] = deque()
        self.random = np.random.default_rng(seed)
        # What SB3 looks at when it loads a buffer.
        self.handle_timeout_termination = False

    def __getstate__(self) -> dict[str, Any]:
        """Returns what is pickled: all records, wherever they are."""
        return vars(self) | {"disk": None, "memory": np.resize(self.records, self.rows * self.n_envs)}

    @property
    def records(self) -> NDArray[Any]:
        """All records, one after the other for each environment in turn."""
        return self.memory if self.disk is None else self.disk.rows

    def append(self, envs: NDArray[np.int64], records: Mapping[str, Any]) -> None:
        """Adds the next records ``(envs, …)`` of some environments; numbers are those of all of them."""
        self.write(self._place(envs, self.counts[envs]), records)
        self.counts[envs] += 1
        for env in envs.tolist():
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

    def choose(self, batch_size: int) -> NDArray[np.int64]:
        """Returns the `places` of the next sequences: the fresh ones, then any, with replacement."""
        oldest, _ = self.starts_of()
        fresh: list[tuple[int, int]] = []
        while self.fresh and len(fresh) < batch_size:
            env, start = self.fresh.popleft()
            if start >= oldest[env]:
                fresh.append((env, start))
        drawn = self.located(self.draw(batch_size - len(fresh)))
        chosen = np.concatenate([np.array(fresh, np.int64).reshape(-1, 2).T, drawn], 1)
        return self.places(*chosen)

    def draw(self, count: int) -> NDArray[np.int64]:
        """Returns numbers of ``count`` sequences, any with equal chance."""
        return self.random.integers(self.size(), size=count)

    def located(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the environments of sequences by number, and the records that they begin at."""
        oldest, counts = self.starts_of()
        ends = counts.cumsum()
        envs = np.searchsorted(ends, numbers, side="right")
        return envs, oldest[envs] + numbers - (ends - counts)[envs]

    def places(self, envs: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns where the records of sequences are ``(batch, length)``, which begin at records of environments."""
        return self._place(envs[:, None], starts[:, None] + np.arange(self.length))

    def _place(self, envs: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        return numbers % self.rows * self.n_envs + envs

    def read(self, places: NDArray[np.int64]) -> Arrays:
        """Returns the records of sequences ``(batch, length, …)``.

        Each begins like an episode; the last record before another episode is the last of its own.
        """
        rows = self.records[places]
        records = {name: rows[name].copy() for name in self.layout}
        records["is_first"][:, 0] = True
        np.logical_or(records["is_last"][:, :-1], records["is_first"][:, 1:], out=records["is_last"][:, :-1])
        return records

    def write(self, places: NDArray[np.int64], values: Mapping[str, Any]) -> None:
        """Writes some parts of records ``(…)`` at places of that shape."""
        if self.disk is not None:
            self.disk.changing(places)
        for name, part in values.items():
            self.records[name][places] = part

    def get_state(self) -> dict[str, Any] | None:
        """Returns what `set_state` goes back to; None of records in memory, which are no part of it."""
        if self.disk is None:
            return None
        return {"mark": self.disk.mark()} | copy.deepcopy({name: vars(self)[name] for name in self.counted})

    def set_state(self, state: dict[str, Any]) -> bool:
        """Goes back to a state, and returns whether the records are there; raises `ValueError` if they are damaged."""
        if self.disk is None or self.disk.is_new:
            return not state["counts"].any()
        self.disk.go_back(state["mark"], int(min(state["counts"].max(), self.rows) - 1) * self.n_envs + 1)
        vars(self).update(copy.deepcopy({name: state[name] for name in self.counted}))
        return True


def updates_due(ratio: float, records: int, counted: float | None) -> tuple[int, float]:
    """Returns how many updates are due after so many records, ``ratio`` for each, and how many records these count.

    A first one is due at once, and records count from there.
    """
    updates = 1 if counted is None else int((records - counted) * ratio)
    return updates, records if counted is None else counted + updates / ratio
