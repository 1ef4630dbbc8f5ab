"""What rewards are made of, and nothing else of the fights (self-play.md §11.5)."""

from __future__ import annotations

from sb3_pvp.callbacks.base import TABLES
from sb3_pvp.callbacks.fight_metrics import FightMetricsCallback

_PREFIX = "rewards/"


class RewardTrackerCallback(FightMetricsCallback):
    """Logs ``rewards/`` after every roll-out: of each component the count, the total and the mean; the overall total.

    `FightMetricsCallback` logs the same among all else; list one of the two. The total is printed as well.
    """

    def _on_rollout_start(self) -> None:
        pass

    def _on_rollout_end(self) -> None:
        for tag, value in self._summary().items():
            if tag.startswith(_PREFIX):
                self.logger.record(tag, value, exclude=() if tag == "rewards/overall_total" else TABLES)
