"""Masked multi-discrete actions whose heads may depend on each other, computed for all heads at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from sb3_contrib.common.maskable.distributions import MaskableDistribution, MaybeMasks
from torch import nn

from sb3_pvp.contract import Contract, DependencyTables

FORBIDDEN = -1e8


class DependencyRules(nn.Module):
    """Which sub-actions remain allowed once others are chosen (contract.md §2.3), for batches of joint actions.

    ``contract`` may be ``None`` for an action space without dependencies. All tables are flat: entry ``a`` is the
    sub-action at offset ``a`` of the concatenated heads.
    """

    offsets: th.Tensor
    columns: th.Tensor
    require_all: th.Tensor
    require_any: th.Tensor
    require_none: th.Tensor
    num_all: th.Tensor
    without_any: th.Tensor

    def __init__(self, head_sizes: tuple[int, ...], contract: Contract | None = None) -> None:
        super().__init__()
        self.num_heads, self.num_flat = len(head_sizes), sum(head_sizes)
        offsets = np.cumsum((0, *head_sizes[:-1]))
        # Column of every (head, sub-action) in the flat layout; heads are padded with the extra column `num_flat`.
        columns = np.full((self.num_heads, max(head_sizes)), self.num_flat)
        for head, (offset, size) in enumerate(zip(offsets, head_sizes, strict=True)):
            columns[head, :size] = np.arange(offset, offset + size)
        self._table("offsets", offsets)
        self._table("columns", columns)
        tables = (
            contract.dependencies if contract else DependencyTables(*np.zeros((3, self.num_flat, self.num_flat), bool))
        )
        self._table("num_all", tables.require_all.sum(1).astype(np.float32))
        self._table("without_any", tables.require_any.sum(1) == 0)
        # The choice of a head's own entries comes after its mask, so rules see other heads only.
        head_of = np.repeat(np.arange(self.num_heads), head_sizes)
        elsewhere = head_of[:, None] != head_of
        for name in ("require_all", "require_any", "require_none"):
            self._table(name, (getattr(tables, name) & elsewhere).astype(np.float32))
        #: How often choices have to be repeated until every head has seen the heads that it depends on.
        self.depth = 1 + _longest_chain(tables.require_all | tables.require_any | tables.require_none, head_of)

    def _table(self, name: str, values: NDArray[Any]) -> None:
        # Not saved with the weights: they follow from the contract.
        self.register_buffer(name, th.as_tensor(values), persistent=False)

    def allowed(self, masks: th.Tensor, actions: th.Tensor) -> th.Tensor:
        """Masks ``(batch, heads, widest head)`` of what each head may choose, given ``actions`` ``(batch, heads)``.

        Where nothing is left, entry 0 is allowed. Padding is never allowed.
        """
        chosen = masks.new_zeros(len(actions), self.num_flat, dtype=th.float32)
        chosen.scatter_(1, actions + self.offsets, 1.0)
        has_all = chosen @ self.require_all.T == self.num_all
        has_any = (chosen @ self.require_any.T > 0) | self.without_any
        has_none = chosen @ self.require_none.T == 0
        padded = self.pad(masks & has_all & has_any & has_none, fill=False)
        padded[..., 0] |= ~padded.any(-1)
        return padded

    def pad(self, flat: th.Tensor, fill: float) -> th.Tensor:
        """Brings flat values ``(batch, flat actions)`` into the shape ``(batch, heads, widest head)``."""
        return nn.functional.pad(flat, (0, 1), value=fill)[:, self.columns]


class DependentMultiCategorical(MaskableDistribution):
    """One categorical distribution per head, each conditioned on the choices of earlier heads through the masks.

    Logits do not depend on other heads, only the set of allowed entries does. Equal to sampling head after head,
    but without a loop over heads: the noise of the Gumbel trick is drawn once, and choosing is repeated until the
    choices of all earlier heads are known (twice for NhEnv, whose dependencies are one level deep).
    """

    def __init__(self, rules: DependencyRules) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.rules = rules

    def proba_distribution_net(self, latent_dim: int) -> nn.Module:
        """A linear layer that makes the flat logits of all heads."""
        return nn.Linear(latent_dim, self.rules.num_flat)

    def proba_distribution(self, action_logits: th.Tensor) -> DependentMultiCategorical:
        """Takes flat logits ``(batch, flat actions)``; everything is allowed until `apply_masking`."""
        self.logits = self.rules.pad(action_logits, fill=FORBIDDEN)
        self.masks = th.ones_like(action_logits, dtype=th.bool)
        return self

    def apply_masking(self, masks: MaybeMasks) -> None:
        """Takes flat masks ``(batch, flat actions)``; ``None`` allows everything."""
        flat = th.ones_like(self.masks) if masks is None else th.as_tensor(masks, device=self.masks.device).bool()
        self.masks = flat.reshape(self.masks.shape)

    def log_prob(self, actions: th.Tensor) -> th.Tensor:
        """Log-probabilities ``(batch,)`` of joint actions ``(batch, heads)``."""
        actions = actions.long().reshape(-1, self.rules.num_heads)
        # The entropy that `MaskablePPO` asks for next is the one along these choices.
        self._log_probs = self._conditional_log_probs(actions)
        return self._log_probs.gather(-1, actions[..., None]).squeeze(-1).sum(-1)

    def entropy(self) -> th.Tensor:
        """Sum over heads ``(batch,)`` of the entropy given the actions of the last `log_prob`."""
        return -(self._log_probs.exp() * self._log_probs).sum((-1, -2))

    def sample(self) -> th.Tensor:
        """Random legal joint actions ``(batch, heads)``."""
        noise = -th.empty_like(self.logits).exponential_().log()
        return self._choose(self.logits + noise)

    def mode(self) -> th.Tensor:
        """The most likely entry of each head in turn, ``(batch, heads)``."""
        return self._choose(self.logits)

    def actions_from_params(self, action_logits: th.Tensor, deterministic: bool = False) -> th.Tensor:
        """Legal joint actions ``(batch, heads)`` when nothing is masked."""
        return self.proba_distribution(action_logits).get_actions(deterministic=deterministic)

    def log_prob_from_params(self, action_logits: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Joint actions ``(batch, heads)`` and their log-probabilities when nothing is masked."""
        actions = self.actions_from_params(action_logits)
        return actions, self.log_prob(actions)

    def _choose(self, scores: th.Tensor) -> th.Tensor:
        actions = th.zeros(scores.shape[:2], dtype=th.int64, device=scores.device)
        for _ in range(self.rules.depth):
            actions = scores.masked_fill(~self.rules.allowed(self.masks, actions), FORBIDDEN).argmax(-1)
        return actions

    def _conditional_log_probs(self, actions: th.Tensor) -> th.Tensor:
        allowed = self.rules.allowed(self.masks, actions)
        return self.logits.masked_fill(~allowed, FORBIDDEN).log_softmax(-1)


def _longest_chain(depends_on: NDArray[np.bool_], head_of: NDArray[np.int64]) -> int:
    """Length of the longest chain of heads that depend on each other; 0 without dependencies."""
    chain = np.zeros(head_of.max() + 1, int)
    for action, other in np.argwhere(depends_on):  # ascending: a head comes after all that it depends on
        chain[head_of[action]] = max(chain[head_of[action]], chain[head_of[other]] + 1)
    return int(chain.max())
