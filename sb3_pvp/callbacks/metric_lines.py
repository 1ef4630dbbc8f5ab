"""What a training logs as lines of JSON, which a run that is resumed continues (dreamer.md C8)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import KVWriter, filter_excluded_keys

from sb3_pvp.algorithms.ppo.resumable import steps_at_start
from sb3_pvp.callbacks.base import PvpCallback, path_in_run, set_aside
from sb3_pvp.callbacks.videos import gif, log_video
from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.envs.log_keys import LOGGED

#: The files: a line for each step at which something was logged, and one for each episode that has ended.
METRICS, SCORES = "metrics.jsonl", "scores.jsonl"
_STEP = "step"


class JsonLines(KVWriter):
    """Appends what an SB3 logger writes to a file, one line of JSON for each step, with its number as ``step``.

    SB3's own ``json`` begins the file anew. What is no number or text, such as a picture, is left out.
    """

    def __init__(self, path: Path) -> None:
        self._file, (self._line, self._at) = path.open("ab"), _last_line(path)

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Adds a line; what is logged again at the same step joins the line of that step."""
        given = filter_excluded_keys(key_values, key_excluded, "json")
        line = {name: value for name, value in sorted(given.items()) if isinstance(value, (int, float, str, np.number))}
        if not line:
            return
        if self._line.get(_STEP) == step:
            line = self._line | line
            os.ftruncate(self._file.fileno(), self._at)
        else:
            self._at = self._file.seek(0, os.SEEK_END)
        self._line = {_STEP: step} | line
        self.append(self._line)

    def append(self, line: dict[str, Any]) -> None:
        """Adds a line of its own."""
        self._file.write(orjson.dumps(line, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE))
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class MetricLinesCallback(PvpCallback):
    """Writes `METRICS` and `SCORES`, beside whatever else is logged: TensorBoard, a table, W&B.

    `METRICS` has all that is logged, and `SCORES` the ``episode/score`` and ``episode/length`` of each episode. Lines
    of steps after that at which the training starts, which is the checkpoint, or the start of its rollout, if it is
    resumed, are removed: they are made again. Files of another run are renamed: ``metrics-1.jsonl``. Any algorithm of
    SB3 can have it. List it before callbacks that save checkpoints.

    It also logs what environments keep for the log, see `sb3_pvp.envs.log_keys`.
    """

    def _on_training_start(self) -> None:
        metrics, scores = (path_in_run(self.model, None, name) for name in (METRICS, SCORES))
        for path in (metrics, scores):
            begin_lines(self.model, path, _STEP)
        self._metrics, self._scores = JsonLines(metrics), JsonLines(scores)
        self.logger.output_formats.append(self._metrics)

    def _on_step(self) -> bool:
        # An algorithm of one's own may say nothing of episodes.
        return super()._on_step() if "dones" in self.locals else True

    def _on_episode(self, row: int, info: dict[str, Any]) -> None:
        if "episode" in info:  # of SB3's Monitor
            score = {"episode/score": float(info["episode"]["r"]), "episode/length": int(info["episode"]["l"])}
            self._scores.append({_STEP: self.num_timesteps} | score)
        logged = info.get(LOGGED)  # which environments that know nothing of log keys may use for anything
        for name, value in logged.items() if isinstance(logged, Mapping) else ():
            if isinstance(value, np.ndarray) and value.ndim == 4 and value.dtype == np.uint8:
                log_video(self.logger, name, gif(value), self.num_timesteps)
            elif isinstance(value, Real):
                self.logger.record_mean(name, float(value))

    def _on_training_end(self) -> None:
        # Also called after an interruption, possibly twice, and by rl-zoo3 even if the training has not begun.
        if not hasattr(self, "_metrics"):
            return
        if self._metrics in self.logger.output_formats:
            self.logger.output_formats.remove(self._metrics)
        self._metrics.close()
        self._scores.close()


def begin_lines(model: BaseAlgorithm, path: Path, key: str) -> None:
    """Readies a file of lines, whose steps are at ``key``, for a training.

    One of another run is set aside; in that of a run that is resumed there stays what is not made again.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    set_aside(model, path)
    keep_until(path, steps_at_start(model), key)


def keep_until(path: Path, steps: int, key: str = _STEP) -> None:
    """Removes lines of later steps, and what a killed process has written half, from a file."""
    lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
    kept = [line for line in lines if (_read(line, key) or {key: steps + 1})[key] <= steps]
    if len(kept) < len(lines):
        with replacing(path) as partial:
            partial.write_bytes(b"".join(kept))


def _last_line(path: Path) -> tuple[dict[str, Any], int]:
    """Returns the last line of a file, and where it begins; ``{}`` if there is none."""
    content = path.read_bytes() if path.is_file() else b""
    at = content.rstrip(b"\n").rfind(b"\n") + 1
    return _read(content[at:], _STEP) or {}, at


def _read(line: bytes, key: str) -> dict[str, Any] | None:
    """Returns a line that is whole, ``None`` for another one."""
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return found if line.endswith(b"\n") and isinstance(found, dict) and isinstance(found.get(key), int) else None
