"""Statistics that are part of the policy, so that a saved model needs no file beside it (training.md §3.8, §4, §5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch as th
from numpy.typing import NDArray
from torch import nn


class RunningNormalizer(nn.Module):
    """Scales features to zero mean and unit variance, with statistics of everything the policy acted on in training.

    `observe` only collects; `update` makes it count. PPO can so act and learn from one roll-out under the same
    statistics, which keeps its probability ratio at one before the first gradient step.

    Features that always keep one value so far are only shifted: dividing by nothing would blow up their first change.
    """

    mean: th.Tensor
    variance: th.Tensor
    count: th.Tensor
    pending: th.Tensor

    def __init__(self, num_features: int, clip: float = 5.0) -> None:
        super().__init__()
        self.clip = clip
        self.register_buffer("mean", th.zeros(num_features))
        self.register_buffer("variance", th.ones(num_features))
        self.register_buffer("count", th.zeros((), dtype=th.float64))
        # Rows: number of samples (in every column), sum, sum of squares.
        self.register_buffer("pending", th.zeros(3, num_features, dtype=th.float64))

    def forward(self, features: th.Tensor) -> th.Tensor:
        """Returns normalised features of the same shape ``(..., num_features)``, within ``±clip``."""
        return ((features - self.mean) * self.scale()).clamp(-self.clip, self.clip)

    def scale(self) -> th.Tensor:
        """What centred features are multiplied by, ``(num_features,)``."""
        return th.where(self.variance > 1e-6, self.variance + 1e-8, 1.0).rsqrt()

    @th.no_grad()
    def observe(self, features: th.Tensor) -> None:
        """Collects raw features ``(..., num_features)`` for the next `update`."""
        wide = features.reshape(-1, features.shape[-1]).double()
        self.pending[0] += len(wide)
        self.pending[1] += wide.sum(0)
        self.pending[2] += wide.square_().sum(0)

    @property
    def has_pending(self) -> bool:
        """Whether anything was observed since the last `update`."""
        return bool(self.pending[0, 0])

    @th.no_grad()
    def update(self) -> None:
        """Adds what was observed since the last update to the statistics; does nothing if nothing was."""
        if not self.has_pending:
            return
        pending_count, total, squares = self.pending
        mean, square = self.mean.double(), self.variance.double() + self.mean.double().square()
        count = self.count + pending_count[0]
        new_mean = (mean * self.count + total) / count
        new_variance = (square * self.count + squares) / count - new_mean.square()
        self.mean.copy_(new_mean)
        self.variance.copy_(new_variance.clamp(min=0.0))
        self.count.copy_(count)
        self.pending.zero_()


@dataclass(frozen=True)
class FrameStatistics:
    """What `RunningNormalizer` knew at one moment of the first features of a frame, for what needs no network.

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
