"""A table of the training environments: what each of them has done so far (self-play.md §3, §10 #6)."""

from __future__ import annotations

import csv
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from sb3_pvp.callbacks.base import PvpCallback, path_in_run
from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.matches.evaluation import FIELDS

#: The file in the folder of the run.
ENVIRONMENTS = "environments.csv"
#: It is written at most every so many seconds.
FLUSH_SECONDS = 20.0

_COUNTS = ("episodes", "wins", "losses", "ties", "broken", "total_steps")
_COLUMNS = ("environment", "opponent", "last_step", *_COUNTS, "mean_episode_reward")


class EpisodeMetricsCallback(PvpCallback):
    """Keeps ``environments.csv``: a row for each training environment, with all that has ended in it.

    Columns: the number of the environment; its last opponent, as soon as an episode has ended; the time of the last
    step (ISO 8601, UTC); counts of episodes and of their outcomes; steps; and the mean raw reward of an episode. With
    `PvpPPO` a resumed run goes on counting.

    Args:
        path: of the file; ``None``: ``environments.csv`` in the folder of the run.
        flush_seconds: it is written at most so often, and at the end.

    Raises:
        ValueError: at the start of training, if nobody knows the folder of the run.
    """

    def __init__(self, path: str | Path | None = None, flush_seconds: float = FLUSH_SECONDS, verbose: int = 0) -> None:
        super().__init__(verbose)
        self._given_path, self._flush_seconds = path, flush_seconds

    def _init_callback(self) -> None:
        self._path = path_in_run(self.model, self._given_path, ENVIRONMENTS)
        count = self.training_env.num_envs
        self._counts = {name: np.zeros(count, np.int64) for name in _COUNTS}
        self._rewards, self._opponents = np.zeros(count), [""] * count
        self._flushed = time.monotonic()
        self._resume_with_model("episode_metrics", "_counts", "_rewards", "_opponents")

    def set_state(self, state: dict[str, Any], same_episodes: bool) -> None:
        """Goes back to the moment of `get_state`; does nothing if the number of environments has changed."""
        if len(state["opponents"]) == len(self._opponents):
            super().set_state(state, same_episodes)

    def _on_step(self) -> bool:
        self._counts["total_steps"] += 1
        super()._on_step()
        if time.monotonic() - self._flushed >= self._flush_seconds:
            self._flush()
        return True

    def _on_training_end(self) -> None:
        self._flush()

    def _on_episode(self, row: int, info: dict[str, Any]) -> None:
        self._counts["episodes"][row] += 1
        if "outcome" in info:
            self._counts[FIELDS.get(str(info["outcome"]), "broken")][row] += 1
        self._rewards[row] += info.get("episode", {}).get("r", 0.0)
        self._opponents[row] = str(info.get("opponent", ""))

    def _flush(self) -> None:
        self._flushed = time.monotonic()
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        means = self._rewards / np.maximum(self._counts["episodes"], 1)
        counts = zip(*(self._counts[name].tolist() for name in _COUNTS), strict=True)
        rows = [
            [row, opponent, now, *numbers, f"{mean:.6g}"]
            for row, (opponent, numbers, mean) in enumerate(zip(self._opponents, counts, means.tolist(), strict=True))
        ]
        with replacing(self._path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([_COLUMNS, *rows])
