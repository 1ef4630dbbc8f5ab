"""The networks of several heads, computed together."""

from __future__ import annotations

from collections.abc import Sequence

import torch as th
from torch import nn

from sb3_pvp.policies.layers import Layer, after_linear

# Rows that go through a head's layers together. More would be padded where few rows have a choice, with fewer the
# weights would be copied too often; 64 to 256 hardly differ.
TILE = 128


class BatchedLinear(nn.Module):
    """One linear layer for each of ``num_heads`` heads."""

    def __init__(self, num_heads: int, num_inputs: int, num_outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(th.zeros(num_heads, num_inputs, num_outputs))
        self.bias = nn.Parameter(th.zeros(num_heads, 1, num_outputs))

    def forward(self, inputs: th.Tensor, heads: th.Tensor) -> th.Tensor:
        """Applies to each tile ``(tiles, rows, inputs)`` the layer of its head; ``heads`` are ints ``(tiles,)``."""
        return th.baddbmm(self.bias[heads], inputs, self.weight[heads])


class HeadGroup(nn.Module):
    """The heads of equal architecture with hidden layers; logits are padded to ``num_logits``."""

    local: th.Tensor

    def __init__(self, heads: Sequence[int], num_inputs: int, layers: Sequence[Layer], num_logits: int) -> None:
        super().__init__()
        self.heads = list(heads)
        self.register_buffer("local", _places(heads), persistent=False)
        modules: list[nn.Module] = []
        for layer in layers:
            if layer.is_linear:
                modules.append(BatchedLinear(len(heads), num_inputs, layer.size))
                num_inputs = layer.size
            modules += after_linear(layer)
        modules.append(BatchedLinear(len(heads), num_inputs, num_logits))
        self.network = nn.ModuleList(modules)

    def forward(
        self, latent: th.Tensor, extra: th.Tensor, visible: th.Tensor, heads: th.Tensor, rows: th.Tensor
    ) -> th.Tensor:
        """Logits ``(choices, num_logits)`` of single choices.

        Args:
            latent: ``(batch, trunk)``.
            extra: ``(batch, extra inputs)``.
            visible: ``(all heads, extra inputs)``, which of those each head sees.
            heads: the head of each choice, int ``(choices,)``, ascending; all of them in this group.
            rows: the row of the batch of each choice, int ``(choices,)``.
        """
        tile_heads, slots = tiles(self.local[heads], len(self.heads))
        tile_rows = rows.new_zeros(len(tile_heads), TILE)
        tile_rows.view(-1)[slots] = rows
        visible = visible[self.heads][tile_heads][:, None]
        hidden = th.cat([latent[tile_rows], extra[tile_rows] * visible], 2)
        for module in self.network:
            hidden = module(hidden, tile_heads) if isinstance(module, BatchedLinear) else module(hidden)
        return hidden.flatten(0, 1)[slots]

    def linear_layers(self) -> list[BatchedLinear]:
        """The batched layers in order; the last one makes the logits."""
        return [module for module in self.network if isinstance(module, BatchedLinear)]


class JointLogits(nn.Module):
    """The heads without hidden layers: one matrix makes the logits of all of them.

    Attributes:
        rows: for each head the rows of the matrix.
    """

    columns: th.Tensor
    row_heads: th.Tensor
    local: th.Tensor

    def __init__(self, heads: Sequence[int], num_inputs: int, sizes: Sequence[int], num_logits: int) -> None:
        super().__init__()
        self.heads = list(heads)
        self.register_buffer("local", _places(heads), persistent=False)
        self.weight = nn.Parameter(th.zeros(sum(sizes), num_inputs))
        self.bias = nn.Parameter(th.zeros(sum(sizes)))
        self.rows = [slice(sum(sizes[:index]), sum(sizes[: index + 1])) for index in range(len(sizes))]
        columns = th.full((len(heads), num_logits), sum(sizes))
        for index, rows in enumerate(self.rows):
            columns[index, : sizes[index]] = th.arange(rows.start, rows.stop)
        self.register_buffer("columns", columns, persistent=False)
        row_heads = [head for head, size in zip(heads, sizes, strict=True) for _ in range(size)]
        self.register_buffer("row_heads", th.tensor(row_heads, dtype=th.int64), persistent=False)

    def forward(
        self, latent: th.Tensor, extra: th.Tensor, visible: th.Tensor, heads: th.Tensor, rows: th.Tensor
    ) -> th.Tensor:
        """Logits ``(choices, num_logits)`` of single choices; arguments as of `HeadGroup`."""
        of_latent, of_extra = th.split(self.weight, [latent.shape[1], extra.shape[1]], 1)
        logits = th.addmm(self.bias, latent, of_latent.T) + extra @ (of_extra * visible[self.row_heads]).T
        return nn.functional.pad(logits, (0, 1))[rows[:, None], self.columns[self.local[heads]]]


def tiles(heads: th.Tensor, num_heads: int, size: int = TILE) -> tuple[th.Tensor, th.Tensor]:
    """Cuts choices into tiles of one head each; the last tile of a head need not be full.

    Args:
        heads: the head of each choice, int ``(choices,)``, ascending.
        num_heads: how many heads there are.
        size: choices that fit into a tile.

    Returns:
        The head of each tile, int ``(tiles,)``, and where each choice lies in the tiles laid end to end, int
        ``(choices,)``.
    """
    counts = heads.bincount(minlength=num_heads)
    tiles_of_head = (counts + size - 1) // size
    tile_heads = th.repeat_interleave(th.arange(num_heads, device=heads.device), tiles_of_head)
    # Every head leaves this many slots empty before the first choice of the next one.
    gaps = tiles_of_head * size - counts
    slots = th.arange(len(heads), device=heads.device) + (gaps.cumsum(0) - gaps)[heads]
    return tile_heads, slots


def _places(heads: Sequence[int]) -> th.Tensor:
    """The place of each head in the list, at the position of the head; 0 for those that are not in it."""
    places = th.zeros(max(heads, default=-1) + 1, dtype=th.int64)
    places[list(heads)] = th.arange(len(heads))
    return places
