"""Heads without hidden layers, of several policies at once.

What the choice of one entry means for the logits of later heads is then one row of a table: the heads are gone through
once for all policies, and each head costs a look-up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch as th
from numpy.typing import NDArray

from sb3_pvp.policies.heads import AutoregressiveHeads
from sb3_pvp.policies.sampling import FirstLayer


class DirectHeads:
    """The heads of one policy that does not learn any more, on the CPU.

    Args:
        heads: none has hidden layers.
        layer: what makes their logits.

    Attributes:
        key: equal for heads with the same actions and rules, which `choose` takes together.
        table: float ``(A, A)``, what choosing the entry of a row adds to the logits of later heads.
        permits: float ``(A, A)``: 1 where it permits an entry that asks for one of several choices.
        wishes: float ``(A,)``, what is added to such an entry if none of those was made; 0 for all others.
    """

    def __init__(self, heads: AutoregressiveHeads, layer: FirstLayer) -> None:
        rules = heads.rules
        self._layer = layer
        self.head_sizes, self.penalties = rules.head_sizes, rules.penalties.numpy()
        forbidden = rules.forbids * rules.penalties
        self.table = (forbidden if layer.choices is None else layer.choices + forbidden).numpy()
        self.permits = rules.permits.numpy()
        self.wishes = (rules.penalties * rules.asks_any).numpy()
        self.key = (self.head_sizes, self.permits.tobytes(), self.wishes.tobytes())

    def start(self, latent: th.Tensor, masks: th.Tensor) -> th.Tensor:
        """Logits ``(batch, A)`` before anything is chosen or forbidden."""
        return self._layer.start(latent, masks.float() if self._layer.masks is not None else latent)


def choose(
    heads: Sequence[DirectHeads], counts: Sequence[int], scores: NDArray[np.float32], masks: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Joint actions, int64 ``(batch, heads)``: head by head the best score that masks and rules allow.

    It is done by NumPy, whose calls cost half of PyTorch's where there is so little to do in each.

    Args:
        heads: of each policy; their keys are equal.
        counts: how many rows each policy has, one policy after the other.
        scores: logits and noise, float ``(batch, A)``; overwritten.
        masks: bool ``(batch, A)``.
    """
    like = heads[0]
    scores += np.where(masks, np.float32(0.0), like.penalties)
    # All tables as one: the rows of policy k begin at k * A.
    table = np.concatenate([each.table for each in heads]) if len(heads) > 1 else like.table
    first = np.repeat(np.arange(len(heads)) * len(like.table), counts)
    asks = bool(like.wishes.any())
    granted = np.zeros_like(scores)
    actions = np.zeros((len(scores), len(like.head_sizes)), np.int64)
    start = 0
    for head, size in enumerate(like.head_sizes):
        own = scores[:, start : start + size]
        if asks:
            entries = slice(start, start + size)
            own = own + like.wishes[entries] * (granted[:, entries] == 0)
        actions[:, head] = chosen = own.argmax(1)
        chosen += start
        if asks:
            granted += like.permits.take(chosen, 0)
        chosen += first
        scores += table.take(chosen, 0)
        start += size
    return actions
