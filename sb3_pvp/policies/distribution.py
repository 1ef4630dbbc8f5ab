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
    """Distribution of joint actions ``(batch, heads)``; everything is allowed until `apply_masking`."""

    def __init__(self, heads: AutoregressiveHeads, sampler: HeadSampler) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._heads, self._sampler = heads, sampler

    def proba_distribution_net(self, *args: Any, **kwargs: Any) -> nn.Module:
        """The heads: from the trunk's output to the logits."""
        return self._heads

    def proba_distribution(self, latent: th.Tensor) -> AutoregressiveDistribution:
        """Takes the trunk's output ``(batch, num_inputs)``."""
        self._latent = latent
        self.apply_masking(None)
        return self

    def apply_masking(self, masks: MaybeMasks) -> None:
        """Takes flat masks ``(batch, A)``; ``None`` allows everything."""
        shape = (len(self._latent), self._heads.rules.num_flat)
        if masks is None:
            self._masks = th.ones(shape, dtype=th.bool, device=self._latent.device)
        else:
            self._masks = th.as_tensor(masks, device=self._latent.device).bool().reshape(shape)

    _entropies: th.Tensor

    def log_prob(self, actions: th.Tensor) -> th.Tensor:
        """Log-probabilities ``(batch,)`` of joint actions ``(batch, heads)``."""
        actions = actions.long().reshape(len(self._latent), -1)
        # The entropy that is asked for next is the one along these choices.
        log_probs, self._entropies = self._heads(self._latent, self._masks, actions)
        joint: th.Tensor = log_probs.sum(1)
        return joint

    def entropy(self) -> th.Tensor:
        """Sum over heads ``(batch,)`` of the entropies given the actions of the last `log_prob`."""
        joint: th.Tensor = self._entropies.sum(1)
        return joint

    def sample(self) -> th.Tensor:
        """Random legal joint actions ``(batch, heads)``."""
        return self.get_actions(deterministic=False)

    def mode(self) -> th.Tensor:
        """The most likely entry of each head in turn, ``(batch, heads)``."""
        return self.get_actions(deterministic=True)

    def get_actions(self, deterministic: bool | Sequence[bool] = False) -> th.Tensor:
        """Legal joint actions ``(batch, heads)``; ``deterministic`` may say for each head whether it samples."""
        return self._sampler.act(self._latent, self._masks, deterministic)[0]

    def actions_from_params(self, latent: th.Tensor, deterministic: bool = False) -> th.Tensor:
        """Joint actions ``(batch, heads)`` when nothing is masked."""
        return self.proba_distribution(latent).get_actions(deterministic)

    def log_prob_from_params(self, latent: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Joint actions ``(batch, heads)`` and their log-probabilities when nothing is masked."""
        actions = self.actions_from_params(latent)
        return actions, self.log_prob(actions)
