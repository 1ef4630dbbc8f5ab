"""A file with every training episode: who fought whom, how it ended, and what happened in it (self-play.md §10 #3)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sb3_pvp.callbacks.base import PvpCallback, path_in_run
from sb3_pvp.common.names import require_all_known
from sb3_pvp.envs.metrics import STATISTICS

#: The file in the folder of the run.
EPISODES = "episodes.jsonl"

# Of what environments tell at the end of an episode, what is a plain value.
_TOLD = ("opponent", "build", "seed", "outcome")


class EpisodeLogCallback(PvpCallback):
    """Keeps ``episodes.jsonl``: a line of JSON for each training episode, in the order in which they end.

    Its keys: ``timesteps`` of the model and ``environment`` (its number); ``opponent``, ``build``, ``seed`` and
    ``outcome``, if the environment tells them; raw ``reward`` and ``length`` in steps; ``rewards``, the sums of the
    reward components; and, from a `PvpEnv` with ``episode_statistics=True``, those ``statistics`` of all that its world
    reports, e.g. ``line["mean"]["distance"]``. ``pandas.read_json(path, lines=True)`` reads it.

    Episodes are written at the end of roll-outs. With `PvpPPO` a resumed run takes back what it had written after its
    checkpoint, since it plays these episodes again: the file is that of a run which nobody stopped.

    Args:
        statistics: which statistics of an episode are kept, of ``count``, ``sum``, ``mean``, ``min``, ``max``, ``std``.
            Each takes about a kilobyte and a half per fight: with one an hour of self-play fills 200 MB.
        path: of the file; ``None``: ``episodes.jsonl`` in the folder of the run.

    Raises:
        ValueError: for an unknown statistic; at the start of training, if nobody knows the folder of the run.
    """

    def __init__(self, statistics: Sequence[str] = ("mean",), path: str | Path | None = None, verbose: int = 0) -> None:
        super().__init__(verbose)
        require_all_known("statistic", statistics, STATISTICS)
        self._statistics, self._given_path = tuple(statistics), path

    def _init_callback(self) -> None:
        self._path = path_in_run(self.model, self._given_path, EPISODES)
        self._lines: list[str] = []
        self._resume_with_model("episode_log")

    def get_state(self) -> dict[str, Any]:
        """How long the file is."""
        self._flush()
        return {"size": self._path.stat().st_size if self._path.exists() else 0}

    def set_state(self, state: dict[str, Any], same_episodes: bool) -> None:
        """Goes back to the moment of `get_state`: later lines are taken out of the file."""
        if self._path.exists() and self._path.stat().st_size > state["size"]:
            os.truncate(self._path, state["size"])

    def _on_rollout_end(self) -> None:
        self._flush()

    def _on_training_end(self) -> None:
        self._flush()

    def _on_episode(self, row: int, info: dict[str, Any]) -> None:
        episode = info.get("episode", {})
        told = {name: info[name] for name in _TOLD if name in info}
        line = {"timesteps": self.num_timesteps, "environment": row, **told}
        line |= {name: episode[key] for name, key in (("reward", "r"), ("length", "l")) if key in episode}
        if "episode_rewards" in info:
            line["rewards"] = _rounded(info["episode_rewards"])
        known = info.get("episode_statistics", {})
        line |= {name: _rounded(known[name]) for name in self._statistics if name in known}
        self._lines.append(json.dumps(line))

    def _flush(self) -> None:
        if self._lines:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in self._lines))
            self._lines.clear()


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    """Six digits: the numbers come from floats of 32 bits."""
    return {name: float(f"{value:.6g}") for name, value in values.items()}
