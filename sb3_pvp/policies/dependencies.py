"""Which sub-actions remain allowed once earlier heads have chosen, for batches of joint actions (contract.md §2.3)."""

from __future__ import annotations

import numpy as np
import torch as th
from torch import nn

from sb3_pvp.contract import DependencyTables

FORBIDDEN = -1e8
# Entry 0 is the choice of a head that has no legal one (training.md §3.6). It is forbidden too, but less so than the
# others: next to a legal entry it has no chance, and without one it has them all. So nobody has to test for that.
FORBIDDEN_FIRST = -1e4


class DependencyRules(nn.Module):
    """Rules between heads as tables over flat entries; entry ``a`` is the sub-action at offset ``a`` of all heads.

    The tables are buffers: a saved policy needs no contract. ``tables`` may be ``None``: no rules.

    Attributes:
        forbids: float ``(A, A)``: how many rules forbid the entry of a column once that of a row is chosen.
        permits: float ``(A, A)``: 1 where choosing the row satisfies a ``require_any`` of the column.
        columns: int ``(heads, widest head)``: flat entry of each sub-action; ``A`` where a head has fewer.
        membership: float ``(A, heads)``: 1 where an entry belongs to a head.
    """

    forbids: th.Tensor
    permits: th.Tensor
    asks_any: th.Tensor
    penalties: th.Tensor
    columns: th.Tensor
    offsets: th.Tensor
    membership: th.Tensor

    def __init__(self, head_sizes: tuple[int, ...], tables: DependencyTables | None = None) -> None:
        super().__init__()
        self.head_sizes, self.num_flat, self.widest = head_sizes, sum(head_sizes), max(head_sizes)
        self.starts = tuple(int(start) for start in np.cumsum((0, *head_sizes[:-1])))
        tables = tables or DependencyTables(*np.zeros((3, self.num_flat, self.num_flat), np.bool_))
        penalties = np.full(self.num_flat, FORBIDDEN, np.float32)
        penalties[list(self.starts)] = FORBIDDEN_FIRST
        columns = np.full((len(head_sizes), self.widest), self.num_flat)
        for head, (start, size) in enumerate(zip(self.starts, head_sizes, strict=True)):
            columns[head, :size] = np.arange(start, start + size)
        membership = np.eye(len(head_sizes), dtype=np.float32).repeat(head_sizes, axis=0)
        # An entry that requires a sub-action is forbidden by every other choice of that head.
        others = membership @ membership.T - np.eye(self.num_flat)
        forbids = others @ tables.require_all.T + tables.require_none.T
        self.register_buffer("forbids", th.as_tensor(forbids, dtype=th.float32))
        self.register_buffer("permits", th.as_tensor(tables.require_any.T.astype(np.float32)))
        self.register_buffer("asks_any", th.as_tensor(tables.require_any.any(1)))
        starts = np.array(self.starts)
        derived = {"penalties": penalties, "columns": columns, "offsets": starts, "membership": membership}
        for name, values in derived.items():
            self.register_buffer(name, th.as_tensor(values), persistent=False)

    def one_hot(self, actions: th.Tensor) -> th.Tensor:
        """Concatenated one-hot encodings, float ``(batch, A)``, of joint actions, int ``(batch, heads)``."""
        encoded = self.forbids.new_zeros(len(actions), self.num_flat)
        return encoded.scatter_(1, actions + self.offsets, 1.0)

    def penalty(self, masks: th.Tensor, chosen: th.Tensor) -> th.Tensor:
        """What is added to the flat logits: 0 where allowed, else hugely negative; float ``(batch, A)``.

        Args:
            masks: bool ``(batch, A)``, what the environment allows.
            chosen: one-hot encodings ``(batch, A)`` of all heads' choices; rules name earlier heads only.
        """
        legal = masks & (chosen @ self.forbids == 0)
        if self.has_any:
            legal &= (chosen @ self.permits > 0) | ~self.asks_any
        return th.where(legal, 0.0, self.penalties)

    def num_legal(self, penalty: th.Tensor) -> th.Tensor:
        """How many legal entries each head has, float ``(batch, heads)``, given the penalties ``(batch, A)``."""
        return (penalty == 0).float() @ self.membership

    def log_probs_without_choice(self, penalty: th.Tensor, num_legal: th.Tensor, actions: th.Tensor) -> th.Tensor:
        """Log-probabilities ``(batch, heads)`` of actions where heads have no choice: 0, or hugely negative."""
        own = penalty.gather(1, actions + self.offsets)
        return own - FORBIDDEN_FIRST * (num_legal == 0)

    def pick(self, flat: th.Tensor, heads: th.Tensor, rows: th.Tensor) -> th.Tensor:
        """The flat values ``(batch, A)`` of these choices, ``(choices, widest head)``; what pads is forbidden."""
        return nn.functional.pad(flat, (0, 1), value=FORBIDDEN)[rows[:, None], self.columns[heads]]

    @staticmethod
    def open_choices(num_legal: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Where a head has more than one legal entry: heads and rows, ints ``(choices,)`` each, in order of heads."""
        heads, rows = (num_legal.T > 1).nonzero().unbind(1)
        return heads, rows

    @property
    def has_any(self) -> bool:
        """Whether there are rules that ask for one of several choices."""
        return bool(self.asks_any.any())
