"""Logs the statistics of the fights of each rollout (self-play.md §11.5)."""

from __future__ import annotations

import numpy as np

from sb3_pvp.callbacks.base import TABLES, PvpCallback
from sb3_pvp.envs.measures import summarize
from sb3_pvp.game import WorldError

#: Training stops when at least this share of the fights in a rollout were broken off (rewards.md §5).
MAX_DESYNC = 0.05
#: Reasons for which a remote world breaks off fights on purpose: its server is gone, or a seat is idle.
INTENDED = ("connection_lost", "idle")


class FightMetricsCallback(PvpCallback):
    """Logs ``combat/``, ``terminal/``, ``times/``, ``rewards/`` and ``env/`` after every rollout.

    Works with `PvpVecEnv` and any other ``VecEnv`` of `PvpEnv` environments. These accumulate the statistics, which
    this callback fetches once per rollout. The numerous tags go to TensorBoard (and JSON) only, ``terminal/`` and
    ``env/num_envs`` to every output.

    Raises:
        ValueError: at the start of training, if the environments are of another kind.
        WorldError: if at least one in twenty fights of a rollout was broken off, since training on the rest would be
            misleading. Fights that a remote world broke off on purpose do not count (`INTENDED`).
    """

    def _on_training_start(self) -> None:
        if not self.training_env.has_attr("enable_metrics"):
            raise ValueError("FightMetricsCallback needs environments of this package, such as PvpVecEnv")
        self.training_env.env_method("enable_metrics")
        self.training_env.env_method("pop_metrics")  # what was counted before this training
        self._measures = self.training_env.env_method("measures", indices=[0])[0]

    def _on_rollout_start(self) -> None:
        self.logger.record("env/num_envs", self.training_env.num_envs)
        for tag, value in self.training_env.env_method("reward_weights", indices=[0])[0].items():
            self.logger.record(f"env/pvp/{tag}", value, exclude=TABLES)

    def _on_rollout_end(self) -> None:
        summary = summarize(np.sum(self.training_env.env_method("pop_metrics"), axis=0), self._measures)
        for tag, value in summary.items():
            # terminal/truncate/{reason} are too many for a table.
            everywhere = tag.count("/") == 1 and tag.startswith("terminal/")
            self.logger.record(tag, value, exclude=() if everywhere else TABLES)
        total = round(summary.get("terminal/terminal_state_count", 0.0))
        broken = round(summary.get("terminal/desync_percentage", 0.0) * total)
        broken -= round(sum(summary.get(f"terminal/truncate/{reason}", 0.0) for reason in INTENDED))
        if broken >= max(MAX_DESYNC * total, 1):
            reasons = [f"{tag.rpartition('/')[2]} {count:.0f}" for tag, count in summary.items() if "/truncate/" in tag]
            raise WorldError(
                f"{broken} of the {total} fights that ended in this rollout were broken off ({', '.join(reasons)}), "
                f"and training stops at {MAX_DESYNC:.0%}: check that the world is running and keeps up with the learner"
            )
