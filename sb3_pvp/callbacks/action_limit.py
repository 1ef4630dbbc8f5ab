"""A penalty for more actions in a tick than a person can make."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from sb3_pvp.callbacks.base import RolloutCallback, Scheduled, trained_rollouts
from sb3_pvp.common.arguments import AT_LEAST_0, PositiveInt, checked

METRICS = {
    "rollout/actions_mean": "Actions of the learner per step: heads with another choice than their first, which waits.",
    "rollout/actions_over_limit": "Share of the steps with more actions than the limit.",
}


class ActionLimitCallback(RolloutCallback):
    """Subtracts ``penalty`` from the reward of a step for each action above ``max_actions``.

    The first choice of each head, which waits, is no action. A fighter learns to keep the limit, wherever it plays,
    except in steps in which more actions are worth the penalty. The episode rewards that environments report do not
    include it.

    Args:
        max_actions: per step.
        penalty: a number or a schedule over trained rollouts (`sb3_pvp.common.schedules.parse_schedule`).
    """

    @checked
    def __init__(self, max_actions: PositiveInt, penalty: Any, verbose: bool | int = 0) -> None:
        super().__init__(verbose)
        self._limit, self._penalty_over_time = max_actions, Scheduled("penalty", penalty, AT_LEAST_0)

    def _on_training_start(self) -> None:
        if not isinstance(self.model.action_space, spaces.MultiDiscrete):
            raise ValueError(f"ActionLimitCallback needs several action heads, got {self.model.action_space}")

    def _on_rollout_start(self) -> None:
        super()._on_rollout_start()
        self._penalty = self._penalty_over_time(trained_rollouts(self.model))

    def _on_step(self) -> bool:
        """Subtracts the penalty from the rewards of this step."""
        counts = np.count_nonzero(self.locals["actions"], axis=1)
        # In place, because SB3 adds this very array to its buffer.
        self.locals["rewards"] -= np.float32(self._penalty) * np.maximum(counts - self._limit, 0)
        return super()._on_step()

    def _on_rollout_end(self) -> None:
        counts = np.count_nonzero(self._rollout().actions, axis=2)
        self.logger.record("rollout/actions_mean", float(counts.mean()))
        self.logger.record("rollout/actions_over_limit", float(np.mean(counts > self._limit)))
