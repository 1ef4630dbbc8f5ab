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


def agent_layers(policy: Any, agent: int) -> tuple[nn.Module, th.Tensor, th.Tensor]:
    """Returns the hidden layers of one agent's actor, and weight and bias of its output: a row for each of its entries.

    They are copies on the CPU: what is recorded learns no more.
    """
    slots, actor = policy.slots, policy.networks.actor
    body, output = (copy.deepcopy(layer_of(each, slots.kinds[agent])).cpu() for each in (actor.body, actor.output))
    # The rows of its own entries, among those that are filled up.
    places = slots.flat_places[policy.team_contract.agent_entries[agent]].cpu() - agent * sum(slots.branches)
    return body, output.weight.detach()[places], output.bias.detach()[places]


class _AgentModule(nn.Module):
    """What `agent_graph` records."""

    @th.no_grad()
    def __init__(self, policy: Any, agent: int) -> None:
        super().__init__()
        self.agent, contract = agent, policy.team_contract
        own, entries = contract.agents[agent], contract.agent_entries[agent]
        self.sizes = contract.head_sizes[slice(*own.heads)]
        self.body, weight, bias = agent_layers(policy, agent)
        rules = DependencyRules(self.sizes)
        for name in ("forbids", "permits"):
            getattr(rules, name).copy_(getattr(policy.rules, name)[entries, entries])
        rules.asks_any.copy_(policy.rules.asks_any[entries])
        heads = AutoregressiveHeads(weight.shape[1], rules, [()] * len(self.sizes), False, False, False)
        heads.direct.weight.copy_(weight)
        heads.direct.bias.copy_(bias)
        self.heads = HeadsModule(heads)

    def forward(self, observation: th.Tensor, mask: th.Tensor, uniform: th.Tensor) -> Any:
        """Returns actions, their log-probabilities, entropies of heads and probabilities of entries."""
        return self.heads(self.body(observation.flatten(1)), mask, uniform)
