"""The networks of MA-POCA (arXiv 2111.05992): an actor for each agent, and a critic with attention over the team.

Axes: ``batch`` rows of a team at one step, ``agents`` K of it, of which some are absent: not yet spawned, or dead.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import torch as th
from torch import nn
from torch.nn import functional as F

from sb3_pvp.policies.agent_slots import AgentActions, per_kind
from sb3_pvp.policies.numbers import LEAST_PROBABILITY, gaussian_entropy, gaussian_log_prob

NUM_HEADS = 4  #: Of the attention.
ABSENT = -1e6  #: Score of an absent agent: its attention is exactly 0 beside any other, and no row is divided by 0.
FORBIDDEN = 1e8  #: Taken off the logit of an entry that is not legal.
GAIN = 0.125  #: T-Fixup's, for attention without a warm-up: weights have the variance ``GAIN / hidden_size``.


def linear(inputs: int, outputs: int, deviation: float) -> nn.Linear:
    """Returns a layer with normally distributed weights, and biases of 0."""
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=deviation)
    nn.init.zeros_(layer.bias)
    return layer


def encoder(inputs: int, hidden_size: int, num_layers: int, gain: float = 1.0) -> nn.Sequential:
    """Returns linear layers with a swish after each, and Kaiming's initial weights times ``gain``."""
    sizes = [inputs, *[hidden_size] * (num_layers - 1)]
    layers = (module for size in sizes for module in (linear(size, hidden_size, gain / sqrt(size)), nn.SiLU()))
    return nn.Sequential(*layers)


class AgentActor(nn.Module):
    """The policy of every agent, on its own observation alone."""

    def __init__(
        self, observation_size: int, actions: AgentActions, hidden_size: int, num_layers: int, kinds: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self.actions = actions
        # The layers see an agent's own numbers alone, the rest of a row is filled up.
        self.body = per_kind(kinds, observation_size, lambda size: encoder(size, hidden_size, num_layers), keeps=True)
        self.output = per_kind([hidden_size] * len(kinds), hidden_size, self._make_output)
        self.log_std = nn.Parameter(th.zeros(actions.continuous))

    def _make_output(self, size: int) -> nn.Linear:
        layer = linear(size, self.actions.encoded_size, 0.1 / sqrt(size))  # choices: near to uniform
        layer.weight.data[: self.actions.continuous] *= 2
        return layer

    def decide(self, latent: th.Tensor, masks: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Returns means ``(..., continuous)`` and log-probabilities of all choices ``(..., entries of branches)``.

        ``latent`` is what ``body`` returns for observations ``(..., size)``; ``masks`` are bool ``(..., entries of
        branches)``. Given conditional ones, rules between heads hold.
        """
        outputs, legal = self.output(latent), masks.to(latent.dtype)
        means, logits = outputs.tensor_split((self.actions.continuous,), -1)
        # The product first, as in the package: an illegal entry has no gradient.
        logits = logits * legal - FORBIDDEN * (1 - legal)
        each = [categorical_logs(branch) for branch in self.actions.by_branch(logits)]
        return means, th.cat(each, -1) if each else logits

    def evaluate(self, latent: th.Tensor, actions: th.Tensor, masks: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Returns log-probabilities per dimension of the action ``(..., size)`` and entropies ``(...)``.

        An entropy is the sum over branches plus the mean over continuous dimensions.
        """
        means, logs = self.decide(latent, masks)
        numbers, choices = actions.tensor_split((self.actions.continuous,), -1)
        parts, entropy = [gaussian_log_prob(means, self.log_std, numbers)], means.new_zeros(means.shape[:-1])
        if self.actions.continuous:
            entropy = entropy + gaussian_entropy(self.log_std).mean()
        for branch, log_probs in enumerate(self.actions.by_branch(logs)):
            parts.append(log_probs.gather(-1, choices[..., branch, None].long()))
            entropy = entropy + categorical_entropy(log_probs)
        return th.cat(parts, -1), entropy


def categorical_logs(logits: th.Tensor) -> th.Tensor:
    """Returns the logarithms of probabilities plus `LEAST_PROBABILITY`."""
    return th.log(logits.softmax(-1) + LEAST_PROBABILITY)


def categorical_entropy(log_probs: th.Tensor) -> th.Tensor:
    """Returns entropies ``(...)`` by the `categorical_logs` ``(..., choices)``."""
    return -((log_probs.exp() - LEAST_PROBABILITY) * log_probs).sum(-1)


class TeamAttention(nn.Module):
    """Residual self-attention over entities, averaged over those that are present."""

    def __init__(self, size: int, num_heads: int = NUM_HEADS) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.project = linear(size, 3 * size, sqrt(GAIN / size))  # to queries, keys and values
        self.out = linear(size, size, sqrt(GAIN / size))

    def prepare(self, embeddings: th.Tensor) -> th.Tensor:
        """Returns what `forward` takes, ``(..., 4 * size)``: normalised entities, their queries, keys and values."""
        entities = normalized(embeddings)
        return th.cat([entities, self.project(entities)], -1)

    def forward(self, prepared: th.Tensor, present: th.Tensor, asking: th.Tensor | None = None) -> th.Tensor:
        """Returns entities ``(..., rows, size)`` after attention, given prepared ones; the rest as in `attend`."""
        entities, queries, keys, values = prepared.chunk(4, -1)
        attended, _ = attend(queries, keys, values, present, self.num_heads, asking)
        asked = entities if asking is None else entities.index_select(-2, asking)
        return normalized(self.out(attended) + asked)


def normalized(entities: th.Tensor) -> th.Tensor:
    """Returns entities with mean 0 and variance 1: layer normalisation without parameters."""
    return F.layer_norm(entities, entities.shape[-1:])


def attend(
    queries: th.Tensor,
    keys: th.Tensor,
    values: th.Tensor,
    present: th.Tensor,
    num_heads: int,
    asking: th.Tensor | None = None,
) -> tuple[th.Tensor, th.Tensor]:
    """Returns mixed values ``(..., rows, size)`` and the attention ``(..., heads, rows, n)`` of rows to entities.

    The rows are all n entities, and ``present`` says which of them are there, bool ``(..., n)``; or the entities with
    the numbers ``asking``, int64 ``(rows,)``, and ``present`` says which of the n each row sees ``(..., rows, n)``.
    """
    size = queries.shape[-1]
    queries, keys, values = (
        each.reshape(*each.shape[:-1], num_heads, size // num_heads).transpose(-2, -3)
        for each in (queries, keys, values)
    )
    # By the root of the whole size, and not of a head's, as everywhere else.
    scores = queries @ keys.transpose(-1, -2) / sqrt(size)
    scores, seen = (scores, present[..., None, :]) if asking is None else (scores.index_select(-2, asking), present)
    attention = scores.masked_fill(~seen.unsqueeze(-3), ABSENT).softmax(-1)
    return (attention @ values).transpose(-2, -3).flatten(-2), attention


def pooled(entities: th.Tensor, present: th.Tensor) -> th.Tensor:
    """Returns the mean ``(..., size)`` of the present ones of entities ``(..., n, size)``; 0 if there is none."""
    weight = present.to(entities.dtype)
    return (entities * weight[..., None]).sum(-2) / (weight.sum(-1, keepdim=True) + LEAST_PROBABILITY)


class TeamCritic(nn.Module):
    """V of a team, and the counterfactual baseline Q of each agent: one network, called in two ways.

    For V every agent is seen without its action; for the baseline of an agent the others are seen with theirs, so that
    only its own action is averaged out, in any action space.
    """

    max_agents: th.Tensor  #: Most agents seen at once, a float32 scalar; saved with the weights.

    def __init__(
        self, observation_size: int, actions: AgentActions, hidden_size: int, num_layers: int, kinds: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self.actions, self.num_kinds = actions, len(kinds) if len(kinds) > 1 else 0
        deviation, acting = sqrt(GAIN / hidden_size), observation_size + actions.encoded_size

        def make(size: int) -> nn.Linear:
            return linear(size, hidden_size, deviation)

        self.embed = per_kind(kinds, observation_size, make)
        self.embed_with_action = per_kind([acting] * len(kinds), acting, make)
        self.attention = TeamAttention(hidden_size)
        self.encoder = encoder(hidden_size, hidden_size, num_layers, deviation)
        self.value = nn.Linear(hidden_size + 1, 1)
        nn.init.xavier_uniform_(self.value.weight)
        nn.init.zeros_(self.value.bias)
        self.register_buffer("max_agents", th.ones(()))

    def forward(self, observations: th.Tensor, present: th.Tensor) -> th.Tensor:
        """Returns V ``(batch,)``, given observations ``(batch, agents, size)`` and which agents are present (bool)."""
        self.see(present)
        alone, _ = self.embeddings(observations, None, present)
        return self._value(self.attention(self.attention.prepare(alone), present), present)

    def evaluate(self, observations: th.Tensor, actions: th.Tensor, present: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Returns V ``(batch,)`` and the baselines ``(batch, agents)``; those of absent agents mean nothing."""
        self.see(present)
        # Each agent is an entity twice, without and with its action, and projected and compared with each other once:
        # V's team are those without; in the one of an agent's baseline the others stand with theirs.
        entities = self.attention.prepare(th.cat(self.embeddings(observations, actions, present), -2))
        agents = present.shape[-1]
        alone = th.arange(agents, device=present.device)
        own = th.eye(agents, dtype=th.bool, device=present.device)
        teams = th.cat([alone[None], th.where(own, alone, alone + agents)])
        seen = F.one_hot(teams, 2 * agents).sum(1).bool() & present.repeat(1, 2)[:, None]
        attended = self.attention(entities, seen.repeat_interleave(agents, 1), teams.flatten())
        values = self._value(attended.unflatten(1, teams.shape), present[:, None].expand(-1, *teams.shape))
        return values[:, 0], values[:, 1:]

    def embeddings(
        self, observations: th.Tensor, actions: th.Tensor | None, present: th.Tensor
    ) -> tuple[th.Tensor, th.Tensor]:
        """Returns embeddings ``(batch, agents, hidden_size)`` without and with actions; without, if there are none."""
        # What is written where an agent is absent may be anything, also NaN, which times 0 would be NaN.
        seen = observations.masked_fill(~present[..., None], 0)
        alone = F.silu(self.embed(seen))
        if actions is None:
            return alone, alone
        acted = self.actions.encode(actions)
        marks = seen[..., seen.shape[-1] - self.num_kinds :]
        return alone, F.silu(self.embed_with_action(th.cat([seen, acted, marks], -1)))

    def see(self, present: th.Tensor) -> None:
        """Counts the agents that are present."""
        self.max_agents.copy_(th.maximum(self.max_agents, present.sum(-1).max()))

    def share(self, present: th.Tensor) -> th.Tensor:
        """Returns how many agents are present, ``(..., 1)``, from -1 for none to 1 for the most seen."""
        return 2 * present.sum(-1, keepdim=True) / self.max_agents - 1

    def _value(self, attended: th.Tensor, present: th.Tensor) -> th.Tensor:
        team = self.encoder(pooled(attended, present))
        value: th.Tensor = self.value(th.cat([team, self.share(present)], -1))
        return value.squeeze(-1)


class TeamNetworks(nn.Module):
    """Actor and critic of a team, see `AgentActor` and `TeamCritic`; for ``kinds`` of agents see `per_kind`."""

    def __init__(
        self, observation_size: int, actions: AgentActions, hidden_size: int, num_layers: int, kinds: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self.actor = AgentActor(observation_size, actions, hidden_size, num_layers, kinds)
        self.critic = TeamCritic(observation_size, actions, hidden_size, num_layers, kinds)
