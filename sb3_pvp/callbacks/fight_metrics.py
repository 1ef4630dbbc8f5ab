"""Logs what happened in the fights of a rollout, or of that only the rewards (self-play.md §11.5)."""

from __future__ import annotations

import numpy as np

from sb3_pvp.callbacks.base import TABLES, PvpCallback
from sb3_pvp.envs.metrics import summarize
from sb3_pvp.game import WorldError

#: A run stops when this share of a rollout's fights broke off (rewards.md §5).
MAX_DESYNC = 0.05
#: What a remote world was told to do: wait for a server that is gone, and log out where nobody plays.
INTENDED = ("connection_lost", "idle")


class FightMetricsCallback(PvpCallback):
    """Logs ``combat/``, ``terminal/``, ``times/``, ``rewards/`` and ``env/`` after every rollout.

    For `PvpVecEnv`, and for any other ``VecEnv`` of `PvpEnv` environments; they count, and are asked once per rollout.
    Tags of which there are many go to TensorBoard (and JSON) only, ``terminal/`` and ``env/num_envs`` everywhere.

    Raises:
        ValueError: at the start of training, if the environments are others.
        WorldError: if at least one in twenty fights of a rollout broke off: nothing good is learned from that. Those
            that broke off as the settings of a remote world want it do not count (`INTENDED`).
    """

    def _on_training_start(self) -> None:
        if not self.training_env.has_attr("enable_metrics"):
            raise ValueError("FightMetricsCallback needs environments of this package, such as PvpVecEnv")
        self.training_env.env_method("enable_metrics")
        self.training_env.env_method("pop_metrics")
        self._measures = self.training_env.env_method("measures", indices=[0])[0]

    def _on_rollout_start(self) -> None:
        self.logger.record("env/num_envs", self.training_env.num_envs)
        for tag, value in self.training_env.env_method("reward_weights", indices=[0])[0].items():
            self.logger.record(f"env/pvp/{tag}", value, exclude=TABLES)

    def _on_rollout_end(self) -> None:
        summary = self._summary()
        for tag, value in summary.items():
            everywhere = tag.count("/") == 1 and tag.startswith("terminal/")
            self.logger.record(tag, value, exclude=() if everywhere else TABLES)
        total = round(summary.get("terminal/terminal_state_count", 0.0))
        broken = round(summary.get("terminal/desync_percentage", 0.0) * total)
        broken -= round(sum(summary.get(f"terminal/truncate/{reason}", 0.0) for reason in INTENDED))
        if broken >= max(MAX_DESYNC * total, 1):
            reasons = [f"{tag.rpartition('/')[2]} {count:.0f}" for tag, count in summary.items() if "/truncate/" in tag]
            raise WorldError(
                f"{broken} of the {total} fights that ended in this rollout broke off ({', '.join(reasons)}); "
                f"training stops at {MAX_DESYNC:.0%}. Check that the world runs, and keeps pace with the learner"
            )

    def _summary(self) -> dict[str, float]:
        return summarize(np.sum(self.training_env.env_method("pop_metrics"), axis=0), self._measures)


class RewardTrackerCallback(FightMetricsCallback):
    """Logs ``rewards/`` after every rollout: of each component the count, the total and the mean; the overall total.

    `FightMetricsCallback` logs the same among all else; list one of the two. The total is printed as well.
    """

    def _on_rollout_start(self) -> None:
        pass

    def _on_rollout_end(self) -> None:
        for tag, value in self._summary().items():
            if tag.startswith("rewards/"):
                self.logger.record(tag, value, exclude=() if tag == "rewards/overall_total" else TABLES)
