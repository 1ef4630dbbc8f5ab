"""Statistics that are part of the policy, so that a saved model needs no file beside it (training.md §3.8, §4, §5)."""

from __future__ import annotations

import torch as th
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
