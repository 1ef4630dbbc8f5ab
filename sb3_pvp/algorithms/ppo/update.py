"""One learning phase of PPO: random mini-batches, losses and accumulated gradients (training.md §6.3, §7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.buffers import MaskableDictRolloutBuffer, MaskableRolloutBuffer
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.type_aliases import PyTorchObs
from stable_baselines3.common.utils import explained_variance
from torch.nn import functional as F

from sb3_pvp.algorithms.ppo.magnet import Magnet
from sb3_pvp.policies.features import map_parts
from sb3_pvp.policies.networks import FP32, ROWS_AT_ONCE, learning_in

MaskableBuffer = MaskableRolloutBuffer | MaskableDictRolloutBuffer

#: Columns of `UpdateLog.terms`; the entropy losses of the heads follow.
TERMS = ("policy_gradient_loss", "value_loss", "entropy_loss", "loss", "clip_fraction", "kl")
KL = TERMS.index("kl")


@dataclass(frozen=True)
class Samples:
    """Steps of a rollout; the first axis of every tensor is that of steps: all environments of a step, then the next.

    ``n_envs`` is the number of environments.
    """

    observations: PyTorchObs
    actions: th.Tensor
    action_masks: th.Tensor
    old_values: th.Tensor
    old_log_probs: th.Tensor
    advantages: th.Tensor
    returns: th.Tensor
    n_envs: int = 1
    #: Of a policy with memory: its states before each sequence of ``length`` steps, ``(sequences of an environment,
    #: n_envs, width)``; picked ones ``(sequences, width)``. And where episodes begin, bool ``(steps,)``.
    states: th.Tensor | None = None
    starts: th.Tensor | None = None
    magnet: th.Tensor | None = None  #: Flat logits, see `Magnet`.

    def __len__(self) -> int:
        return len(self.returns)

    def __getitem__(self, indices: th.Tensor) -> Samples:
        """Returns the steps with these indices, int64 ``(batch,)``."""
        picked = {
            name: map_parts(tensors, lambda tensor: tensor.index_select(0, indices))
            for name, tensors in vars(self).items()
            if name not in ("n_envs", "states") and tensors is not None
        }
        if self.states is not None:  # whole sequences, first the first step of each
            per_sequence = len(self) // len(self.states)
            first = indices[: len(indices) * self.n_envs // per_sequence]
            of_step = first // per_sequence * self.n_envs + first % self.n_envs
            picked["states"] = self.states.flatten(0, 1).index_select(0, of_step)
        return Samples(**picked)

    def batches(self, size: int) -> Sequence[th.Tensor]:
        """Returns the indices of mini-batches of so many steps, in random order; with memory of whole sequences."""
        if self.states is None:
            return th.split(self.shuffled(), size)
        rows = len(self) // len(self.states)  # of a sequence of all environments
        length, count = rows // self.n_envs, len(self.states) * self.n_envs
        order = th.from_numpy(np.random.permutation(count))  # noqa: NPY002  # as SB3
        first = order // self.n_envs * rows + order % self.n_envs
        steps = th.arange(length)[:, None] * self.n_envs
        parts = th.split(first.to(self.returns.device), max(1, size // length))
        return [(part + steps.to(part.device)).flatten() for part in parts]

    def shuffled(self) -> th.Tensor:
        """Returns all indices in random order, int64 ``(steps,)``, with the random numbers that SB3 uses."""
        # SB3 numbers the steps of one environment after those of another. To copy them into that order, as it does,
        # would cost as much as to collect them.
        n_steps = len(self) // self.n_envs
        numbers = np.random.permutation(len(self))  # noqa: NPY002  # as SB3
        return th.from_numpy(numbers % n_steps * self.n_envs + numbers // n_steps).to(self.returns.device)


def read_buffer(buffer: MaskableBuffer) -> Samples:
    """Returns the content of a full rollout buffer as tensors, on the CPU without copying it."""

    def tensor(array: NDArray[Any]) -> th.Tensor:
        return th.as_tensor(array.reshape(-1, *array.shape[2:]), device=buffer.device)

    actions = tensor(buffer.actions)
    return Samples(
        map_parts(buffer.observations, tensor),
        actions.long().flatten() if isinstance(buffer.action_space, spaces.Discrete) else actions,
        tensor(buffer.action_masks).bool(),
        tensor(buffer.values),
        tensor(buffer.log_probs),
        tensor(buffer.advantages),
        tensor(buffer.returns),
        buffer.n_envs,
        **({} if getattr(buffer, "memory", None) is None else _sequences(buffer)),
    )


def _sequences(buffer: Any) -> dict[str, th.Tensor]:
    """Returns the parts of `Samples` that a policy with memory has."""
    # Its last states are those after the rollout.
    states = th.as_tensor(buffer.memory[:-1], device=buffer.device)
    return {"states": states, "starts": th.as_tensor(buffer.episode_starts.reshape(-1) > 0, device=buffer.device)}


@dataclass
class UpdateLog:
    """Measurements of a learning phase; tensors, so that nothing waits for the GPU before the end."""

    terms: list[th.Tensor] = field(default_factory=list)  #: One ``(TERMS, heads and magnet_kl,)`` per mini-batch.
    grad_norms: list[th.Tensor] = field(default_factory=list)  #: One scalar per step of the optimiser.
    epoch_starts: list[int] = field(default_factory=list)  #: Index in ``terms`` where each epoch begins.

    def metrics(self, update: PpoUpdate, buffer: MaskableBuffer) -> dict[str, Any]:
        """Returns the metrics of a learning phase, by tag without ``train/``: means over all mini-batches."""
        metrics = {
            "epochs": len(self.epoch_starts),
            "num_updates": len(self.grad_norms),
            "batch_size": update.batch_size or buffer.rewards.size,
            "grad_accum": update.gradient_accumulation_steps,
            "max_grad_norm": update.max_grad_norm,
            "entropy_coef": update.ent_coef,
            "vf_coef": update.vf_coef,
            "clip_coef": update.clip_range,
            "clip_range": update.clip_range,
        }
        if update.clip_range_vf is not None:
            metrics["clip_range_vf"] = update.clip_range_vf
        if self.terms:
            terms = th.stack(self.terms)
            means = terms.mean(0).tolist()
            heads = getattr(update.policy, "head_ids", None) or range(len(means) - len(TERMS))
            metrics |= zip((*TERMS, *(f"entropy_loss/{head}" for head in heads)), means, strict=False)
            if update.pull is not None and update.magnet_coef:
                metrics |= {"magnet_coef": update.magnet_coef, "magnet_kl": means[-1]}
            metrics["approx_kl"] = float(terms[self.epoch_starts[-1] :, KL].mean())
            metrics["explained_variance"] = explained_variance(buffer.values.flatten(), buffer.returns.flatten())
        if self.grad_norms:
            metrics["grad_norm"] = float(th.stack(self.grad_norms).mean())
        return metrics


def record(logger: Logger, group: str, metrics: dict[str, Any]) -> None:
    """Logs the metrics under ``group/name``."""
    for name, value in metrics.items():
        logger.record(f"{group}/{name}", value)


@dataclass(frozen=True)
class PpoUpdate:
    """One learning phase; fields are named like SB3's hyperparameters."""

    policy: MaskableActorCriticPolicy
    batch_size: int | None  #: ``None``: the whole rollout.
    clip_range: float
    clip_range_vf: float | None
    normalize_advantage: bool
    ent_coef: float
    vf_coef: float
    max_grad_norm: float
    gradient_accumulation_steps: int
    target_kl: float | None
    precision: str = FP32
    pull: Magnet | None = None  #: The magnet.
    magnet_coef: float = 0.0
    ent_weights: Mapping[str, float] | None = None  #: Of heads by their ids, see `PvpPPO`.

    def run(self, samples: Samples, n_epochs: int, renew_log_probs: bool = False) -> UpdateLog:
        """Learns from the samples, until the KL estimate of a mini-batch exceeds 1.5 times ``target_kl``.

        Gradients accumulate across epochs; an incomplete accumulation at the end is dropped (training.md §7.3).

        ``renew_log_probs`` is for samples of older weights. PPO clips how far a policy moves from the log-probabilities
        in the samples. From the weights that acted, it has moved once already by the time it learns: clipped against
        them, it learns visibly less from each step (`python -m benchmarks actors_learning`). With those of the present
        weights this is the proximal policy of https://arxiv.org/abs/2110.00641, without its importance weights.
        """
        log, size = UpdateLog(), self.batch_size or len(samples)
        if hasattr(self.policy, "evaluate_features"):
            # Statistics do not change while learning, so all epochs share these features.
            with th.no_grad():
                raw, features = samples.observations, self.policy.features(samples.observations)  # type: ignore[operator]
            samples = replace(samples, observations=features)
            if n_epochs and self.pull is not None and self.magnet_coef:
                samples = replace(samples, magnet=self.pull(raw, features, samples.actions, samples.action_masks))
        self.policy.optimizer.zero_grad()
        parameters = [*self.policy.parameters()]  # to find them takes as long as to clip them
        for epoch in range(n_epochs):
            log.epoch_starts.append(len(log.terms))
            batches = samples.batches(size)
            if renew_log_probs and epoch == 0:
                samples = replace(samples, old_log_probs=samples.old_log_probs.clone())
                self._renew_log_probs(samples, batches[self.gradient_accumulation_steps :])
            # One pass of PPO over the rollout; gradients add up over mini-batches until a step of the optimiser is due.
            for indices in batches:
                # Up to the first step of the optimiser the weights are the present ones: what `_loss` computes will do.
                is_present = renew_log_probs and not log.grad_norms
                loss, terms, log_probs = self._loss(samples[indices], is_present)
                log.terms.append(terms)
                if is_present:
                    samples.old_log_probs[indices] = log_probs
                # Before the gradient of this mini-batch: it is the one that has moved too far.
                if self.target_kl is not None and terms[KL] > 1.5 * self.target_kl:
                    self.policy.optimizer.zero_grad()
                    return log
                # Divided, so that accumulated mini-batches weigh as one large one would.
                (loss / self.gradient_accumulation_steps).backward()  # type: ignore[no-untyped-call]
                if len(log.terms) % self.gradient_accumulation_steps == 0:
                    log.grad_norms.append(th.nn.utils.clip_grad_norm_(parameters, self.max_grad_norm))
                    self.policy.optimizer.step()
                    self.policy.optimizer.zero_grad()
        self.policy.optimizer.zero_grad()
        return log

    @th.no_grad()
    def _renew_log_probs(self, samples: Samples, batches: Sequence[th.Tensor]) -> None:
        """Replaces the log-probabilities of these mini-batches by those of the present weights."""
        evaluate: Any = getattr(self.policy, "log_prob", lambda *each: self.policy.evaluate_actions(*each)[1])
        if samples.states is None and batches:
            batches = th.split(th.cat([*batches]), ROWS_AT_ONCE)
        for part in batches:
            each = self._remembering(samples[part])
            samples.old_log_probs[part] = evaluate(each.observations, each.actions, each.action_masks)

    def _remembering(self, batch: Samples) -> Samples:
        """Returns a batch with what a policy with memory remembers in each of its steps."""
        if batch.states is None:
            return batch
        remembering: Any = self.policy.remembering
        return replace(batch, observations=remembering(batch.observations, batch.states, batch.starts))

    def _loss(self, batch: Samples, is_present: bool) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        """Returns the loss of one mini-batch, a scalar (training.md §7.2), its `TERMS` and the log-probabilities.

        ``is_present``: the policy has the weights whose log-probabilities are the old ones. Keep the order of
        operations: results are bit for bit those of SB3.
        """
        names = ("evaluate_features", "evaluate_heads", "evaluate_actions")
        evaluate = next(getattr(self.policy, name) for name in names if hasattr(self.policy, name))
        with learning_in(self.precision, batch.returns.device):
            batch = self._remembering(batch)
            given = batch.observations, batch.actions, batch.action_masks
            found = evaluate(*given) if batch.magnet is None else evaluate(*given, batch.magnet)
        values, log_probs, entropies, *divergences = found
        values, head_entropies = values.flatten(), entropies
        # PPO's ratio is that of joint actions: log-probabilities add up over heads before they are exponentiated.
        if log_probs.ndim == 2:  # one column per head
            weighted = entropies if self._head_weights is None else entropies * self._head_weights
            log_probs, entropies = log_probs.sum(1), weighted.sum(1)
        else:  # a policy without evaluate_heads
            head_entropies = values.new_zeros(len(batch), 0)
        # With the present weights the ratio is 1, but its gradient is not 0: that is what `detach` keeps.
        log_ratios = log_probs - (log_probs.detach() if is_present else batch.old_log_probs)
        ratios = th.exp(log_ratios)
        advantages = batch.advantages
        if self.normalize_advantage and len(advantages) > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        clipped = th.clamp(ratios, 1 - self.clip_range, 1 + self.clip_range)
        # The smaller of the two: a step back towards the old policy is never clipped away.
        policy_loss = -th.min(advantages * ratios, advantages * clipped).mean()
        # As in SB3, on the clipped values alone, and not the larger of both losses.
        if self.clip_range_vf is not None:
            values = batch.old_values + th.clamp(values - batch.old_values, -self.clip_range_vf, self.clip_range_vf)
        value_loss = F.mse_loss(batch.returns, values)
        # As in SB3: without an analytical form, the entropy is estimated by -log_prob.
        entropy_loss = -th.mean(-log_probs if entropies is None else entropies)
        loss = policy_loss + self.ent_coef * entropy_loss + self.vf_coef * value_loss
        pulls = [each.sum(1).mean() for each in divergences]
        if pulls:  # that of the joint action: the heads' divergences, given the heads before, add up
            loss = loss + self.magnet_coef * pulls[0]
        with th.no_grad():
            clip_fraction = th.mean((th.abs(ratios - 1) > self.clip_range).float())
            kl = th.mean((ratios - 1) - log_ratios)  # the k3 estimator, http://joschu.net/blog/kl-approx.html
            terms = th.stack([policy_loss, value_loss, entropy_loss, loss, clip_fraction, kl])
            return loss, th.cat([terms, -head_entropies.mean(0), *(each[None] for each in pulls)]), log_probs.detach()

    @cached_property
    def _head_weights(self) -> th.Tensor | None:
        """The weight of each head, ``(heads,)``; ``None``: all are 1."""
        if self.ent_weights is None:
            return None
        heads: Any = self.policy.head_ids
        return th.tensor([float(self.ent_weights.get(head, 1.0)) for head in heads], device=self.policy.device)
