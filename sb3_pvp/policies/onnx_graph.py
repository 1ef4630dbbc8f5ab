"""Policies as ONNX graphs: the whole way from raw observations and masks to actions and values.

At a batch of one, the time of a graph is that of its nodes, not of its arithmetic. So heads without hidden layers are
decided several at once: all that later heads of such a *stage* could decide, given each choice of the earlier ones, is
computed in one go, and then looked up. The effects of choices are rows of a table, as in
`sb3_pvp.policies.actors.HeadTables`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from torch import nn

from sb3_pvp.policies.actors import FirstLayer, HeadTables
from sb3_pvp.policies.autoregressive import AutoregressivePolicy
from sb3_pvp.policies.features import ACTION_MASK, OBSERVATION, PRIVILEGED
from sb3_pvp.policies.heads import FORBIDDEN, AutoregressiveHeads

OPSET = 20  #: Has Gelu; ONNX Runtime knows it since 1.17.
_IR_VERSION = 10
#: Added to the padding of heads that are narrower than others: impossible also next to `FORBIDDEN`.
_PADDING = np.float32(-1e30)
#: Most combinations of choices in a stage. More make a batch of one faster, and large batches slower.
_MAX_LEAVES = 64
_FLOAT, _INT64 = 1, 7  #: Types as ONNX numbers them.
_ACTIVATIONS: dict[type[Any], str] = {nn.ReLU: "Relu", nn.Tanh: "Tanh", nn.GELU: "Gelu"}
Floats = NDArray[np.float32]
Integers = NDArray[np.int64]
Steps = Sequence[Callable[[th.Tensor], th.Tensor]]


class _Graph:
    """Collects nodes; values are the names of their outputs."""

    def __init__(self) -> None:
        try:
            import onnx
        except ImportError as error:
            raise ValueError(
                'graphs need ONNX: pip install "sb3-pvp[onnx]", or leave them out (sb3-pvp export --no-onnx)'
            ) from error
        self._onnx, self._nodes, self._inputs, self._constants = onnx, [], [], {}  # type: ignore[var-annotated]

    def input(self, name: str, dtype: Any, *shape: int) -> str:
        """Adds an input ``(batch, *shape)``."""
        self._inputs.append(self._value(name, dtype, shape))
        return name

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        """Returns a constant, the same for equal values."""
        array = np.ascontiguousarray(values, dtype).reshape(np.shape(values))
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._constants:
            name = f"constant_{len(self._constants)}"
            self._constants[key] = self._onnx.numpy_helper.from_array(array, name)
        return str(self._constants[key].name)

    def integers(self, values: Any) -> str:
        """Returns an int64 constant."""
        return self.constant(values, np.int64)

    def __call__(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node with one output, and returns that."""
        return self.several(kind, 1, *inputs, **attributes)[0]

    def several(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """Adds a node with ``count`` outputs."""
        outputs = [f"{kind}_{len(self._nodes)}_{number}" for number in range(count)]
        self._nodes.append(self._onnx.helper.make_node(kind, inputs, outputs, **attributes))
        return outputs

    def split(self, value: str, sizes: Sequence[int]) -> list[str]:
        """Splits a value ``(batch, sum of sizes, ...)``."""
        return self.several("Split", len(sizes), value, self.integers(sizes), axis=1) if len(sizes) > 1 else [value]

    def columns(self, value: str, part: slice) -> str:
        """Returns some columns of a value ``(batch, K)``."""
        # Two of these take less time than one Split, which also copies all that is between.
        return self("Slice", value, self.integers([part.start]), self.integers([part.stop]), self.integers([1]))

    def activation(self, value: str, module: object) -> str:
        """Adds an activation; actors call ReLU as a function."""
        return self("Relu" if module is th.relu_ else _ACTIVATIONS[type(module)], value)

    def linear(self, inputs: str, weight: Any, bias: Any) -> str:
        """Adds a linear layer; ``weight`` is ``(inputs, outputs)``."""
        arrays = (self.constant(_array(part)) for part in (weight, bias))
        return self("Gemm", inputs, *arrays)

    def network(self, inputs: str, modules: Iterable[nn.Module]) -> str:
        """Adds the modules of a network of `make_network`, or of SB3's MLPs."""
        for module in modules:
            if isinstance(module, nn.Linear):
                inputs = self.linear(inputs, module.weight.T, module.bias)
            elif not isinstance(module, nn.Dropout):  # the identity while acting
                inputs = self.activation(inputs, module)
        return inputs

    def serialized(self, name: str, **outputs: tuple[str, Any, Sequence[int]]) -> bytes:
        """Returns the model as bytes; ``outputs`` are values with their type and shape without the batch."""
        for output, (value, _, _) in outputs.items():
            self._rename(value, output)
        results = [self._value(output, dtype, shape) for output, (_, dtype, shape) in outputs.items()]
        make = self._onnx.helper
        graph = make.make_graph(self._nodes, name, self._inputs, results, [*self._constants.values()])
        opsets = [make.make_opsetid("", OPSET)]
        model = make.make_model(graph, producer_name="sb3_pvp", opset_imports=opsets, ir_version=_IR_VERSION)
        self._onnx.checker.check_model(model)
        return bytes(model.SerializeToString(deterministic=True))

    def _rename(self, value: str, name: str) -> None:
        for node in self._nodes:
            for names in (node.input, node.output):
                names[:] = [name if each == value else each for each in names]

    def _value(self, name: str, dtype: Any, shape: Sequence[int]) -> Any:
        make = self._onnx.helper
        return make.make_tensor_value_info(name, make.np_dtype_to_tensor_dtype(np.dtype(dtype)), ["batch", *shape])


@dataclass(frozen=True)
class _Heads:
    """How heads decide, given a *state* ``(batch, K)`` that each choice adds a row of a table to.

    The first columns of the state are the scores of all entries: logits, without the network of heads with hidden
    layers, and penalties. Then come the actions, the outputs of the first layers of heads with hidden layers and, if
    any entry has a ``require_any``, for each entry how many choices have satisfied it. If no choice matters to later
    heads, there are only the scores, and the table is zero.
    """

    sizes: tuple[int, ...]
    table: Floats  #: ``(A, K)``: choosing the entry of a row adds that row to the state.
    hidden: dict[int, tuple[slice, Steps]]  #: Heads with hidden layers: columns of the state, and what follows.
    unmet: Floats  #: ``(A,)``, as in `HeadTables`.

    @property
    def starts(self) -> list[int]:
        """The first entry of each head."""
        return [int(start) for start in np.cumsum([0, *self.sizes[:-1]])]

    def entries(self, head: int) -> slice:
        """The entries of a head."""
        return slice(self.starts[head], self.starts[head] + self.sizes[head])

    def is_alone(self, head: int) -> bool:
        """Whether a head cannot be in a stage with others."""
        return head in self.hidden or bool(self.unmet[self.entries(head)].any())

    def stages(self) -> list[_Stage]:
        """Groups consecutive heads that are decided at once."""
        groups: list[list[int]] = []
        is_open = False
        for head, size in enumerate(self.sizes):
            num_leaves = prod(self.sizes[each] for each in groups[-1]) * size if is_open else 0
            if is_open and num_leaves <= _MAX_LEAVES and not self.is_alone(head):
                groups[-1].append(head)
            else:
                groups.append([head])
            is_open = not self.is_alone(head)
        return [_Stage.of(self, group) for group in groups]


@dataclass(frozen=True)
class _Stage:
    """Heads that are decided at once: each decides in all its *contexts*, the choices of earlier heads of the stage.

    A *decision* is a head in a context.
    """

    heads: list[int]
    levels: list[int]  #: How many contexts each head has.
    columns: Integers  #: ``(decisions, widest head)``: the entries, padded.
    effects: Floats  #: ``(decisions, widest head)``: what the context adds to their scores.
    pointers: Integers  #: ``(decisions,)``: which context of the next head the first entry leads to.

    @classmethod
    def of(cls, heads: _Heads, group: list[int], independent: bool = False) -> _Stage:
        """Makes the stage of some heads; independent ones have one context each."""
        widest = max(heads.sizes[head] for head in group)
        columns, effects, pointers, levels = [], [], [], []
        for number, head in enumerate(group):
            before = [] if independent else group[:number]
            contexts = [*product(*(range(heads.sizes[each]) for each in before))]
            own, gap = heads.entries(head), (0, widest - heads.sizes[head])
            for place, context in enumerate(contexts):
                earlier = [heads.starts[each] + choice for each, choice in zip(before, context, strict=True)]
                columns.append(np.pad(np.arange(own.start, own.stop), gap))
                effects.append(np.pad(heads.table[earlier, own].sum(0), gap, constant_values=_PADDING))
                pointers.append(place * heads.sizes[head])
            levels.append(len(contexts))
        return cls(group, levels, np.array(columns), np.array(effects), np.array(pointers))

    @property
    def head_of(self) -> list[int]:
        """The head of each decision."""
        return [head for head, count in zip(self.heads, self.levels, strict=True) for _ in range(count)]


def actor_graph(policy: MaskableActorCriticPolicy) -> bytes:
    """Returns the graph that acts, an ONNX model; ``docs/fighter-files.md`` lists its inputs and outputs.

    Raises `ValueError` if ONNX is not installed, or the policy sees other things than frames of features under
    ``"observation"``, the mask and the privileged part.
    """
    graph = _Graph()
    observation = graph.input(OBSERVATION, np.float32, *_frame_shapes(policy)[OBSERVATION])
    if isinstance(policy, AutoregressivePolicy):
        heads = HeadTables(policy.heads)
        mask = graph.input(ACTION_MASK, np.bool_, len(heads.table))
        features = _normalized(graph, observation, policy, 0)
        latent = graph.network(features, [*policy.extractors[0], *policy.actor])
        return _decided(graph, *_own_state(graph, latent, mask, policy.heads, heads))
    sizes = _head_sizes(policy.action_space)
    mask = graph.input(ACTION_MASK, np.bool_, sum(sizes))
    extractor: Any = policy.mlp_extractor
    features = _plain_features(graph, policy, observation, mask)
    logits = graph.network(features, [*_without_privileged(policy, [*extractor.policy_net, policy.action_net])])
    state = graph("Where", mask, logits, graph.constant(FORBIDDEN))
    nothing = np.zeros((sum(sizes), sum(sizes)), np.float32)
    return _decided(graph, state, _Heads(sizes, nothing, {}, nothing[0]))


def critic_graph(policy: MaskableActorCriticPolicy) -> bytes:
    """Returns the graph of values, an ONNX model. Its inputs are those of `actor_graph` that the critic sees, and
    ``privileged`` if it sees that. Raises `ValueError` as `actor_graph` does."""
    graph, shapes = _Graph(), _frame_shapes(policy)
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


def _own_state(
    graph: _Graph, latent: str, mask: str, heads: AutoregressiveHeads, tables: HeadTables
) -> tuple[str, _Heads]:
    """Adds the state of an `AutoregressivePolicy` before any choice."""
    flat, sizes, has_unmet = len(tables.table), tables.head_sizes, bool(tables.unmet.any())
    if heads.future_masks:
        latent = graph("Concat", latent, graph("Cast", mask, to=_FLOAT), axis=1)

    def weights(layers: Sequence[FirstLayer], name: str = "weight") -> Floats:
        return np.concatenate([_array(getattr(layer, name)) for layer in layers], -1)

    def linear(layers: Sequence[FirstLayer], bias: str, before: int = 0, after: int = 0) -> str:
        """The layers side by side, between columns of zeros."""
        rows = [weights(layers), weights(layers, "masks")] if heads.future_masks else [weights(layers)]
        return graph("Gemm", latent, graph.constant(np.pad(np.concatenate(rows), ((0, 0), (before, after)))), bias)

    bias, columns = np.zeros(flat, np.float32), flat + len(sizes)
    actions = np.zeros((flat, len(sizes)), np.float32)
    firsts, hidden, rows = [], dict[int, tuple[slice, Steps]](), [tables.table, actions]
    for head, (start, size, network) in enumerate(zip(tables.starts, sizes, tables.networks, strict=True)):
        actions[start : start + size, head] = np.arange(size)
        if network is not None:
            firsts.append(network.first)
            width, last = len(network.first.bias), network.steps[-1]
            assert isinstance(last, partial)
            bias[start : start + size] = _array(last.args[0])
            hidden[head] = slice(columns, columns + width), network.steps
            columns += width
            choices = network.first.choices
            rows.append(np.zeros((flat, width), np.float32) if choices is None else _array(choices))
    bias = bias if tables.direct is None else bias + _array(tables.direct.bias)
    state = graph("Where", mask, graph.constant(bias), graph.constant(bias + tables.penalties))
    if tables.direct is not None:
        state = linear([tables.direct], state)
    if not (firsts or has_unmet or tables.table.any()):
        return state, _Heads(sizes, tables.table, {}, tables.unmet)
    zeros = len(sizes), flat if has_unmet else 0  # actions, and what satisfies a require_any
    if firsts:
        padded = graph.constant(np.pad(weights(firsts, "bias"), zeros))
        state = graph("Concat", state, linear(firsts, padded, *zeros), axis=1)
    else:
        state = graph("Pad", state, graph.integers([0, 0, 0, sum(zeros)]))
    rows += [tables.permits] if has_unmet else []
    return state, _Heads(sizes, np.concatenate(rows, 1), hidden, tables.unmet)


def _decided(graph: _Graph, state: str, heads: _Heads) -> bytes:
    """Adds the decisions of all heads, and returns the model."""
    flat, num_heads = sum(heads.sizes), len(heads.sizes)
    # A negative number becomes one that no cumulative probability exceeds, which selects the most likely entry.
    uniform = graph("LeakyRelu", graph.input("uniform", np.float32, num_heads), alpha=-1e38)
    if not heads.table.any():
        stage = _Stage.of(heads, [*range(num_heads)], independent=True)
        numbers = graph("Unsqueeze", uniform, graph.integers([2]))
        action, scores = _contexts_decided(graph, state, numbers, stage), state
    else:
        action, scores = _in_stages(graph, state, uniform, heads)
    # From here on, heads are padded to the widest.
    stage = _Stage.of(heads, [*range(num_heads)], independent=True)
    padded = graph("Add", graph("Gather", scores, graph.integers(stage.columns), axis=1), graph.constant(stage.effects))
    log_probs = graph("Flatten", graph("LogSoftmax", padded, axis=2))
    probs = graph("Exp", log_probs)
    widest = stage.columns.shape[1]
    entropy = graph("MatMul", graph("Mul", probs, log_probs), graph.constant(-np.eye(num_heads).repeat(widest, axis=0)))
    first = np.arange(num_heads) * widest
    chosen = graph("GatherElements", log_probs, graph("Add", action, graph.integers(first)), axis=1)
    log_prob = graph("ReduceSum", chosen, graph.integers([1]), keepdims=0)
    places = np.concatenate([start + np.arange(size) for start, size in zip(first, heads.sizes, strict=True)])
    probability = graph("Gather", probs, graph.integers(places), axis=1)
    return graph.serialized(
        "actor",
        action=(action, np.int64, [num_heads]),
        log_prob=(log_prob, np.float32, ()),
        entropy=(entropy, np.float32, [num_heads]),
        probability=(probability, np.float32, [flat]),
    )


def _in_stages(graph: _Graph, state: str, uniform: str, heads: _Heads) -> tuple[str, str]:
    """Adds the decisions of heads that depend on each other; returns actions ``(batch, heads)``, and the scores of all
    entries when their heads decided, in the first columns: later choices have not changed them."""
    flat, stages = len(heads.table), heads.stages()
    joint = [stage for stage in stages if not heads.is_alone(stage.heads[0])]
    of_joint, of_alone = list[str](), list[str]()
    if joint:
        numbers = graph(
            "Gather", uniform, graph.integers([[head] for stage in joint for head in stage.head_of]), axis=1
        )
        of_joint = graph.split(numbers, [len(stage.pointers) for stage in joint])
    if len(joint) < len(stages):
        of_alone = graph.split(uniform, [1] * len(heads.sizes))
    alone: dict[int, str] = {}
    for stage in stages:
        head = stage.heads[0]
        if heads.is_alone(head):
            alone[head] = _own_scores(graph, state, heads, head)
            leaf = _drawn(graph, alone[head], of_alone[head], 1)
        else:
            drawn = _contexts_decided(graph, state, of_joint.pop(0), stage)
            leaf = _leaf(graph, drawn, stage)
        entries = [*product(*(range(entries.start, entries.stop) for entries in map(heads.entries, stage.heads)))]
        added = graph("Gather", graph.constant(heads.table[np.array(entries)].sum(1)), leaf)
        state = graph("Add", state, added)
    action = graph("Cast", graph.columns(state, slice(flat, flat + len(heads.sizes))), to=_INT64)
    if not alone:
        return action, state
    every = [alone.get(head) or graph.columns(state, heads.entries(head)) for head in range(len(heads.sizes))]
    return action, graph("Concat", *every, axis=1)


def _contexts_decided(graph: _Graph, state: str, uniform: str, stage: _Stage) -> str:
    """Adds the choices ``(batch, decisions)`` of a stage; ``uniform`` are the numbers ``(batch, decisions, 1)``."""
    scores = graph("Gather", state, graph.integers(stage.columns), axis=1)
    return _drawn(graph, graph("Add", scores, graph.constant(stage.effects)), uniform, 2)


def _leaf(graph: _Graph, drawn: str, stage: _Stage) -> str:
    """Adds the number ``(batch,)`` of the combination of choices that was drawn in a stage: each level of decisions
    points into the next one."""
    if len(stage.levels) == 1:
        return graph("Squeeze", drawn, graph.integers([1]))
    pointer, *levels, last = graph.split(graph("Add", drawn, graph.integers(stage.pointers)), stage.levels)
    for level in levels:
        pointer = graph("GatherElements", level, pointer, axis=1)
    return graph("GatherND", last, pointer, batch_dims=1)


def _own_scores(graph: _Graph, state: str, heads: _Heads, head: int) -> str:
    """Adds the scores ``(batch, size)`` of a head with hidden layers or a ``require_any``."""
    own, (flat, width) = heads.entries(head), heads.table.shape
    scores = graph.columns(state, own)
    if head in heads.hidden:
        columns, steps = heads.hidden[head]
        hidden = graph.columns(state, columns)
        for step in steps:
            if not isinstance(step, partial):
                hidden = graph.activation(hidden, step)
            elif step is steps[-1]:  # its bias is among the scores
                scores = graph("Gemm", hidden, graph.constant(_array(step.keywords["mat2"])), scores)
            else:
                hidden = graph.linear(hidden, step.keywords["mat2"], step.args[0])
    if heads.unmet[own].any():
        first = width - flat + own.start
        granted = graph.columns(state, slice(first, first + heads.sizes[head]))
        met = graph("Greater", granted, graph.constant(0.0))
        missing = graph("Where", met, graph.constant(0.0), graph.constant(heads.unmet[own]))
        scores = graph("Add", scores, missing)
    return scores


def _drawn(graph: _Graph, scores: str, uniform: str, axis: int) -> str:
    """Adds draws of entries by inverse cumulative probability, as in `sb3_pvp.policies.kernels.sample_head`.

    It takes the first entry whose cumulative probability exceeds the number, and if none does the most likely one.
    """
    probabilities = graph("Softmax", scores, axis=axis)
    cumulative = graph("CumSum", probabilities, graph.integers(axis))
    candidates = graph("Where", graph("Greater", cumulative, uniform), graph.constant(2.0), probabilities)
    return graph("ArgMax", candidates, axis=axis, keepdims=0)


def _normalized(graph: _Graph, frames: str, policy: AutoregressivePolicy, first: int) -> str:
    """Adds the flat features of frames ``(batch, frames, width)``, whose statistics begin with number ``first``."""
    features = policy.features
    width = _frame_shapes(policy)[PRIVILEGED if first else OBSERVATION][1]
    if features.normalize:
        normalizer, own = features.normalizer, slice(first, first + width)
        frames = graph("Sub", frames, graph.constant(_array(normalizer.mean[own])))
        frames = graph("Mul", frames, graph.constant(_array(normalizer.scale()[own])))
        frames = graph("Clip", frames, *(graph.constant(end) for end in (-normalizer.clip, normalizer.clip)))
    return graph("Flatten", frames)


def _plain_features(graph: _Graph, policy: MaskableActorCriticPolicy, observation: str, mask: str) -> str:
    """Adds the features of a policy of sb3-contrib, without the privileged part."""
    seen = policy.observation_space
    if not isinstance(seen, spaces.Dict):
        return _flat(graph, [observation])
    inputs = {OBSERVATION: observation, ACTION_MASK: mask}
    return _flat(graph, [inputs[key] for key in seen.spaces if key != PRIVILEGED])


def _flat(graph: _Graph, parts: Sequence[str]) -> str:
    flat = [graph("Cast", part, to=_FLOAT) if part == ACTION_MASK else graph("Flatten", part) for part in parts]
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
    frames = policy.features.num_frames if isinstance(policy, AutoregressivePolicy) else _num_frames(parts[OBSERVATION])
    return {key: (frames, spaces.flatdim(part) // frames) for key, part in parts.items()}


def _num_frames(space: Any) -> int:
    return int(space.shape[0]) if len(space.shape) == 2 else 1


def _head_sizes(space: Any) -> tuple[int, ...]:
    return (int(space.n),) if isinstance(space, spaces.Discrete) else tuple(space.nvec.tolist())


def _array(part: Any) -> Floats:
    return part.detach().cpu().numpy() if isinstance(part, th.Tensor) else np.asarray(part, np.float32)
