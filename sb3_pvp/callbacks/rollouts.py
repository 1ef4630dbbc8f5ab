"""What callbacks ask of an algorithm: how far it has come, and what its learners saw."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.policies.features import OBSERVATION
from sb3_pvp.policies.networks import FrameStatistics, RunningNormalizer

#: Outputs of a logger with a line or column for each tag, where hundreds of tags are in the way.
TABLES = ("stdout", "log", "csv")


def trained_rollouts(model: BaseAlgorithm) -> int:
    """How many roll-outs the model was trained on: what schedules count."""
    counted = getattr(model, "trained_rollouts", None)
    if counted is None:
        # Stock algorithms count epochs, also over save and load.
        return int(getattr(model, "_n_updates", 0) // getattr(model, "n_epochs", 1))
    return int(counted)


def own_shape(model: BaseAlgorithm) -> tuple[int, ...]:
    """The shape of what a learner itself sees, ``(frames, features)`` or ``(features,)``.

    Raises `ValueError` if the model's observations have no such part.
    """
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


def varying_features(model: BaseAlgorithm) -> NDArray[np.float32]:
    """1 for the own features that the contract does not call constant, else 0; float32 ``(features,)``."""
    varying = np.ones(own_shape(model)[-1], np.float32)
    contract = getattr(model.policy, "contract", None)
    if contract is not None:
        varying[contract.constant_indices] = 0.0
        varying[contract.num_observations :] = 0.0
    return varying
