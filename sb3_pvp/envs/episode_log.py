"""Episode statistics under SB3's keys, and the log files of its ``Monitor``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from stable_baselines3.common.monitor import Monitor


class EpisodeLog:
    """Writes ``info["episode"]`` as ``Monitor`` does, and lets the monitors of environment functions write theirs."""

    def __init__(self, monitors: Sequence[Monitor[Any, Any] | None]) -> None:
        self._monitors = monitors
        self._start = time.time()

    def finish(self, fight: int, episode_return: float, length: int, info: dict[str, Any]) -> None:
        """Adds ``info["episode"]``: return ``r``, length ``l`` in ticks and ``t``, seconds since the start."""
        episode = {"r": round(episode_return, 6), "l": length, "t": round(time.time() - self._start, 6)}
        monitor = self._monitors[fight]
        if monitor is not None:
            episode |= {keyword: info[keyword] for keyword in monitor.info_keywords}
            if monitor.results_writer is not None:
                monitor.results_writer.write_row(episode)
        info["episode"] = episode

    def close(self) -> None:
        """Closes the log files."""
        for monitor in self._monitors:
            if monitor is not None:
                monitor.close()
