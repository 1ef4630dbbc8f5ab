"""A reward bonus for novel observations (training.md §6.2 a)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.callbacks.base import ALL_BUT_TENSORBOARD, PvpCallback, Scheduled, trained_rollouts
from sb3_pvp.callbacks.observations_callback import current_statistics, newest_frame, normalizer_of, own_part, own_shape
from sb3_pvp.common.arguments import NUMBER, Flag, checked
from sb3_pvp.policies.networks import FrameStatistics

METRICS = {
    "rollout/novelty_reward_scale": "Reward per unit of novelty.",
    "rollout/novelty_{statistic}": "Novelty of the observations that the learner acted on.",
    "rollout/novelty": "Histogram of the novelty (if enabled).",
}


class NoveltyRewardCallback(PvpCallback):
    """Adds ``scale * novelty`` to the reward of every step; needs a policy that keeps observation statistics.

    The novelty of an observation is the sum of ``max(|z| - 1, 0)`` over the features that vary within a fight, where
    ``z`` is the feature normalised with the policy's running mean and deviation, and clipped to ±5. There is no bonus
    until the policy has such statistics. The episode rewards that environments report do not include it.

    Args:
        scale: a number or a schedule over trained rollouts (`sb3_pvp.common.schedules.parse_schedule`).
        histogram: also log the histogram ``rollout/novelty``.
    """

    @checked
    def __init__(self, scale: Any, histogram: Flag = False, verbose: bool | int = 0) -> None:
        super().__init__(verbose)
        self._scale_over_time, self._histogram = Scheduled("scale", scale, NUMBER), histogram

    def _on_training_start(self) -> None:
        if normalizer_of(self.model) is None:
            raise ValueError(
                f"NoveltyRewardCallback needs a policy that keeps observation statistics, such as "
                f"sb3_pvp.policies.AutoregressivePolicy, not {type(self.model.policy).__name__}"
            )
        self._shape, self._varying = own_shape(self.model), varying_features(self.model)

    def _on_rollout_start(self) -> None:
        self._scale = self._scale_over_time(trained_rollouts(self.model))
        self._statistics = current_statistics(self.model)
        self._novelty: list[NDArray[np.float32]] = []

    def _on_step(self) -> bool:
        """Adds the bonus to the rewards of this step."""
        if self._statistics is not None:
            # SB3 updates _last_obs only after this hook: it still holds the observations that were acted on.
            observations = self.model._last_obs
            assert observations is not None
            features = newest_frame(own_part(observations), self._shape)
            self._novelty.append(novelty(features, self._statistics, self._varying))
            # In place, because SB3 adds this very array to its rollout buffer.
            self.locals["rewards"] += self._scale * self._novelty[-1]
        return True

    def _on_rollout_end(self) -> None:
        self.logger.record("rollout/novelty_reward_scale", self._scale)
        if not self._novelty:
            return
        values = np.concatenate(self._novelty)
        for statistic in ("mean", "std", "min", "max"):
            self.logger.record(f"rollout/novelty_{statistic}", float(getattr(values, statistic)()))
        if self._histogram:
            self.logger.record("rollout/novelty", th.from_numpy(values), exclude=ALL_BUT_TENSORBOARD)


def varying_features(model: BaseAlgorithm) -> NDArray[np.float32]:
    """Returns float32 ``(features,)``: 1 for the learner's own features that vary within a fight, else 0."""
    varying = np.ones(own_shape(model)[-1], np.float32)
    if (contract := getattr(model.policy, "contract", None)) is not None:
        varying[contract.constant_indices] = 0.0
        varying[contract.num_observations :] = 0.0
    return varying


def novelty(
    features: NDArray[np.float32], statistics: FrameStatistics, varying: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Returns the novelty ``(N,)`` of raw features ``(N, D)``, counting those with a 1 in ``varying`` ``(D,)``."""
    beyond = np.abs(statistics(features)) - 1.0
    summed: NDArray[np.float32] = np.maximum(beyond, 0.0, out=beyond) @ varying
    return summed
