"""One learning phase of PPO: losses, accumulated gradients and what there is to tell about them (training.md §7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch as th
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from torch.nn import functional as F

from sb3_pvp.ppo.minibatches import Samples

#: What is averaged over the mini-batches of a learning phase; the entropy losses of the heads follow.
TERMS = ("policy_gradient_loss", "value_loss", "entropy_loss", "loss", "clip_fraction", "kl")
KL = TERMS.index("kl")


@dataclass
class UpdateLog:
    """What a learning phase measured; tensors, so that nothing waits for the device before the end."""

    terms: list[th.Tensor] = field(default_factory=list)
    grad_norms: list[th.Tensor] = field(default_factory=list)
    epoch_starts: list[int] = field(default_factory=list)

    def figures(self, head_ids: Sequence[object] | None = None) -> dict[str, float]:
        """Means over all mini-batches, by their tags without ``train/``; nothing if there were none.

        The heads are numbered unless they have ids.
        """
        if not self.terms:
            return {}
        terms = th.stack(self.terms)
        means = terms.mean(0).tolist()
        heads = head_ids or range(len(means) - len(TERMS))
        figures = dict(zip((*TERMS, *(f"entropy_loss/{head}" for head in heads)), means, strict=False))
        figures["approx_kl"] = float(terms[self.epoch_starts[-1] :, KL].mean())
        if self.grad_norms:
            figures["grad_norm"] = float(th.stack(self.grad_norms).mean())
        return figures


@dataclass(frozen=True)
class PpoUpdate:
    """The numbers of one learning phase, named as SB3's hyperparameters are."""

    policy: MaskableActorCriticPolicy
    batch_size: int | None
    clip_range: float
    clip_range_vf: float | None
    normalize_advantage: bool
    ent_coef: float
    vf_coef: float
    max_grad_norm: float
    gradient_accumulation_steps: int
    target_kl: float | None

    def run(self, samples: Samples, n_epochs: int) -> UpdateLog:
        """Learns from the samples; ends early once the KL estimate of a mini-batch exceeds 1.5 times ``target_kl``.

        Gradients of mini-batches are gathered across the borders of epochs; what is left of them at the end is dropped
        (training.md §7.3).
        """
        log = UpdateLog()
        self.policy.optimizer.zero_grad()
        for _ in range(n_epochs):
            log.epoch_starts.append(len(log.terms))
            for batch in samples.minibatches(self.batch_size):
                loss = self._loss(batch, log)
                if self.target_kl is not None and log.terms[-1][KL] > 1.5 * self.target_kl:
                    self.policy.optimizer.zero_grad()
                    return log
                (loss / self.gradient_accumulation_steps).backward()  # type: ignore[no-untyped-call]
                if len(log.terms) % self.gradient_accumulation_steps == 0:
                    self._step(log)
        self.policy.optimizer.zero_grad()
        return log

    def figures(self) -> dict[str, float]:
        """The numbers, by their tags without ``train/``."""
        figures = {
            "grad_accum": self.gradient_accumulation_steps,
            "max_grad_norm": self.max_grad_norm,
            "entropy_coef": self.ent_coef,
            "vf_coef": self.vf_coef,
            "clip_coef": self.clip_range,
            "clip_range": self.clip_range,
        }
        return figures if self.clip_range_vf is None else figures | {"clip_range_vf": self.clip_range_vf}

    def _step(self, log: UpdateLog) -> None:
        log.grad_norms.append(th.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm))
        self.policy.optimizer.step()
        self.policy.optimizer.zero_grad()

    def _loss(self, batch: Samples, log: UpdateLog) -> th.Tensor:
        """The loss of one mini-batch, a scalar (training.md §7.2), in the very order of SB3's operations."""
        values, log_probs, entropies, head_entropies = self._evaluate(batch)
        log_ratios = log_probs - batch.old_log_probs
        ratios = th.exp(log_ratios)
        policy_loss = self._policy_loss(ratios, batch.advantages)
        value_loss = F.mse_loss(batch.returns, self._limited(values, batch.old_values))
        # Where the entropy has no formula, the surprise at the action taken stands in for it.
        entropy_loss = -th.mean(-log_probs if entropies is None else entropies)
        loss = policy_loss + self.ent_coef * entropy_loss + self.vf_coef * value_loss
        with th.no_grad():
            clip_fraction = th.mean((th.abs(ratios - 1) > self.clip_range).float())
            kl = th.mean((ratios - 1) - log_ratios)
            terms = th.stack([policy_loss, value_loss, entropy_loss, loss, clip_fraction, kl])
            log.terms.append(th.cat([terms, -head_entropies.mean(0)]))
        return loss

    def _evaluate(self, batch: Samples) -> tuple[th.Tensor, th.Tensor, th.Tensor | None, th.Tensor]:
        """Values, log-probabilities and entropies ``(batch,)``, and the entropies of the heads ``(batch, heads)``.

        A policy without ``evaluate_heads`` tells no heads apart: then the last has no columns.
        """
        given: Any = (batch.observations, batch.actions, batch.action_masks)
        evaluate_heads = getattr(self.policy, "evaluate_heads", None)
        if evaluate_heads is not None:
            values, log_probs, entropies = evaluate_heads(*given)
            return values.flatten(), log_probs.sum(1), entropies.sum(1), entropies
        values, log_probs, entropy = self.policy.evaluate_actions(*given)
        return values.flatten(), log_probs, entropy, values.new_zeros(len(batch), 0)

    def _policy_loss(self, ratios: th.Tensor, advantages: th.Tensor) -> th.Tensor:
        if self.normalize_advantage and len(advantages) > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        clipped = th.clamp(ratios, 1 - self.clip_range, 1 + self.clip_range)
        return -th.min(advantages * ratios, advantages * clipped).mean()

    def _limited(self, values: th.Tensor, old_values: th.Tensor) -> th.Tensor:
        """The values, kept near the old ones if there is a ``clip_range_vf``."""
        if self.clip_range_vf is None:
            return values
        return old_values + th.clamp(values - old_values, -self.clip_range_vf, self.clip_range_vf)
