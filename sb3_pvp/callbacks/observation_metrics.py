"""Logs what the learner saw, and what it chose from (self-play.md §11.3 and §11.4)."""

from __future__ import annotations

from itertools import chain

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.callbacks import base
from sb3_pvp.common.arguments import Flag, checked
from sb3_pvp.policies.features import PRIVILEGED

METRICS = {
    "observations/{observation}_rollout_{statistic}": "Of an observation in this roll-out, in the newest frame.",
    "observations/{observation}_running_mean": "Mean that the policy normalises an observation with.",
    "observations/{observation}_running_var": "Variance that the policy normalises an observation with.",
    "observations/stats_count": "How many observations the policy's statistics are made of.",
    "observations/{observation}": "Histogram of an observation in this roll-out, if asked for.",
    "actions/action/{head}": "Histogram of the numbers that an action head chose, if asked for.",
    "actions/mask/{head}": "Histogram of the numbers that an action head could have chosen, if asked for.",
}


class ObservationMetricsCallback(base.PvpCallback):
    """Logs six numbers for every observation after each roll-out, to TensorBoard (and JSON) only: more than 1600 tags.

    Observations have the names of the policy's contract, or their indices; those that only the critic sees begin with
    ``opponent_``. Of stacked frames the newest one counts.

    Args:
        statistics: log these numbers.
        histograms: log histograms of observations, actions and masks, to TensorBoard only.

    Raises:
        ValueError: at the start of training, if the model's observations are no features.
    """

    @checked
    def __init__(self, statistics: Flag = True, histograms: Flag = False, verbose: int = 0) -> None:
        super().__init__(verbose)
        self._statistics, self._histograms = statistics, histograms

    def _on_training_start(self) -> None:
        self._names, self._critic_names = observation_names(self.model)

    def _on_rollout_end(self) -> None:
        observations = self.model.rollout_buffer.observations  # type: ignore[attr-defined]
        parts = [base.own_part(observations)]
        if isinstance(observations, dict) and PRIVILEGED in observations:
            parts.append(observations[PRIVILEGED])
        # Each feature of the newest frame in all steps of the roll-out.
        features = (base.newest_frame(part, part.shape[2:]).reshape(-1, part.shape[-1]).T for part in parts)
        seen = dict(zip((*self._names, *self._critic_names), chain.from_iterable(features), strict=True))
        if self._statistics:
            self._log_statistics(seen)
        if self._histograms:
            for name, values in seen.items():
                self._log_histogram(f"observations/{name}", values)
            self._log_actions()

    def _log_statistics(self, seen: dict[str, NDArray[np.float32]]) -> None:
        features = np.stack(list(seen.values())).astype(np.float64)
        figures = {f"rollout_{name}": getattr(features, name)(axis=1) for name in ("mean", "std", "min", "max")}
        normalizer = base.normalizer_of(self.model)
        if normalizer is not None:
            width = len(normalizer.mean)
            rows = [*range(len(self._names)), *range(width - len(self._critic_names), width)]
            figures |= {"running_mean": normalizer.mean[rows], "running_var": normalizer.variance[rows]}
            self.logger.record("observations/stats_count", float(normalizer.count), exclude=base.TABLES)
        for statistic, values in figures.items():
            for name, value in zip(seen, values.tolist(), strict=True):
                self.logger.record(f"observations/{name}_{statistic}", value, exclude=base.TABLES)

    def _log_actions(self) -> None:
        buffer, space = self.model.rollout_buffer, self.model.action_space  # type: ignore[attr-defined]
        sizes = space.nvec if isinstance(space, spaces.MultiDiscrete) else [space.n]
        names = getattr(self.model.policy, "head_ids", [str(head) for head in range(len(sizes))])
        actions = buffer.actions.reshape(-1, len(sizes))
        masks = np.split(buffer.action_masks.reshape(len(actions), -1), np.cumsum(sizes)[:-1], axis=1)
        for head, (name, mask) in enumerate(zip(names, masks, strict=True)):
            self._log_histogram(f"actions/action/{name}", actions[:, head])
            self._log_histogram(f"actions/mask/{name}", np.nonzero(mask)[1])

    def _log_histogram(self, tag: str, values: NDArray[np.generic]) -> None:
        self.logger.record(tag, th.as_tensor(values.copy()), exclude=base.ALL_BUT_TENSORBOARD)


def observation_names(model: BaseAlgorithm) -> tuple[list[str], list[str]]:
    """The names of the learner's own features of a frame, and of those that only the critic sees."""
    width, contract = base.own_shape(model)[-1], getattr(model.policy, "contract", None)
    space = model.observation_space
    privileged = space.spaces.get(PRIVILEGED) if isinstance(space, spaces.Dict) else None
    hidden = 0 if privileged is None else (privileged.shape or (0,))[-1]
    own = [str(index) for index in range(width)]
    if contract is not None:
        own[: contract.num_observations] = [observation.id for observation in contract.observations]
    if contract is not None and hidden == len(contract.partial_indices):
        return own, [f"opponent_{own[index]}" for index in contract.partial_indices]
    return own, [f"opponent_{index}" for index in range(hidden)]
