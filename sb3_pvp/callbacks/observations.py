"""What the learner saw and chose from, as metrics and as a bonus (self-play.md §11.3, §11.4, training.md §6.2 a)."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.callbacks.base import ALL_BUT_TENSORBOARD, TABLES, PvpCallback, Scheduled, trained_rollouts
from sb3_pvp.common.arguments import NUMBER, Flag, checked
from sb3_pvp.policies.features import OBSERVATION, PRIVILEGED
from sb3_pvp.policies.networks import FrameStatistics, RunningNormalizer

NOVELTY_METRICS = {
    "rollout/novelty_reward_scale": "What one unit of novelty is worth.",
    "rollout/novelty_{statistic}": "Novelty of the states in which the learner acted.",
    "rollout/novelty": "Histogram of the novelty, if asked for.",
}
METRICS = {
    "observations/{observation}_rollout_{statistic}": "Of an observation in this roll-out, in the newest frame.",
    "observations/{observation}_running_mean": "Mean that the policy normalises an observation with.",
    "observations/{observation}_running_var": "Variance that the policy normalises an observation with.",
    "observations/stats_count": "How many observations the policy's statistics are made of.",
    "observations/{observation}": "Histogram of an observation in this roll-out, if asked for.",
    "actions/action/{head}": "Histogram of the numbers that an action head chose, if asked for.",
    "actions/mask/{head}": "Histogram of the numbers that an action head could have chosen, if asked for.",
}


def own_shape(model: BaseAlgorithm) -> tuple[int, ...]:
    """The shape of what a learner itself sees, ``(frames, features)`` or ``(features,)``; `ValueError` for others."""
    space = model.observation_space
    own = space.spaces.get(OBSERVATION) if isinstance(space, spaces.Dict) else space
    if not isinstance(own, spaces.Box) or len(own.shape) not in (1, 2):
        raise ValueError(
            f"the observations must be a Box of features or of frames, or a Dict with such a part under "
            f"{OBSERVATION!r}; this model has {space}"
        )
    return own.shape


def own_part(observations: NDArray[Any] | dict[str, NDArray[Any]]) -> NDArray[Any]:
    """What the learner itself sees, of observations in a Dict or plain."""
    return observations[OBSERVATION] if isinstance(observations, dict) else observations


def newest_frame(observations: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Features ``(..., features)`` of observations ``(..., *shape)``; frames are stacked newest first."""
    return observations[..., 0, :] if len(shape) == 2 else observations


def normalizer_of(model: BaseAlgorithm) -> RunningNormalizer | None:
    """The policy's statistics of observations, if it keeps any."""
    normalizer = getattr(model.policy, "observation_normalizer", None)
    assert normalizer is None or isinstance(normalizer, RunningNormalizer)
    return normalizer


def current_statistics(model: BaseAlgorithm) -> FrameStatistics | None:
    """The policy's statistics of the learner's own features, or ``None`` while it has none."""
    normalizer = normalizer_of(model)
    if normalizer is None or not getattr(model.policy, "has_statistics", False):
        return None
    return FrameStatistics.of(normalizer, own_shape(model)[-1])


class NoveltyRewardCallback(PvpCallback):
    """Adds ``scale * novelty`` to the reward of every step, with a policy that keeps statistics of observations.

    The novelty of a state is the sum, over the features that vary within a fight, of how many standard deviations
    beyond the first a feature is away from its mean, four at most. Mean and deviation are the policy's running
    statistics; as long as it has none nothing happens. What environments report of episodes does not contain the bonus.

    Args:
        scale: a number or a schedule over trained roll-outs (`sb3_pvp.schedules.parse_schedule`).
        histogram: also log the histogram ``rollout/novelty``.
    """

    @checked
    def __init__(self, scale: Any, histogram: Flag = False, verbose: bool | int = 0) -> None:
        super().__init__(verbose)
        self._scale_over_time, self._histogram = Scheduled("scale", scale, NUMBER), histogram

    def _on_training_start(self) -> None:
        if normalizer_of(self.model) is None:
            raise ValueError(
                f"NoveltyRewardCallback needs a policy that keeps statistics of observations, such as "
                f"sb3_pvp.policies.AutoregressivePolicy, not {type(self.model.policy).__name__}"
            )
        self._shape, self._varying = own_shape(self.model), varying_features(self.model)

    def _on_rollout_start(self) -> None:
        self._scale = self._scale_over_time(trained_rollouts(self.model))
        self._statistics = current_statistics(self.model)
        self._novelty: list[NDArray[np.float32]] = []

    def _on_step(self) -> bool:
        if self._statistics is not None:
            # In which the action was taken: the algorithm replaces it after this call.
            observations = self.model._last_obs
            assert observations is not None
            features = newest_frame(own_part(observations), self._shape)
            self._novelty.append(novelty(features, self._statistics, self._varying))
            # In place: the algorithm puts this very array into its buffer.
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
    """1 for the own features that the contract does not call constant, else 0; float32 ``(features,)``."""
    varying = np.ones(own_shape(model)[-1], np.float32)
    if (contract := getattr(model.policy, "contract", None)) is not None:
        varying[contract.constant_indices] = 0.0
        varying[contract.num_observations :] = 0.0
    return varying


def novelty(
    features: NDArray[np.float32], statistics: FrameStatistics, varying: NDArray[np.float32]
) -> NDArray[np.float32]:
    """The novelty ``(N,)`` of raw features ``(N, D)``, counting those with a 1 in ``varying`` ``(D,)``."""
    beyond = np.abs(statistics(features)) - 1.0
    summed: NDArray[np.float32] = np.maximum(beyond, 0.0, out=beyond) @ varying
    return summed


class ObservationMetricsCallback(PvpCallback):
    """Logs six numbers for every observation after each roll-out, to TensorBoard (and JSON) only: more than 1600 tags.

    Observations have the names of the policy's contract, or their indices, with ``opponent_`` before those that only
    the critic sees. Of stacked frames the newest one counts.

    Args:
        statistics: log these numbers.
        histograms: log histograms of observations, actions and masks, to TensorBoard only.
    """

    @checked
    def __init__(self, statistics: Flag = True, histograms: Flag = False, verbose: bool | int = 0) -> None:
        super().__init__(verbose)
        self._statistics, self._histograms = statistics, histograms

    def _on_training_start(self) -> None:
        self._names, self._critic_names = observation_names(self.model)

    def _on_rollout_end(self) -> None:
        observations = self.model.rollout_buffer.observations  # type: ignore[attr-defined]
        parts = [own_part(observations)]
        if isinstance(observations, dict) and PRIVILEGED in observations:
            parts.append(observations[PRIVILEGED])
        # Each feature of the newest frame in all steps of the roll-out.
        features = (newest_frame(part, part.shape[2:]).reshape(-1, part.shape[-1]).T for part in parts)
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
        normalizer = normalizer_of(self.model)
        if normalizer is not None:
            width = len(normalizer.mean)
            rows = [*range(len(self._names)), *range(width - len(self._critic_names), width)]
            figures |= {"running_mean": normalizer.mean[rows], "running_var": normalizer.variance[rows]}
            self.logger.record("observations/stats_count", float(normalizer.count), exclude=TABLES)
        for statistic, values in figures.items():
            for name, value in zip(seen, values.tolist(), strict=True):
                self.logger.record(f"observations/{name}_{statistic}", value, exclude=TABLES)

    def _log_actions(self) -> None:
        buffer, space = self.model.rollout_buffer, self.model.action_space  # type: ignore[attr-defined]
        sizes = space.nvec if isinstance(space, spaces.MultiDiscrete) else [space.n]  # type: ignore[attr-defined]
        names = getattr(self.model.policy, "head_ids", [str(head) for head in range(len(sizes))])
        actions = buffer.actions.reshape(-1, len(sizes))
        masks = np.split(buffer.action_masks.reshape(len(actions), -1), np.cumsum(sizes)[:-1], axis=1)
        for head, (name, mask) in enumerate(zip(names, masks, strict=True)):
            self._log_histogram(f"actions/action/{name}", actions[:, head])
            self._log_histogram(f"actions/mask/{name}", np.nonzero(mask)[1])

    def _log_histogram(self, tag: str, values: NDArray[np.generic]) -> None:
        self.logger.record(tag, th.as_tensor(values.copy()), exclude=ALL_BUT_TENSORBOARD)


def observation_names(model: BaseAlgorithm) -> tuple[list[str], list[str]]:
    """The names of the learner's own features of a frame, and of those that only the critic sees."""
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
