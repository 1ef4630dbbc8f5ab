"""`ResidualPlanes`, a features extractor for boards."""

from __future__ import annotations

from typing import Any

import torch as th
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

from sb3_pvp.policies.features import OBSERVATION, frames_of

_MOST_BLOCKS = 1024  #: Each takes time and memory, whatever its weights are, and a stranger's file says how many.


class ResidualPlanes(BaseFeaturesExtractor):
    """Residual convolutions over the planes of a board, which are the first axis; frames are further planes.

    There is no normalisation between layers: what it says about one board depends on no other.

    Args:
        observation_space: a Box of three axes, or four with frames; or a Dict with it as ``"observation"``.
        channels: of every convolution.
        blocks: two convolutions of 3 x 3 each, whose output is added to their input; at most 1024.
        features_dim: the number of outputs.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        channels: int = 64,
        blocks: int = 4,
        features_dim: int = 256,
    ) -> None:
        frames, shape = frames_of(observation_space)
        if len(shape) != 3:
            raise ValueError(f"ResidualPlanes takes planes, an array of three axes, not {shape}")
        if blocks > _MOST_BLOCKS:
            raise ValueError(f"ResidualPlanes has at most {_MOST_BLOCKS} blocks, not {blocks}")
        super().__init__(observation_space, features_dim)
        self.planes = (frames * shape[0], *shape[1:])
        self.first = nn.Conv2d(self.planes[0], channels, 3, padding=1)
        self.blocks = nn.ModuleList(_Block(channels) for _ in range(blocks))
        self.last = nn.Linear(channels * shape[1] * shape[2], features_dim)

    def forward(self, observations: th.Tensor | dict[str, th.Tensor]) -> th.Tensor:
        """Returns features ``(batch, features_dim)``."""
        seen = observations[OBSERVATION] if isinstance(observations, dict) else observations
        board = self.first(seen.float().reshape(-1, *self.planes)).relu()
        for block in self.blocks:
            board = block(board)
        features: th.Tensor = self.last(board.flatten(1)).relu()
        return features


class _Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        # It begins as nothing, so that deep networks learn from the start.
        for weights in self.second.parameters():
            nn.init.zeros_(weights)

    def forward(self, board: th.Tensor) -> th.Tensor:
        added: th.Tensor = board + self.second(self.first(board).relu())
        return added.relu()
