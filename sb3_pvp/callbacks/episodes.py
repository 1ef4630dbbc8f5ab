"""A log of all training episodes (self-play.md §3, §10 #3, #6)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sb3_pvp.callbacks.base import PvpCallback, path_in_run
from sb3_pvp.callbacks.metric_lines import begin_lines
from sb3_pvp.common.arguments import OptionalPath, as_written, checked
from sb3_pvp.common.errors import require_all_known
from sb3_pvp.envs.measures import STATISTICS

_STEP = "timesteps"


class EpisodeLogCallback(PvpCallback):
    """Writes ``episodes.jsonl``: one line of JSON per training episode, in the order in which they end.

    The keys are ``timesteps`` (of the model), ``environment`` (its index), the raw ``reward``, ``length`` in steps and
    ``rewards`` by component; ``opponent``, ``build``, ``seed`` and ``outcome`` if the environment reports them; and
    with ``episode_statistics=True`` of a `PvpEnv`, the chosen ``statistics`` of everything that its world reports,
    such as ``line["mean"]["distance"]``. Read the file with ``pandas.read_json(path, lines=True)``.

    Episodes are written at the end of rollouts. A run that is resumed removes those after its checkpoint, and
    plays them again; a new run renames the file of another one: ``episodes-1.jsonl``.

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

    def _on_training_start(self) -> None:
        begin_lines(self.model, self._path, _STEP)

    def _on_episode(self, row: int, info: dict[str, Any]) -> None:
        line: dict[str, Any] = {_STEP: self.num_timesteps, "environment": row}
        line |= {name: info[name] for name in ("opponent", "build", "seed", "outcome") if name in info}
        episode, known = info.get("episode", {}), info.get("episode_statistics", {})
        line |= {name: episode[key] for name, key in (("reward", "r"), ("length", "l")) if key in episode}
        if "episode_rewards" in info:
            line["rewards"] = _rounded(info["episode_rewards"])
        line |= {name: _rounded(known[name]) for name in self._statistics if name in known}
        self._lines.append(json.dumps(line))

    def _on_rollout_end(self) -> None:
        if self._lines:
            with self._path.open("a", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in self._lines))
            self._lines.clear()

    _on_training_end = _on_rollout_end


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    """Returns the values with six significant digits, which is about the precision of float32."""
    return {name: as_written(value, 6) for name, value in values.items()}
