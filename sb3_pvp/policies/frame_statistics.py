"""A policy's statistics of observations as NumPy arrays, for what normalises without a network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.policies.normalization import RunningNormalizer


@dataclass(frozen=True)
class FrameStatistics:
    """What `RunningNormalizer` knew at one moment about the first features of a frame.

    Attributes:
        mean: float32 ``(features,)``.
        scale: what centred features are multiplied by, float32 ``(features,)``.
        clip: normalised features are within ``±clip``.
    """

    mean: NDArray[np.float32]
    scale: NDArray[np.float32]
    clip: float

    @classmethod
    def of(cls, normalizer: RunningNormalizer, num_features: int) -> FrameStatistics:
        """A copy of the normalizer's statistics of its first ``num_features`` features."""
        mean, scale = (part[:num_features].cpu().numpy().copy() for part in (normalizer.mean, normalizer.scale()))
        return cls(mean, scale, normalizer.clip)

    @classmethod
    def identity(cls, num_features: int) -> FrameStatistics:
        """Statistics that leave features as they are."""
        return cls(np.zeros(num_features, np.float32), np.ones(num_features, np.float32), np.inf)

    def __call__(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Normalised features of the same shape ``(..., features)``."""
        normalized = (features - self.mean) * self.scale
        return np.clip(normalized, -self.clip, self.clip, out=normalized)
