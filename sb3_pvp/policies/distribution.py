"""The joint distribution of all heads behind the face that sb3-contrib's policies give theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch as th
from sb3_contrib.common.maskable.distributions import MaskableDistribution, MaybeMasks
from torch import nn

from sb3_pvp.policies.heads import AutoregressiveHeads
from sb3_pvp.policies.sampling import HeadSampler


class AutoregressiveDistribution(MaskableDistribution):
    """Distribution of joint actions ``(batch, heads)``, for the trunk's output ``(batch, num_inputs)``.

    Everything is allowed until `apply_masking`. Entropies are those given the actions of the last `log_prob`, and
    ``deterministic`` may say for each head whether it samples.
    """

    _entropies: th.Tensor

    def __init__(self, heads: AutoregressiveHeads, sampler: HeadSampler) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._heads, self._sampler = heads, sampler

    def proba_distribution_net(self, *args: Any, **kwargs: Any) -> nn.Module:
        return self._heads

    def proba_distribution(self, latent: th.Tensor) -> AutoregressiveDistribution:
        self._latent = latent
        self.apply_masking(None)
        return self

    def apply_masking(self, masks: MaybeMasks) -> None:
        """Takes flat masks ``(batch, A)``; ``None`` allows everything."""
        shape = (len(self._latent), self._heads.rules.num_flat)
        allowed = th.ones(shape) if masks is None else th.as_tensor(masks)
        self._masks = allowed.to(self._latent.device).bool().reshape(shape)

    def log_prob(self, actions: th.Tensor) -> th.Tensor:
        actions = actions.long().reshape(len(self._latent), -1)
        log_probs, self._entropies = self._heads(self._latent, self._masks, actions)
        joint: th.Tensor = log_probs.sum(1)
        return joint

    def entropy(self) -> th.Tensor:
        joint: th.Tensor = self._entropies.sum(1)
        return joint

    def sample(self) -> th.Tensor:
        return self.get_actions(deterministic=False)

    def mode(self) -> th.Tensor:
        return self.get_actions(deterministic=True)

    def get_actions(self, deterministic: bool | Sequence[bool] = False) -> th.Tensor:
        return self._sampler.act(self._latent, self._masks, deterministic)[0]

    def actions_from_params(self, latent: th.Tensor, deterministic: bool = False) -> th.Tensor:
        return self.proba_distribution(latent).get_actions(deterministic)

    def log_prob_from_params(self, latent: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        actions = self.actions_from_params(latent)
        return actions, self.log_prob(actions)
