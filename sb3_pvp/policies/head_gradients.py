"""Functions of `AutoregressiveHeads` with gradients of their own, for the CPU: where logits go, and KL divergences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch as th
from numba import njit
from numpy.typing import NDArray
from torch.autograd.function import once_differentiable

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class FlatLogits(th.autograd.Function):
    """Flat logits ``(batch, A)`` from those of some heads, each on some rows; 0 elsewhere. Dense: `HeadGroup.forward`.

    The arguments are the size of the batch, where heads begin, int ``(heads + 1,)``, the heads, the rows of each, int
    ``(rows of the head,)``, and the logits of each ``(rows of the head, widest head)``.
    """

    @staticmethod
    def forward(
        ctx: Any, batch: int, offsets: th.Tensor, heads: Sequence[int], rows: Sequence[th.Tensor], *logits: th.Tensor
    ) -> th.Tensor:
        # In place: `index_copy` would make a copy of the whole batch for each head, and another one for its gradient.
        ends = offsets.tolist()
        ctx.places = [(ends[head], ends[head + 1], own.numpy()) for head, own in zip(heads, rows, strict=True)]
        flat = np.zeros((batch, ends[-1]), np.float32)
        for (start, stop, own), part in zip(ctx.places, logits, strict=True):
            flat[own, start:stop] = part.detach().numpy()[:, : stop - start]
        ctx.width = logits[0].shape[1]
        return th.from_numpy(flat)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: th.Tensor) -> tuple[th.Tensor | None, ...]:
        flat, parts = gradient.numpy(), []
        for start, stop, rows in ctx.places:
            part = np.zeros((len(rows), ctx.width), np.float32)
            part[:, : stop - start] = flat[rows, start:stop]
            parts.append(th.from_numpy(part))
        return None, None, None, None, *parts


class Divergences(th.autograd.Function):
    """KL divergences ``(batch, heads)`` from other distributions, with gradients for the logits.

    The arguments are flat logits ``(batch, A)``, those of the others, legal entries, bool ``(batch, A)``, the offsets
    of `DependencyRules` and the least log-probability. The reference is `AutoregressiveHeads.reference`.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: th.Tensor, others: th.Tensor, legal: th.Tensor, offsets: th.Tensor, least: float
    ) -> th.Tensor:
        ctx.starts, allowed = offsets.numpy(), legal.numpy()
        own, theirs = (part.detach().contiguous().numpy() for part in (logits, others))
        found, ctx.slopes = _divergences(own, theirs, allowed, ctx.starts, np.float32(least))
        return th.from_numpy(found)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: th.Tensor) -> tuple[th.Tensor | None, ...]:
        sizes = th.from_numpy(np.diff(ctx.starts))
        return th.from_numpy(ctx.slopes) * gradient.repeat_interleave(sizes, 1), None, None, None, None


@njit(cache=True, error_model="numpy")
def _divergences(
    logits: Floats, others: Floats, legal: Bools, offsets: Ints, least: np.float32
) -> tuple[Floats, Floats]:
    """Returns the divergences ``(batch, heads)``, and for each logit the slope of its head's one ``(batch, A)``.

    Both are 0 in heads without a choice."""
    batch, flat = logits.shape
    found, slopes = np.zeros((batch, len(offsets) - 1), np.float32), np.zeros((batch, flat), np.float32)
    differences = np.empty(flat, np.float32)
    for row in range(batch):
        for head in range(len(offsets) - 1):
            start, stop = offsets[head], offsets[head + 1]
            number, highest, theirs = 0, np.float32(-np.inf), np.float32(-np.inf)
            for entry in range(start, stop):
                if legal[row, entry]:
                    number += 1
                    highest = max(highest, logits[row, entry])
                    theirs = max(theirs, others[row, entry])
            if number < 2:
                continue
            total, of_others, divergence = np.float32(0.0), np.float32(0.0), np.float32(0.0)
            for entry in range(start, stop):
                if legal[row, entry]:
                    total += np.exp(logits[row, entry] - highest)
                    of_others += np.exp(others[row, entry] - theirs)
            total, of_others = np.log(total), np.log(of_others)
            for entry in range(start, stop):
                if legal[row, entry]:
                    own = max(logits[row, entry] - highest - total, least)
                    differences[entry] = own - max(others[row, entry] - theirs - of_others, least)
                    slopes[row, entry] = np.exp(own)
                    divergence += slopes[row, entry] * differences[entry]
            found[row, head] = divergence
            for entry in range(start, stop):
                if legal[row, entry]:
                    slopes[row, entry] *= differences[entry] - divergence
    return found, slopes
