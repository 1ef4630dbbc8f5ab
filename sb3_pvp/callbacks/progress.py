"""A progress bar that shows the win rate and rating of the learner."""

from __future__ import annotations

from collections import deque
from importlib.util import find_spec
from typing import Any

import numpy as np
from rich import get_console
from stable_baselines3.common.callbacks import ProgressBarCallback

from sb3_pvp.common.arguments import PositiveInt, checked
from sb3_pvp.common.errors import extra
from sb3_pvp.matches.evaluation import SCORE_FIELDS
from sb3_pvp.players.opponents import SELF_PLAY


class ProgressCallback(ProgressBarCallback):
    """SB3's progress bar, prefixed with the learner's recent win rate and its Elo rating.

    Self-play fights do not count towards the win rate. The rating is shown if a `LeagueCallback`, listed before
    this callback, logs it. rl-zoo3's ``-P`` uses this bar for environments of this package.

    Args:
        window: number of recent episodes in the win rate.
    """

    @checked
    def __init__(self, window: PositiveInt = 100) -> None:
        super().__init__()
        self._won: deque[bool] = deque(maxlen=window)
        self._elo: float | None = None

    def _on_training_start(self) -> None:
        # In a notebook rich shows nothing without ipywidgets, and warns of that at each step: a plain bar instead.
        if get_console().is_jupyter and find_spec("ipywidgets") is None:
            with extra("zoo", "progress bars"):
                from tqdm import tqdm
            self.pbar = tqdm(total=self.locals["total_timesteps"] - self.model.num_timesteps)  # type: ignore[assignment]
        else:
            super()._on_training_start()

    @property
    def text(self) -> str:
        """The text before the bar; empty until an episode has ended."""
        parts = [f"won {np.mean(self._won):.0%} of {len(self._won)}"] if self._won else []
        return ", ".join([*parts, f"Elo {self._elo:.0f}"] if self._elo is not None else parts)

    def _on_step(self) -> bool:
        for row in np.flatnonzero(self.locals["dones"]):
            self._count(self.locals["infos"][row])
            self.pbar.set_description_str(self.text, refresh=False)  # SB3 refreshes the bar when it updates it
        return super()._on_step()

    def _on_rollout_end(self) -> None:
        # The logger clears its values with each dump; between two values of a LeagueCallback the last one stays.
        self._elo = self.logger.name_to_value.get("rollout/elo/latest", self._elo)
        self.pbar.set_description_str(self.text)

    def _count(self, info: dict[str, Any]) -> None:
        if info.get("opponent") != SELF_PLAY and info.get("outcome") in SCORE_FIELDS:
            self._won.append(info["outcome"] == "won")
