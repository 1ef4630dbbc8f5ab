"""The actor of one agent of a team as an ONNX graph for Unity's ML-Agents, with the names of its files of 2022."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch as th
from torch import nn

from sb3_pvp.game.contract import Agent, Contract
from sb3_pvp.policies.export.onnx_graph import exported
from sb3_pvp.policies.export.team_graph import agent_layers

VERSION = 3.0  #: Of the interface between a graph and the engine, since release 2.0 of the Unity package.
UNITY_OPSET = 9  #: Of ML-Agents' own files; its engine does not know all newer operators.
_FORBIDDEN = 1e8  #: What a forbidden entry loses of its logit, as in ML-Agents.
MASKS = "action_masks"
OUTPUTS = ("version_number", "memory_size", "discrete_actions", "discrete_action_output_shape")
LIKELIEST = "deterministic_discrete_actions"


def unity_graph(policy: Any, agent: str | None = None, sensors: Sequence[int] | None = None) -> bytes:
    """Returns the graph of one agent of a `MAPOCAPolicy`, by default of the first one.

    Its inputs are ``obs_0``, ``obs_1`` and so on, one for each sensor, and ``action_masks``, 1 where an entry is legal.
    ``sensors`` are their sizes, by default `sensors_of`. Whether the agent is in the game is no input: it is whenever
    Unity asks. Raises `ValueError` for a policy that is no team's, sees several frames or has rules between its heads,
    an unknown agent, sizes that do not fit, or if ONNX is not installed.
    """
    if not hasattr(policy, "slots"):
        raise ValueError(f"ML-Agents runs the actor of one agent, as of MAPOCA: a {type(policy).__name__} has none")
    contract: Contract = policy.team_contract
    number = 0 if agent is None else contract.agent_index(agent)
    own = contract.agents[number]
    if policy.features_extractor.num_frames > 1:
        raise ValueError("ML-Agents stacks observations itself: a model that sees several frames has no graph for it")
    entries = contract.agent_entries[number]
    if any(getattr(policy.rules, name)[entries, entries].any() for name in ("forbids", "permits")):
        raise ValueError(f"ML-Agents knows no rules between heads, as {own.id} of {contract.name} has")
    if any(head.number for head in contract.heads[slice(*own.heads)]):
        raise ValueError(f"{own.id} of {contract.name} decides on numbers, and this graph has choices only")
    sizes = sensors_of(contract, own) if sensors is None else (*sensors,)
    seen = own.observations[1] - own.observations[0] - (own.active is not None)
    if sum(sizes) != seen or min(sizes) < 1:
        raise ValueError(f"{own.id} of {contract.name} sees {seen} numbers, which sensors of {sizes} do not have")
    module = _UnityModule(policy, number)
    examples = {f"obs_{place}": th.zeros(1, size) for place, size in enumerate(sizes)}
    examples |= {MASKS: th.ones(1, sum(module.branches))}
    outputs = (*OUTPUTS, LIKELIEST)
    return exported(module, examples, outputs, UNITY_OPSET, ("discrete_actions", LIKELIEST))


def sensors_of(contract: Contract, agent: Agent) -> tuple[int, ...]:
    """Returns the sizes of an agent's sensors: one after the other where ids are ``AGENT_SENSOR_NUMBER...``, else one.

    The observation that says whether the agent is in the game belongs to none.
    """
    ids = [each.id for each in contract.observations[slice(*agent.observations)] if each.id != agent.active]
    named = [re.match(rf"{re.escape(agent.id)}_([a-z]+)_\d+_", each) for each in ids]
    if not all(named):
        return (len(ids),)
    return tuple(len([*own]) for _, own in groupby(found[1] for found in named if found))


class _UnityModule(nn.Module):
    """What `unity_graph` records."""

    version: th.Tensor
    memory: th.Tensor
    shape: th.Tensor

    @th.no_grad()
    def __init__(self, policy: Any, agent: int) -> None:
        super().__init__()
        contract = policy.team_contract
        own = contract.agents[agent]
        self.branches = contract.head_sizes[slice(*own.heads)]
        self.body, output, places = agent_layers(policy, agent)
        self.output = nn.Linear(output.in_features, len(places))
        self.output.weight.copy_(output.weight[places])
        self.output.bias.copy_(output.bias[places])
        # Where the number that says that the agent plays stands among its own.
        self.plays = None if own.active is None else contract.observation_index(own.active) - own.observations[0]
        for name, value in (("version", [VERSION]), ("memory", [0.0]), ("shape", [[*map(float, self.branches)]])):
            self.register_buffer(name, th.tensor(value))

    def forward(self, *given: th.Tensor) -> tuple[th.Tensor, ...]:
        """Returns the outputs for what each sensor sees ``(batch, size)``, and masks ``(batch, entries)``."""
        *sensors, masks = given
        seen = th.cat(sensors, 1) if len(sensors) > 1 else sensors[0]
        if self.plays is not None:
            seen = th.cat([seen[:, : self.plays], th.ones_like(seen[:, :1]), seen[:, self.plays :]], 1)
        logits = self.output(self.body(seen))
        by_branch = th.split(logits * masks - _FORBIDDEN * (1 - masks), [*self.branches], 1)
        likeliest = th.cat([each.argmax(1, keepdim=True) for each in by_branch], 1)
        drawn = th.cat([th.multinomial(each.softmax(1), 1) for each in by_branch], 1)
        return self.version, self.memory, drawn, self.shape, likeliest
