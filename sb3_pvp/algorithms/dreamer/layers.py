"""Layers of DreamerV3: linear in blocks, root-mean-square norms, and their initial weights (dreamer.md §5.3)."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TypeVar

import torch as th
from torch import nn
from torch.nn import functional as F

L = TypeVar("L", "nn.Linear", "nn.Conv2d", "BlockLinear")
#: What the norms add to the mean square.
NORM_EPS = 1e-4


def initialized(layer: L, inputs: int, scale: float = 1.0) -> L:
    """Draws weights: normal, cut at two standard deviations, of variance ``scale² / inputs``; biases are 0."""
    # 1.1368 makes up for the variance that is cut off.
    std = 1.1368 * math.sqrt(1 / inputs) * scale
    if scale:
        nn.init.trunc_normal_(layer.weight, std=std, a=-2 * std, b=2 * std)
    else:
        nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)  # type: ignore[arg-type]  # all have a bias
    return layer


def linear(inputs: int, outputs: int, scale: float = 1.0) -> nn.Linear:
    """Returns a linear layer; with ``scale`` 0 its outputs start at 0."""
    return initialized(nn.Linear(inputs, outputs), inputs, scale)


def convolution(channels: int, outputs: int) -> nn.Conv2d:
    """Returns a convolution of 5 x 5 pixels that keeps height and width."""
    return initialized(nn.Conv2d(channels, outputs, 5, padding=2), 25 * channels)


class BlockLinear(nn.Module):
    """A linear layer in ``blocks`` groups: each part of the inputs gives the same part of the outputs."""

    def __init__(self, inputs: int, outputs: int, blocks: int) -> None:
        super().__init__()
        self.blocks = blocks
        self.weight = nn.Parameter(th.empty(blocks, inputs // blocks, outputs // blocks))
        self.bias = nn.Parameter(th.empty(outputs))
        # The whole width counts as inputs, as in the original, not that of a block.
        initialized(self, inputs)

    def of_blocks(self, x: th.Tensor) -> th.Tensor:
        """Returns ``(blocks, n, outputs of a block)`` of ``(n, blocks, inputs of a block)``."""
        return th.baddbmm(self.bias.view(self.blocks, 1, -1), x.transpose(0, 1), self.weight)

    def forward(self, x: th.Tensor) -> th.Tensor:
        """Returns ``(…, outputs)`` of ``(…, inputs)``."""
        outputs = self.of_blocks(x.reshape(-1, self.blocks, self.weight.shape[1]))
        return outputs.transpose(0, 1).reshape(*x.shape[:-1], -1)


class NormedLayer(nn.Module):
    """A linear layer or convolution, ``RMSNorm`` and ``SiLU``; ``pool`` halves height and width before the norm."""

    def __init__(self, layer: nn.Linear | nn.Conv2d | BlockLinear, pool: bool = False) -> None:
        super().__init__()
        self.layer = layer
        self.pool = pool
        self.norm = nn.RMSNorm(len(layer.bias), eps=NORM_EPS)  # type: ignore[arg-type]  # all have a bias

    def forward(self, x: th.Tensor) -> th.Tensor:
        """Returns the layer's outputs."""
        x = self.layer(x)
        if not isinstance(self.layer, nn.Conv2d):
            return F.silu(self.norm(x))
        x = F.max_pool2d(x, 2) if self.pool else x
        return F.silu(self.norm(x.movedim(-3, -1)).movedim(-1, -3))


def multi_layer(inputs: int, units: int, layers: int, outputs: int = 0, scale: float = 1.0) -> nn.Sequential:
    """Returns ``layers`` normed layers of ``units`` each, and then, with ``outputs``, a linear one."""
    network = nn.Sequential(*(NormedLayer(linear(*sides)) for sides in pairwise([inputs, *[units] * layers])))
    if outputs:
        network.add_module("output", linear(units, outputs, scale))
    return network
