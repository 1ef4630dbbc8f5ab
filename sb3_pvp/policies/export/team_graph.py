"""The actor of one agent of a team as an ONNX graph, in the form of `onnx_graph.actor_graph`."""

from __future__ import annotations

import copy
from typing import Any

import torch as th
from torch import nn

from sb3_pvp.policies.agent_slots import layer_of
from sb3_pvp.policies.export.onnx_graph import OUTPUTS, HeadsModule, exported
from sb3_pvp.policies.features import ACTION_MASK, OBSERVATION
from sb3_pvp.policies.heads import AutoregressiveHeads, DependencyRules
from sb3_pvp.policies.numbers import SCALE, gaussian_entropy, gaussian_log_prob, normal_quantile


def agent_graph(policy: Any, agent: str | None = None) -> bytes:
    """Returns the graph of one agent of a `MAPOCAPolicy`, by default of the first one.

    Its observation are all numbers of the agent's own, also whether it is in the game, and its mask the entries of its
    own heads. Raises `ValueError` for an unknown agent, or if ONNX is not installed.
    """
    contract = policy.team_contract
    module = _AgentModule(policy, 0 if agent is None else contract.agent_index(agent))
    frames, sizes = policy.features_extractor.num_frames, module.sizes
    features = policy.slots.sizes[policy.slots.kinds[module.agent]] // frames
    examples = {OBSERVATION: th.zeros(1, frames, features)}
    examples |= {ACTION_MASK: th.ones(1, sum(sizes), dtype=th.bool), "uniform": th.zeros(1, len(sizes))}
    return exported(module, examples, OUTPUTS)


def agent_layers(policy: Any, agent: int) -> tuple[nn.Module, nn.Linear, th.Tensor]:
    """Returns the hidden layers of one agent's actor, its output, and the row of that for each of the agent's entries.

    They are copies on the CPU: what is recorded learns no more. An agent's numbers have the first rows.
    """
    slots, actor = policy.slots, policy.networks.actor
    body, output = (copy.deepcopy(layer_of(each, slots.kinds[agent])).cpu() for each in (actor.body, actor.output))
    # The rows of its own entries, among those that are filled up.
    places = slots.flat_places[policy.team_contract.agent_entries[agent]].cpu() - agent * actor.actions.encoded_size
    return body, output.requires_grad_(False), places


class _AgentModule(nn.Module):
    """What `agent_graph` records."""

    @th.no_grad()
    def __init__(self, policy: Any, agent: int) -> None:
        super().__init__()
        self.agent, contract = agent, policy.team_contract
        own, entries = contract.agents[agent], contract.agent_entries[agent]
        self.numbers = [number for number, head in enumerate(contract.heads[slice(*own.heads)]) if head.number]
        self.sizes = contract.head_sizes[slice(*own.heads)]
        self.body, output, places = agent_layers(policy, agent)
        rules = DependencyRules(self.sizes)
        if len(self.sizes) > 1:  # no rule goes from one agent to another
            for name in ("forbids", "permits"):
                getattr(rules, name).copy_(getattr(policy.rules, name)[entries, entries])
            rules.asks_any.copy_(policy.rules.asks_any[entries])
        heads = AutoregressiveHeads(output.in_features, rules, [()] * len(self.sizes), False, False, False)
        heads.direct.weight.copy_(output.weight[places])
        heads.direct.bias.copy_(output.bias[places])
        self.heads = HeadsModule(heads)
        # An agent's numbers are the first of what the actor returns.
        count, self.log_std = len(self.numbers), policy.networks.actor.log_std.detach().cpu().clone()
        self.mean_weight, self.mean_bias = output.weight[:count].clone(), output.bias[:count].clone()

    def forward(self, observation: th.Tensor, mask: th.Tensor, uniform: th.Tensor) -> Any:
        """Returns actions, their log-probabilities, entropies of heads and probabilities of entries."""
        latent = self.body(observation.flatten(1))
        action, log_prob, entropy, probability = self.heads(latent, mask, uniform)
        if not self.numbers:
            return action, log_prob, entropy, probability
        means = nn.functional.linear(latent, self.mean_weight, self.mean_bias)
        decided = means + self.log_std.exp() * normal_quantile(uniform[:, self.numbers])
        log_prob = log_prob + gaussian_log_prob(means, self.log_std, decided).sum(1)
        columns, entropies = [*action.float().split(1, 1)], [*entropy.split(1, 1)]
        for place, head in enumerate(self.numbers):
            columns[head] = (decided[:, place, None] / SCALE).clamp(-1, 1)
            entropies[head] = entropies[head] + gaussian_entropy(self.log_std)[place]
        return th.cat(columns, 1), log_prob, th.cat(entropies, 1), probability
