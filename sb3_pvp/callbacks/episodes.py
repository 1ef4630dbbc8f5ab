"""Files about training episodes: a line for each, and a table of the environments (self-play.md §3, §10 #3, #6)."""

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
from sb3_pvp.common.names import require_all_known
from sb3_pvp.envs.metrics import STATISTICS
from sb3_pvp.matches.evaluation import FIELDS

_COUNTS = ("episodes", "wins", "losses", "ties", "broken", "total_steps")


class EpisodeLogCallback(PvpCallback):
    """Keeps ``episodes.jsonl``: a line of JSON for each training episode, in the order in which they end.

    Its keys: ``timesteps`` of the model and ``environment`` (its number); ``opponent``, ``build``, ``seed`` and
    ``outcome``, if the environment tells them; raw ``reward`` and ``length`` in steps; ``rewards``, by component; and,
    with ``episode_statistics=True`` of a `PvpEnv`, those ``statistics`` of all that its world reports, e.g.
    ``line["mean"]["distance"]``. ``pandas.read_json(path, lines=True)`` reads it.

    Episodes are written at the end of rollouts. With `PvpPPO` a resumed run takes back what it had written after its
    checkpoint, since it plays these episodes again: the file is that of a run which nobody stopped.

    Args:
        statistics: which statistics of an episode are kept, of ``count``, ``sum``, ``mean``, ``min``, ``max``, ``std``.
            Each takes about a kilobyte and a half per fight: with one an hour of self-play fills 200 MB.
        path: of the file; ``None``: ``episodes.jsonl`` in the folder of the run.
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
        """How long the file is."""
        self._on_rollout_end()
        return {"size": self._path.stat().st_size if self._path.exists() else 0}

    def set_state(self, state: dict[str, Any], same_episodes: bool) -> None:
        """Goes back to the moment of `get_state`: later lines are taken out of the file."""
        if self._path.exists() and self._path.stat().st_size > state["size"]:
            os.truncate(self._path, state["size"])

    def _on_episode(self, row: int, info: dict[str, Any]) -> None:
        told: dict[str, Any] = {name: info[name] for name in ("opponent", "build", "seed", "outcome") if name in info}
        line = {"timesteps": self.num_timesteps, "environment": row, **told}
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
    """Six digits: the numbers come from floats of 32 bits."""
    return {name: float(f"{value:.6g}") for name, value in values.items()}


class EpisodeMetricsCallback(PvpCallback):
    """Keeps ``environments.csv``: a row for each training environment, with all that has ended in it.

    Columns: its number and last opponent; the time of the last step (ISO 8601, UTC); counts of episodes, of their
    outcomes and of steps; and the mean raw reward of an episode. With `PvpPPO` a resumed run goes on counting.

    Args:
        path: of the file; ``None``: ``environments.csv`` in the folder of the run.
        flush_seconds: it is written at most so often, and at the end.
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
        told = {"opponent": self._opponents, "last_step": now, **self._counts, "mean_episode_reward": means}
        with replacing(self._path) as partial:
            pd.DataFrame(told).to_csv(partial, index_label="environment", float_format="%.6g")
