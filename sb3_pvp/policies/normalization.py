"""Observation statistics that are part of the policy, so that a saved model needs no file beside it."""

from __future__ import annotations

import torch as th
from torch import nn


class RunningNormalizer(nn.Module):
    """Scales features to zero mean and unit variance, with statistics of everything the policy acted on in training.

    `observe` only collects; `update` makes it count. PPO can so act and learn from one roll-out under the same
    statistics, which keeps its probability ratio at one before the first gradient step.
    """

    mean: th.Tensor
    variance: th.Tensor
    count: th.Tensor
    _pending: th.Tensor

    def __init__(self, num_features: int, clip: float = 5.0) -> None:
        super().__init__()
        self.clip = clip
        self.register_buffer("mean", th.zeros(num_features))
        self.register_buffer("variance", th.ones(num_features))
        self.register_buffer("count", th.zeros((), dtype=th.float64))
        # Rows: number of samples (in every column), sum, sum of squares.
        self.register_buffer("_pending", th.zeros(3, num_features, dtype=th.float64), persistent=False)

    def forward(self, features: th.Tensor) -> th.Tensor:
        """Returns normalised features of the same shape ``(batch, num_features)``, within ``±clip``."""
        # What never varied so far keeps its unit: dividing by nothing would blow up its first change.
        scale = th.where(self.variance > 1e-6, self.variance, 1.0).rsqrt()
        return ((features - self.mean) * scale).clamp(-self.clip, self.clip)

    @th.no_grad()
    def observe(self, features: th.Tensor) -> None:
        """Collects a batch of raw features ``(batch, num_features)`` for the next `update`."""
        wide = features.double()
        self._pending += th.stack([th.full_like(self.mean, len(wide)), wide.sum(0), wide.square().sum(0)])

    @th.no_grad()
    def update(self) -> None:
        """Adds what was observed since the last update to the statistics; does nothing if nothing was."""
        pending_count, total, squares = self._pending
        if not pending_count[0]:
            return
        mean, square = self.mean.double(), self.variance.double() + self.mean.double().square()
        count = self.count + pending_count[0]
        new_mean = (mean * self.count + total) / count
        new_variance = (square * self.count + squares) / count - new_mean.square()
        self.mean.copy_(new_mean)
        self.variance.copy_(new_variance.clamp(min=0.0))
        self.count.copy_(count)
        self._pending.zero_()
