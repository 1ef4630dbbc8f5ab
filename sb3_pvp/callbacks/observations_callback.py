"""Logs statistics of observations, actions and action masks (self-play.md §11.3, §11.4)."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.callbacks.base import ALL_BUT_TENSORBOARD, TABLES, RolloutCallback
from sb3_pvp.common.arguments import Flag, checked
from sb3_pvp.policies.features import OBSERVATION, PRIVILEGED, part_of
from sb3_pvp.policies.networks import FrameStatistics, RunningNormalizer

METRICS = {
    "observations/{observation}_rollout_{statistic}": "Statistic of a feature in this rollout (newest frame).",
    "observations/{observation}_running_mean": "Running mean with which the policy normalises a feature.",
    "observations/{observation}_running_var": "Running variance with which the policy normalises a feature.",
    "observations/stats_count": "Number of observations in the policy's running statistics.",
    "observations/{observation}": "Histogram of a feature in this rollout (if enabled).",
    "actions/action/{head}": "Histogram of the action indices that a head chose (if enabled).",
    "actions/mask/{head}": "Histogram of the action indices that a head's mask allowed (if enabled).",
}


def own_shape(model: BaseAlgorithm) -> tuple[int, ...]:
    """Returns the learner's own shape, ``(frames, features)`` or ``(features,)``; `ValueError` for other spaces."""
    own = part_of(model.observation_space)
    if not isinstance(own, spaces.Box) or len(own.shape) not in (1, 2):
        raise ValueError(
            f"observations must be a Box of shape (features,) or (frames, features), or a Dict with one under "
            f"{OBSERVATION!r}; this model has {model.observation_space}"
        )
    return own.shape


def own_part(observations: NDArray[Any] | dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Returns the learner's own part of the observations, without what only the critic sees."""
    return observations[OBSERVATION] if isinstance(observations, dict) else observations


def newest_frame(observations: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Returns the features ``(..., features)`` of the newest frame of observations ``(..., *shape)``."""
    return observations[..., 0, :] if len(shape) == 2 else observations  # frames are stacked newest first


def normalizer_of(model: BaseAlgorithm) -> RunningNormalizer | None:
    """Returns the policy's observation normaliser, if it has one."""
    found: RunningNormalizer | None = getattr(model.policy, "observation_normalizer", None)
    return found


def current_statistics(model: BaseAlgorithm) -> FrameStatistics | None:
    """Returns the policy's statistics of the learner's own features; ``None`` if it has none, or none yet."""
    normalizer = normalizer_of(model)
    if normalizer is None or not getattr(model.policy, "has_statistics", False):
        return None
    return FrameStatistics.of(normalizer, own_shape(model)[-1])


class ObservationMetricsCallback(RolloutCallback):
    """Logs six statistics of every feature after each rollout, to TensorBoard (and JSON) only: more than 1600 tags.

    Features are named as in the policy's contract, else by index, and prefixed with ``opponent_`` if only the critic
    sees them. Of stacked frames the newest one is used.

    Args:
        statistics: log these statistics.
        histograms: log histograms of observations, actions and masks, to TensorBoard only.
    """

    @checked
    def __init__(self, statistics: Flag = True, histograms: Flag = False, verbose: bool | int = 0) -> None:
        super().__init__(verbose)
        self._statistics, self._histograms = statistics, histograms

    def _on_training_start(self) -> None:
        self._names, self._critic_names = observation_names(self.model)

    def _on_rollout_end(self) -> None:
        rollout = self._rollout()
        observations = rollout.observations
        hidden = observations.get(PRIVILEGED) if isinstance(observations, dict) else None
        parts = [own_part(observations)] if hidden is None else [own_part(observations), hidden]
        # One array (steps * envs,) per feature, of the newest frame.
        features = (newest_frame(part, part.shape[2:]).reshape(-1, part.shape[-1]).T for part in parts)
        seen = dict(zip((*self._names, *self._critic_names), chain.from_iterable(features), strict=True))
        if self._statistics:
            self._log_statistics(seen)
        if self._histograms:
            for name, values in seen.items():
                self._log_histogram(f"observations/{name}", values)
            self._log_actions(rollout.actions, rollout.action_masks)

    def _log_statistics(self, seen: dict[str, NDArray[np.float32]]) -> None:
        features = np.stack(list(seen.values())).astype(np.float64)
        figures = {f"rollout_{name}": getattr(features, name)(axis=1) for name in ("mean", "std", "min", "max")}
        normalizer = normalizer_of(self.model)
        if normalizer is not None:
            # Own features come first, the critic's last; other public parts of a Dict space are in between.
            width = len(normalizer.mean)
            rows = [*range(len(self._names)), *range(width - len(self._critic_names), width)]
            figures |= {"running_mean": normalizer.mean[rows], "running_var": normalizer.variance[rows]}
            self.logger.record("observations/stats_count", float(normalizer.count), exclude=TABLES)
        for statistic, values in figures.items():
            for name, value in zip(seen, values.tolist(), strict=True):
                self.logger.record(f"observations/{name}_{statistic}", value, exclude=TABLES)

    def _log_actions(self, chosen: NDArray[Any], legal: NDArray[Any] | None) -> None:
        space = self.model.action_space
        sizes = space.nvec if isinstance(space, spaces.MultiDiscrete) else [space.n]  # type: ignore[attr-defined]
        names = getattr(self.model.policy, "head_ids", [str(head) for head in range(len(sizes))])
        for name, actions in zip(names, chosen.reshape(-1, len(sizes)).T, strict=True):
            self._log_histogram(f"actions/action/{name}", actions)
        if legal is not None:
            masks = np.split(legal.reshape(-1, sum(sizes)), np.cumsum(sizes)[:-1], axis=1)
            for name, mask in zip(names, masks, strict=True):
                self._log_histogram(f"actions/mask/{name}", np.nonzero(mask)[1])

    def _log_histogram(self, tag: str, values: NDArray[np.generic]) -> None:
        self.logger.record(tag, th.as_tensor(values.copy()), exclude=ALL_BUT_TENSORBOARD)


def observation_names(model: BaseAlgorithm) -> tuple[list[str], list[str]]:
    """Returns the names of the learner's own features of a frame, and of the features that only the critic sees."""
    width, contract = own_shape(model)[-1], getattr(model.policy, "contract", None)
    space = model.observation_space
    privileged = space.spaces.get(PRIVILEGED) if isinstance(space, spaces.Dict) else None
    hidden = 0 if privileged is None else (privileged.shape or (0,))[-1]
    own, partial = [str(index) for index in range(width)], [str(index) for index in range(hidden)]
    if contract is not None:
        own[: contract.num_observations] = [observation.id for observation in contract.observations]
        if hidden == len(contract.partial_indices):
            partial = [own[index] for index in contract.partial_indices]
    return own, [f"opponent_{name}" for name in partial]
