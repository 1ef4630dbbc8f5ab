"""Policies as ONNX graphs: the whole way from raw observations and masks to actions and values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from torch import nn

from sb3_pvp.policies.autoregressive import AutoregressivePolicy
from sb3_pvp.policies.export.onnx_builder import FLOAT, INT64, GraphBuilder, as_array
from sb3_pvp.policies.export.onnx_heads import DependentHeads, Joint, Layout, independent_choices
from sb3_pvp.policies.features import ACTION_MASK, OBSERVATION, PRIVILEGED, frames_of
from sb3_pvp.policies.sampling import HeadTables


def actor_graph(policy: MaskableActorCriticPolicy) -> bytes:
    """Returns the graph that acts, an ONNX model; ``docs/fighter-files.md`` lists its inputs and outputs.

    Raises `ValueError` if ONNX is not installed, or the policy sees other things than frames of features under
    ``"observation"``, the mask and the privileged part.
    """
    graph, layout = GraphBuilder(), Layout(_head_sizes(policy.action_space))
    observation = graph.input(OBSERVATION, np.float32, *_frame_shapes(policy)[OBSERVATION])
    mask = graph.input(ACTION_MASK, np.bool_, layout.flat)
    numbers = graph.input("uniform", np.float32, layout.num_heads)
    if isinstance(policy, AutoregressivePolicy):
        return _serialized(graph, _own_choices(graph, policy, observation, mask, numbers), layout)
    extractor: Any = policy.mlp_extractor
    features = _plain_features(graph, policy, observation, mask)
    logits = graph.network(features, [*_without_privileged(policy, [*extractor.policy_net, policy.action_net])])
    return _serialized(graph, independent_choices(graph, logits, mask, numbers, layout), layout)


def critic_graph(policy: MaskableActorCriticPolicy) -> bytes:
    """Returns the graph of values, an ONNX model. Its inputs are those of `actor_graph` that the critic sees, and
    ``privileged`` if it sees that. Raises `ValueError` as `actor_graph` does."""
    graph, shapes = GraphBuilder(), _frame_shapes(policy)
    observation = graph.input(OBSERVATION, np.float32, *shapes[OBSERVATION])
    if isinstance(policy, AutoregressivePolicy):
        features = _normalized(graph, observation, policy, 0)
        if PRIVILEGED in shapes:
            privileged = graph.input(PRIVILEGED, np.float32, *shapes[PRIVILEGED])
            hidden = _normalized(graph, privileged, policy, shapes[OBSERVATION][1])
            features = graph("Concat", features, hidden, axis=1)
        modules = [*policy.extractors[1], *policy.critic, policy.value_net]
    else:
        seen = policy.observation_space
        parts = [*seen.spaces] if isinstance(seen, spaces.Dict) else [OBSERVATION]
        inputs = {OBSERVATION: observation}
        if ACTION_MASK in parts:
            inputs[ACTION_MASK] = graph.input(ACTION_MASK, np.bool_, sum(_head_sizes(policy.action_space)))
        if PRIVILEGED in parts:
            inputs[PRIVILEGED] = graph.input(PRIVILEGED, np.float32, *shapes[PRIVILEGED])
        features = _flat(graph, [inputs[key] for key in parts])
        modules = [*policy.mlp_extractor.value_net, policy.value_net]
    value = graph("Squeeze", graph.network(features, modules), graph.integers([1]))
    return graph.serialized("critic", value=(value, np.float32, ()))


def _own_choices(graph: GraphBuilder, policy: AutoregressivePolicy, observation: str, mask: str, numbers: str) -> Joint:
    """Adds the choices of an `AutoregressivePolicy`."""
    tables = HeadTables(policy.heads)

    def latent() -> str:
        features = _normalized(graph, observation, policy, 0)
        return graph.network(features, [*policy.extractors[0], *policy.actor])

    if tables.has_networks or tables.table.any() or tables.asks_any.any():
        return DependentHeads(graph, policy.heads, tables, mask).choices(latent, numbers)
    layer, inputs = tables.direct, latent()
    assert layer is not None
    weights = [layer.weight]
    if layer.masks is not None:
        inputs = graph("Concat", inputs, graph("Cast", mask, to=FLOAT), axis=1)
        weights.append(layer.masks)
    logits = graph.linear(inputs, th.cat(weights), layer.bias)
    return independent_choices(graph, logits, mask, numbers, Layout(tables.head_sizes))


def _serialized(graph: GraphBuilder, joint: Joint, layout: Layout) -> bytes:
    """Adds the outputs, and returns the model."""
    of_head = np.eye(layout.num_heads, dtype=np.float32)[layout.head_of]
    action = graph("Cast", graph("MatMul", joint.chosen, graph.constant(of_head * layout.entries[:, None])), to=INT64)
    padded = graph("Flatten", graph("LogSoftmax", layout.per_head(graph, joint.scores), axis=2))
    log_probs = graph("Gather", padded, graph.integers(layout.places), axis=1)
    probability = graph("Exp", log_probs)
    entropy = graph("MatMul", graph("Mul", probability, log_probs), graph.constant(-of_head))
    log_prob = graph("ReduceSum", graph("Mul", joint.chosen, log_probs), graph.integers([1]), keepdims=0)
    return graph.serialized(
        "actor",
        action=(action, np.int64, [layout.num_heads]),
        log_prob=(log_prob, np.float32, ()),
        entropy=(entropy, np.float32, [layout.num_heads]),
        probability=(probability, np.float32, [layout.flat]),
    )


def _normalized(graph: GraphBuilder, frames: str, policy: AutoregressivePolicy, first: int) -> str:
    """Adds the flat features of frames ``(batch, frames, width)``, whose statistics begin with number ``first``."""
    features = policy.features
    width = _frame_shapes(policy)[PRIVILEGED if first else OBSERVATION][1]
    if features.normalize:
        normalizer, own = features.normalizer, slice(first, first + width)
        frames = graph("Sub", frames, graph.constant(as_array(normalizer.mean[own])))
        frames = graph("Mul", frames, graph.constant(as_array(normalizer.scale()[own])))
        frames = graph("Clip", frames, *(graph.constant(end) for end in (-normalizer.clip, normalizer.clip)))
    return graph("Flatten", frames)


def _plain_features(graph: GraphBuilder, policy: MaskableActorCriticPolicy, observation: str, mask: str) -> str:
    """Adds the features of a policy of sb3-contrib, without the privileged part."""
    seen = policy.observation_space
    if not isinstance(seen, spaces.Dict):
        return _flat(graph, [observation])
    inputs = {OBSERVATION: observation, ACTION_MASK: mask}
    return _flat(graph, [inputs[key] for key in seen.spaces if key != PRIVILEGED])


def _flat(graph: GraphBuilder, parts: Sequence[str]) -> str:
    flat = [graph("Cast", part, to=FLOAT) if part == ACTION_MASK else graph("Flatten", part) for part in parts]
    return graph("Concat", *flat, axis=1) if len(flat) > 1 else flat[0]


def _without_privileged(policy: MaskableActorCriticPolicy, modules: Sequence[Any]) -> Iterable[Any]:
    """Returns modules that do not see the privileged part: it is unknown in a real fight, and taken as zero."""
    seen = policy.observation_space
    if not isinstance(seen, spaces.Dict) or PRIVILEGED not in seen.spaces:
        return modules
    kept = np.concatenate([np.full(spaces.flatdim(part), key != PRIVILEGED) for key, part in seen.spaces.items()])
    first = modules[0]
    narrow = nn.Linear(int(kept.sum()), first.out_features)
    narrow.weight.data, narrow.bias.data = first.weight.data[:, th.as_tensor(kept)], first.bias.data
    return [narrow, *modules[1:]]


def _frame_shapes(policy: MaskableActorCriticPolicy) -> dict[str, tuple[int, int]]:
    """Returns frames and features of each part of the observation but the mask."""
    space = policy.observation_space
    parts = dict(space.spaces) if isinstance(space, spaces.Dict) else {OBSERVATION: space}
    parts.pop(ACTION_MASK, None)
    if OBSERVATION not in parts or parts.keys() - {OBSERVATION, PRIVILEGED}:
        raise ValueError(f"a graph needs an observation with the part {OBSERVATION!r} and no others, not {space}")
    frames, _ = frames_of(parts[OBSERVATION])
    return {key: (frames, spaces.flatdim(part) // frames) for key, part in parts.items()}


def _head_sizes(space: Any) -> tuple[int, ...]:
    return (int(space.n),) if isinstance(space, spaces.Discrete) else tuple(space.nvec.tolist())
