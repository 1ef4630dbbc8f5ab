"""Files about training episodes: a log of all episodes, and a table by environment (self-play.md §3, §10 #3, #6)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from sb3_pvp.callbacks.base import PvpCallback, path_in_run
from sb3_pvp.common.arguments import NonNegative, OptionalPath, checked
from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.common.errors import require_all_known
from sb3_pvp.envs.measures import STATISTICS
from sb3_pvp.matches.evaluation import SCORE_FIELDS

_COUNTS = ("episodes", "wins", "losses", "ties", "broken", "total_steps")


class EpisodeLogCallback(PvpCallback):
    """Writes ``episodes.jsonl``: one line of JSON per training episode, in the order in which they end.

    The keys are ``timesteps`` (of the model), ``environment`` (its index), the raw ``reward``, ``length`` in steps and
    ``rewards`` by component; ``opponent``, ``build``, ``seed`` and ``outcome`` if the environment reports them; and
    with ``episode_statistics=True`` of a `PvpEnv`, the chosen ``statistics`` of everything that its world reports,
    such as ``line["mean"]["distance"]``. Read the file with ``pandas.read_json(path, lines=True)``.

    Episodes are written at the end of rollouts. A run that `PvpPPO` resumes truncates the file to its length at the
    checkpoint, since it plays the later episodes again.

    Args:
        statistics: statistics to write, of ``count``, ``sum``, ``mean``, ``min``, ``max`` and ``std``. Each takes about
            1.5 kB per fight: 200 MB per hour of self-play.
        path: of the file; default: ``episodes.jsonl`` in the run folder.
    """

    @checked
    def __init__(
        self, statistics: Sequence[str] = ("mean",), path: OptionalPath = None, verbose: bool | int = 0
    ) -> None:
        super().__init__(verbose)
        require_all_known("statistic", statistics, STATISTICS)
        self._statistics, self._given_path = statistics, path

    def _init_callback(self) -> None:
        self._path = path_in_run(self.model, self._given_path, "episodes.jsonl")
        self._lines: list[str] = []
        self._resume_with_model("episode_log")

    def get_state(self) -> dict[str, Any]:
        """Returns the size of the file in bytes."""
        self._on_rollout_end()  # write the pending lines, which belong to the checkpoint
        return {"size": self._path.stat().st_size if self._path.exists() else 0}

    def set_state(self, state: dict[str, Any], same_episodes: bool) -> None:
        """Truncates the file to its size at the time of `get_state`."""
        if self._path.exists() and self._path.stat().st_size > state["size"]:
            os.truncate(self._path, state["size"])

    def _on_episode(self, row: int, info: dict[str, Any]) -> None:
        line: dict[str, Any] = {"timesteps": self.num_timesteps, "environment": row}
        line |= {name: info[name] for name in ("opponent", "build", "seed", "outcome") if name in info}
        episode, known = info.get("episode", {}), info.get("episode_statistics", {})
        line |= {name: episode[key] for name, key in (("reward", "r"), ("length", "l")) if key in episode}
        if "episode_rewards" in info:
            line["rewards"] = _rounded(info["episode_rewards"])
        line |= {name: _rounded(known[name]) for name in self._statistics if name in known}
        self._lines.append(json.dumps(line))

    def _on_rollout_end(self) -> None:
        if self._lines:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in self._lines))
            self._lines.clear()

    _on_training_end = _on_rollout_end


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    """Returns the values with six significant digits, which is about the precision of float32."""
    return {name: float(f"{value:.6g}") for name, value in values.items()}


class EpisodeMetricsCallback(PvpCallback):
    """Writes ``environments.csv``: one row of totals per training environment.

    The columns are its index and last opponent, the time of the last step (ISO 8601, UTC), the numbers of episodes, of
    each outcome and of steps, and the mean raw episode reward. A run that `PvpPPO` resumes continues the totals.

    Args:
        path: of the file; default: ``environments.csv`` in the run folder.
        flush_seconds: least time between writes; the file is also written at the end of training.
    """

    @checked
    def __init__(self, path: OptionalPath = None, flush_seconds: NonNegative = 20.0, verbose: bool | int = 0) -> None:
        super().__init__(verbose)
        self._given_path, self._flush_seconds = path, flush_seconds

    def _init_callback(self) -> None:
        self._path = path_in_run(self.model, self._given_path, "environments.csv")
        count = self.training_env.num_envs
        self._counts = {name: np.zeros(count, np.int64) for name in _COUNTS}
        self._rewards, self._opponents = np.zeros(count), [""] * count
        self._flushed = time.monotonic()
        self._resume_with_model("episode_metrics", "_counts", "_rewards", "_opponents")

    def set_state(self, state: dict[str, Any], same_episodes: bool) -> None:
        """Restores the totals, unless the number of environments has changed."""
        if len(state["opponents"]) == len(self._opponents):
            super().set_state(state, same_episodes)

    def _on_step(self) -> bool:
        """Counts the step, and writes the file if it is due."""
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
            self._counts[SCORE_FIELDS.get(str(info["outcome"]), "broken")][row] += 1
        self._rewards[row] += info.get("episode", {}).get("r", 0.0)
        self._opponents[row] = str(info.get("opponent", ""))

    def _flush(self) -> None:
        self._flushed = time.monotonic()
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        means = self._rewards / np.maximum(self._counts["episodes"], 1)  # 0 if no episode has ended yet
        columns = {"opponent": self._opponents, "last_step": now, **self._counts, "mean_episode_reward": means}
        with replacing(self._path) as partial:
            pd.DataFrame(columns).to_csv(partial, index_label="environment", float_format="%.6g")
