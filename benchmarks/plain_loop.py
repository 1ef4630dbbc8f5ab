"""The reference for the speed of the fused heads: the same policy as a plain loop over heads."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import torch as th
from torch import nn
from torch.distributions import Categorical

from sb3_pvp.policies import AutoregressivePolicy


class PlainLoop(nn.Module):
    """The same function as an `AutoregressivePolicy` (without feature networks and future masks), in a loop over heads.

    Each head is a separate network whose input is the trunk's output and the normalised one-hot encodings of all
    earlier choices. It starts from copies of ``policy``'s weights and statistics, and learns with plain Adam.
    """

    def __init__(self, policy: AutoregressivePolicy) -> None:
        super().__init__()
        self.features = deepcopy(policy.features)
        self.actor, self.critic, self.value_net = map(deepcopy, (policy.actor, policy.critic, policy.value_net))
        self.normalizer = deepcopy(policy.heads.normalizer)
        self.rules = deepcopy(policy.rules)
        self.heads = nn.ModuleList(_network(policy.heads.layers(head)) for head in range(len(policy.head_sizes)))
        self.has_rules = [bool(part.any()) for part in th.split(self.rules.forbids, list(policy.head_sizes), 1)]
        self.to(policy.device)
        # SB3's epsilon for PPO, which PyTorch's default is not.
        self.optimizer = th.optim.Adam(self.parameters(), lr=policy.optimizer.param_groups[0]["lr"], eps=1e-5)

    def forward(
        self, obs: dict[str, th.Tensor], deterministic: bool = False, action_masks: th.Tensor | None = None
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        """Returns actions ``(batch, heads)``, values ``(batch, 1)`` and log-probabilities ``(batch,)``."""
        features = self.features(obs)
        actions, distributions = self._run(features, action_masks, None)
        log_probs = _log_probs(distributions, actions)
        self.features.observe(obs)
        self.normalizer.observe(self.rules.one_hot(actions))
        return actions, self.value_net(self.critic(features)), log_probs.sum(1)

    def evaluate_heads(
        self, obs: dict[str, th.Tensor], actions: th.Tensor, action_masks: th.Tensor | None = None
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        """Returns values ``(batch, 1)``, and log-probabilities and entropies ``(batch, heads)`` of given actions."""
        features = self.features(obs)
        _, distributions = self._run(features, action_masks, actions.long())
        entropies = th.stack([one.entropy() for one in distributions], 1)  # type: ignore[no-untyped-call]
        return self.value_net(self.critic(features)), _log_probs(distributions, actions), entropies

    def _run(
        self, features: th.Tensor, masks: th.Tensor | None, given: th.Tensor | None
    ) -> tuple[th.Tensor, list[Categorical]]:
        latent = self.actor(features[:, : self.features.num_public])
        mean, scale, clip = self.normalizer.mean, self.normalizer.scale(), self.normalizer.clip
        actions: list[th.Tensor] = []
        encodings: list[th.Tensor] = []
        distributions: list[Categorical] = []
        for head, (start, size) in enumerate(zip(self.rules.starts, self.rules.head_sizes, strict=True)):
            own = slice(start, start + size)
            logits = self.heads[head](th.cat([latent, *encodings], 1))
            legal = self._legal(head, own, masks, actions)
            # Without validation, which would slow down this loop and so flatter the fused heads.
            distributions.append(Categorical(logits=logits.masked_fill(~legal, -1e8), validate_args=False))
            actions.append(distributions[-1].sample() if given is None else given[:, head])  # type: ignore[no-untyped-call]
            one_hot = nn.functional.one_hot(actions[-1], size).float()
            encodings.append(((one_hot - mean[own]) * scale[own]).clamp(-clip, clip))
        return th.stack(actions, 1), distributions

    def _legal(self, head: int, own: slice, masks: th.Tensor | None, actions: list[th.Tensor]) -> th.Tensor:
        assert masks is not None
        legal = masks[:, own]
        if self.has_rules[head]:
            sizes = self.rules.head_sizes
            chosen = th.cat([nn.functional.one_hot(action, sizes[i]) for i, action in enumerate(actions)], 1).float()
            legal = legal & (chosen @ self.rules.forbids[: own.start, own] == 0)
        # As in the policy, a head with nothing allowed takes its first choice.
        nothing = ~legal.any(1, keepdim=True)
        return th.cat([legal[:, :1] | nothing, legal[:, 1:]], 1)


def _log_probs(distributions: list[Categorical], actions: th.Tensor) -> th.Tensor:
    pairs = zip(distributions, actions.unbind(1), strict=True)
    return th.stack([one.log_prob(action) for one, action in pairs], 1)  # type: ignore[no-untyped-call]


def _network(layers: Sequence[tuple[th.Tensor, th.Tensor]]) -> nn.Sequential:
    """Linear layers with these weights and biases, relu between them."""
    modules: list[nn.Module] = []
    for weight, bias in layers:
        linear = nn.Linear(weight.shape[1], weight.shape[0])
        linear.weight.data.copy_(weight)
        linear.bias.data.copy_(bias)
        modules += [linear, nn.ReLU()]
    return nn.Sequential(*modules[:-1])
