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

    def __init__(self, heads: Sequence[int], num_inputs: int, layers: Sequence[Layer], num_logits: int) -> None:
        super().__init__()
        self.heads = list(heads)
        modules: list[nn.Module] = []
        for layer in layers:
            if layer.is_linear:
                modules.append(BatchedLinear(len(heads), num_inputs, layer.size))
                num_inputs = layer.size
            modules += after_linear(layer)
        modules.append(BatchedLinear(len(heads), num_inputs, num_logits))
        self.network = nn.ModuleList(modules)
        self.num_logits = num_logits

    def forward(self, latent: th.Tensor, extra: th.Tensor, visible: th.Tensor, has_choice: th.Tensor) -> th.Tensor:
        """Logits ``(batch, heads, num_logits)`` where ``has_choice``, bool ``(batch, heads)``; zeros elsewhere.

        Args:
            latent: ``(batch, trunk)``.
            extra: ``(batch, extra inputs)``.
            visible: ``(heads, extra inputs)``, which of those each head sees.
            has_choice: bool ``(batch, heads)``.
        """
        heads, rows, used = tiles(has_choice)
        hidden = th.cat([latent[rows], extra[rows] * visible[heads][:, None]], 2)
        for module in self.network:
            hidden = module(hidden, heads) if isinstance(module, BatchedLinear) else module(hidden)
        logits = latent.new_zeros(*has_choice.shape, self.num_logits)
        return logits.index_put((rows[used], heads[:, None].expand_as(rows)[used]), hidden[used])

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

    def __init__(self, heads: Sequence[int], num_inputs: int, sizes: Sequence[int], num_logits: int) -> None:
        super().__init__()
        self.heads = list(heads)
        self.weight = nn.Parameter(th.zeros(sum(sizes), num_inputs))
        self.bias = nn.Parameter(th.zeros(sum(sizes)))
        starts = [sum(sizes[:index]) for index in range(len(sizes))]
        self.rows = [slice(start, start + size) for start, size in zip(starts, sizes, strict=True)]
        columns = th.full((len(heads), num_logits), sum(sizes))
        for index, rows in enumerate(self.rows):
            columns[index, : sizes[index]] = th.arange(rows.start, rows.stop)
        self.register_buffer("columns", columns, persistent=False)
        row_heads = [head for head, size in zip(heads, sizes, strict=True) for _ in range(size)]
        self.register_buffer("row_heads", th.tensor(row_heads, dtype=th.int64), persistent=False)

    def forward(self, latent: th.Tensor, extra: th.Tensor, visible: th.Tensor) -> th.Tensor:
        """Logits ``(batch, heads, num_logits)``; arguments as of `HeadGroup`, but with ``visible`` of all heads."""
        of_latent, of_extra = th.split(self.weight, [latent.shape[1], extra.shape[1]], 1)
        logits = th.addmm(self.bias, latent, of_latent.T) + extra @ (of_extra * visible[self.row_heads]).T
        return nn.functional.pad(logits, (0, 1))[:, self.columns]


def tiles(wanted: th.Tensor, size: int = TILE) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
    """Cuts the wanted rows of each head into tiles.

    Args:
        wanted: bool ``(batch, heads)``.
        size: rows of a tile.

    Returns:
        The head of each tile, int ``(tiles,)``; its rows, int ``(tiles, size)``; and which of them are used, bool
        ``(tiles, size)``: the last tile of a head is filled up with row 0.
    """
    counts = wanted.sum(0)
    tiles_of_head = (counts + size - 1) // size
    heads = th.repeat_interleave(th.arange(len(counts), device=wanted.device), tiles_of_head)
    # Place of every tile's first row within the rows of its head, and whether that row exists.
    first_tile = tiles_of_head.cumsum(0) - tiles_of_head
    places = (th.arange(len(heads), device=wanted.device) - first_tile[heads])[:, None] * size
    used = places + th.arange(size, device=wanted.device) < counts[heads][:, None]
    rows = th.zeros(used.shape, dtype=th.int64, device=wanted.device)
    rows[used] = wanted.T.nonzero()[:, 1]
    return heads, rows, used
