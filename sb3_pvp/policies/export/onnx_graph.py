"""Policies as ONNX graphs: the whole way from raw observations and masks to actions and values.

A graph is what PyTorch's exporter records of a dense module. With a batch of one, the number of its nodes is what takes
the time, so each head is nine of them, and the rules between heads are part of the matrix that has its effects.
"""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.preprocessing import preprocess_obs
from torch import nn

from sb3_pvp.policies.autoregressive import AutoregressivePolicy
from sb3_pvp.policies.export import ELSEWHERE
from sb3_pvp.policies.features import (
    ACTION_MASK,
    MEMORY,
    NEXT_MEMORY,
    OBSERVATION,
    PRIVILEGED,
    frames_of,
    head_sizes_of,
)
from sb3_pvp.policies.heads import AutoregressiveHeads, DependencyRules
from sb3_pvp.policies.sampling import HeadTables

OPSET = 20  #: Has Gelu; ONNX Runtime knows it since 1.17.
_DOMAIN = "sb3_pvp"  #: Of nodes that `_with_branches` replaces.
_MAX_ENTRIES = (
    2048  #: Of a policy of sb3-contrib, whose file may be small: its graph has a table of entries by entries.
)
_EXPORTER = Lock()  #: PyTorch's exporter works for one thread at a time.
OUTPUTS = ("action", "log_prob", "entropy", "probability")
# A head chooses by logits plus penalties, which decide whatever the logits are, as these are limited to less. The first
# entry has the smaller penalty: a head without a legal entry takes it (training.md §3.6). Legal entries have exactly 0.
_LARGEST_LOGIT, _FIRST, _OTHERS = 2.0**96, -(2.0**104), -(2.0**117)


def actor_graph(policy: MaskableActorCriticPolicy) -> bytes:
    """Returns the graph that acts, an ONNX model; ``docs/fighter-files.md`` lists its inputs and outputs.

    Raises `ValueError` if ONNX is not installed, the policy sees other things than frames of features under
    ``"observation"``, the mask and the privileged part, or has a part that cannot become a graph.
    """
    remembers = getattr(policy, "memory", None) is not None
    return _exported(policy, _ActorModule(policy), (*OUTPUTS, NEXT_MEMORY) if remembers else OUTPUTS)


def critic_graph(policy: MaskableActorCriticPolicy) -> bytes:
    """Returns the graph of values, an ONNX model. Its inputs are those of `actor_graph` that the critic sees, and
    ``privileged`` if it sees that. Raises `ValueError` as `actor_graph` does."""
    return _exported(policy, _CriticModule(policy), ["value"])


class _Hardmax(th.autograd.Function):
    """One-hot rows of the first highest entries: one node, for which PyTorch has no function."""

    @staticmethod
    def forward(ctx: Any, scores: th.Tensor) -> th.Tensor:
        return nn.functional.one_hot(scores.argmax(1), scores.shape[1]).float()

    @staticmethod
    def symbolic(g: Any, scores: Any) -> Any:
        """Returns the node of the graph."""
        return g.op("Hardmax", scores, axis_i=1).setType(scores.type())


class _Branch(th.autograd.Function):
    """Stands for the choice of a head with hidden layers, until `_with_branches`."""

    @staticmethod
    def forward(ctx: Any, head: int, scores: th.Tensor, *_: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        return scores.clone(), scores.clone()

    @staticmethod
    def symbolic(g: Any, head: int, scores: Any, *others: Any) -> Any:
        """Returns the node of the graph."""
        nodes = g.op(f"{_DOMAIN}::Head", scores, *others, head_i=head, outputs=2)
        return tuple(node.setType(scores.type()) for node in nodes)


def _drawn(scores: th.Tensor, threshold: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
    """Returns the choice of a head, one-hot, and the probabilities of its entries, both ``(batch, size)``.

    The same in Numba: `sb3_pvp.policies.kernels.sample_head`. It takes the first entry whose cumulative
    probability exceeds the threshold, and if none does the most likely one.
    """
    # What the threshold selects has 1, more than the share of any other: the first of these is taken.
    shares = scores.softmax(1)
    exceeds = (shares.cumsum(1) > threshold).float()
    return _Hardmax.apply(th.maximum(exceeds, shares)), shares  # type: ignore[no-untyped-call]


class _DeepHead(nn.Module):
    """A head with hidden layers, in rows where it may have a choice."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(
        self, scores: th.Tensor, threshold: th.Tensor, latent: th.Tensor, chosen: th.Tensor
    ) -> tuple[th.Tensor, th.Tensor]:
        """Does the same as `_drawn`; ``scores`` are 0 where an entry is legal."""
        logits = self.layers(th.cat([latent, chosen], 1)).clamp(-_LARGEST_LOGIT, _LARGEST_LOGIT)
        return _drawn(scores + logits, threshold)


class HeadsModule(nn.Module):
    """The choices of all heads of a policy, one after the other."""

    @th.no_grad()
    def __init__(self, heads: AutoregressiveHeads) -> None:
        super().__init__()
        tables = HeadTables(heads)
        self.sizes, self.starts, self.sees_masks = tables.head_sizes, tables.starts, heads.future_masks
        self.latent_width = heads.num_inputs + (tables.table.shape[0] if heads.future_masks else 0)
        starts, head_of = tables.starts, heads.rules.head_of.cpu()
        ends = starts + np.array(self.sizes)
        direct = tables.direct
        self.direct = None if direct is None else _linear(direct.bias, direct.weight, direct.masks)
        self.deep = {
            head: _DeepHead(_layers(network, starts[head]))
            for head, network in enumerate(tables.networks)
            if network is not None
        }
        self.penalties = th.full((len(head_of),), _OTHERS)
        self.penalties[starts] = _FIRST
        table = th.from_numpy(tables.table)
        # Rules become finite penalties: in a product with one-hot choices, 0 times -inf would be NaN.
        effects = th.where(table.isneginf(), self.penalties, table.clamp(-_LARGEST_LOGIT, _LARGEST_LOGIT))
        permits, unmet = th.from_numpy(tables.permits), self.penalties * th.from_numpy(tables.asks_any)
        spans = [*zip(starts, ends, strict=True)]
        #: Per head: what each choice of earlier heads adds to its scores, ``(earlier entries, size)``.
        self.effects = [effects[:start, start:end].contiguous() for start, end in spans]
        self.permits = [permits[:start, start:end] for start, end in spans]
        self.unmet = [unmet[start:end] for start, end in spans]
        self.of_head = heads.rules.membership.cpu()
        self.entries = self.of_head * (th.arange(len(head_of)) - th.from_numpy(starts)[head_of])[:, None]

    def forward(self, latent: th.Tensor, mask: th.Tensor, uniform: th.Tensor) -> tuple[th.Tensor, ...]:
        """Returns the outputs of `actor_graph` for the trunk's output ``(batch, inputs)``."""
        latent = th.cat([latent, mask.float()], 1) if self.sees_masks else latent
        logits = th.zeros(()) if self.direct is None else self.direct(latent).clamp(-_LARGEST_LOGIT, _LARGEST_LOGIT)
        bases = th.split(th.where(mask, logits, self.penalties), [*self.sizes], 1)
        # A negative number becomes one that no cumulative probability exceeds, which selects the most likely entry.
        thresholds = th.split(nn.functional.leaky_relu(uniform, -1e38), 1, 1)
        chosen, probabilities = mask[:, :0].float(), []
        for head, (scores, threshold) in enumerate(zip(bases, thresholds, strict=True)):
            if self.effects[head].any():
                scores = th.addmm(scores, chosen, self.effects[head])
            if self.unmet[head].any():
                scores = scores + th.where(chosen @ self.permits[head] > 0, 0.0, self.unmet[head])
            if head in self.deep:
                has_choice = scores.logsumexp(1).amax() > 0.5  # of a single legal entry it is 0
                choice, shares = _Branch.apply(head, scores, threshold, latent, chosen, has_choice)  # type: ignore[no-untyped-call]
            else:
                choice, shares = _drawn(scores, threshold)
            chosen = th.cat([chosen, choice], 1) if head else choice
            probabilities.append(shares)
        probability = th.cat(probabilities, 1)
        logs = probability.clamp(min=th.finfo(th.float32).tiny).log()
        entropy = (probability * logs) @ -self.of_head
        return (chosen @ self.entries).long(), (chosen * logs).sum(1), entropy, probability


def _layers(network: Any, start: int) -> list[nn.Module]:
    """Returns the layers of a head whose first entry is number ``start``."""
    first = network.first
    choices = first.weight.new_zeros(start, len(first.bias)) if first.choices is None else first.choices[:start]
    layers: list[nn.Module] = [_linear(first.bias, first.weight, first.masks, choices)]
    for step in network.steps:
        if isinstance(step, partial):
            layers.append(_linear(step.args[0], step.keywords["mat2"]))
        else:
            layers.append(nn.ReLU() if step is th.relu_ else step)
    return layers


def _linear(bias: th.Tensor, *weights: th.Tensor | None) -> nn.Linear:
    """Returns a layer on inputs beside each other, given the weights ``(inputs, outputs)`` of each."""
    weight = th.cat([part for part in weights if part is not None])
    linear = nn.Linear(*weight.shape)
    linear.weight.data, linear.bias.data = weight.T.contiguous().cpu(), bias.clone().cpu()
    return linear


class _Trunk(nn.Module):
    """Networks of an `AutoregressivePolicy` behind each other, from the parts ``keys`` of the observation."""

    def __init__(self, policy: AutoregressivePolicy, keys: Sequence[str], *modules: nn.Module) -> None:
        super().__init__()
        features, normalizer = policy.features, policy.observation_normalizer
        self.keys, self.network = keys, copy.deepcopy(nn.Sequential(*modules)).cpu()
        self.normalize, self.clip = features.normalize, normalizer.clip
        self.mean, self.scale = (part.clone().cpu() for part in (normalizer.mean, normalizer.scale()))

    def forward(self, parts: dict[str, th.Tensor]) -> th.Tensor:
        """Returns the output for frames ``(batch, frames, width)``; statistics are of one part after the other."""
        features, first = [], 0
        for frames in (parts[key] for key in self.keys):
            own = slice(first, first := first + frames.shape[2])
            if self.normalize:
                frames = ((frames - self.mean[own]) * self.scale[own]).clamp(-self.clip, self.clip)
            features.append(frames.flatten(1))
        output: th.Tensor = self.network(th.cat(features, 1) if len(features) > 1 else features[0])
        return output


class _RememberingTrunk(nn.Module):
    """A trunk of a policy with memory: the ``own`` features and what is remembered, then ``modules``."""

    def __init__(self, policy: AutoregressivePolicy, own: _Trunk, *modules: nn.Module) -> None:
        super().__init__()
        self.own, self.public = own, _Trunk(policy, [OBSERVATION], *policy.extractors[0])
        self.memory, self.network = copy.deepcopy(policy.memory).cpu(), copy.deepcopy(nn.Sequential(*modules)).cpu()  # type: ignore[union-attr]

    def forward(self, parts: dict[str, th.Tensor]) -> tuple[th.Tensor, th.Tensor]:
        """Returns the output and the next states; `MEMORY` is zero where an episode begins."""
        state = parts[MEMORY]
        remembered, following = self.memory.step(self.public(parts), state, th.zeros_like(state[:, 0], dtype=th.bool))
        return self.network(th.cat([self.own(parts), remembered], 1)), following


class _StockTrunk(nn.Module):
    """Networks of a policy of sb3-contrib behind each other: the features extractor, then others."""

    def __init__(self, policy: MaskableActorCriticPolicy, extractor: nn.Module, *modules: nn.Module) -> None:
        super().__init__()
        self.space, self.normalize_images = policy.observation_space, policy.normalize_images
        self.networks = copy.deepcopy(nn.ModuleList([extractor, *modules])).cpu()

    def forward(self, parts: dict[str, th.Tensor]) -> th.Tensor:
        """Returns the output for frames ``(batch, frames, width)``, masks and the privileged part."""
        space = self.space
        seen = space.spaces if isinstance(space, spaces.Dict) else {OBSERVATION: space}
        shaped = {key: parts[key].reshape(-1, *(part.shape or ())) for key, part in seen.items()}
        given = shaped if isinstance(space, spaces.Dict) else shaped[OBSERVATION]
        output: Any = preprocess_obs(given, space, self.normalize_images)
        for network in self.networks:
            output = network(output)
        return output  # type: ignore[no-any-return]


class _ActorModule(nn.Module):
    """What `actor_graph` records; ``inputs`` are the names of its arguments, in order."""

    inputs: tuple[str, ...] = (OBSERVATION, ACTION_MASK, "uniform")

    def __init__(self, policy: MaskableActorCriticPolicy) -> None:
        super().__init__()
        self.shapes = _frame_shapes(policy)
        if isinstance(policy, AutoregressivePolicy):
            if policy.memory is None:
                self.trunk: nn.Module = _Trunk(policy, [OBSERVATION], *policy.extractors[0], *policy.actor)
            else:
                self.inputs = (*self.inputs, MEMORY)
                own = _Trunk(policy, [OBSERVATION], *policy.extractors[0])
                self.trunk = _RememberingTrunk(policy, own, *policy.actor)
            self.heads = HeadsModule(policy.heads)
        else:
            self.trunk = _StockTrunk(policy, policy.pi_features_extractor, policy.mlp_extractor.policy_net)
            self.heads = HeadsModule(_stock_heads(policy))

    def forward(
        self, observation: th.Tensor, mask: th.Tensor, uniform: th.Tensor, memory: th.Tensor | None = None
    ) -> Any:
        """Returns actions, their log-probabilities, entropies of heads and probabilities of entries; and states."""
        parts = {OBSERVATION: observation, ACTION_MASK: mask.float()}
        if PRIVILEGED in self.shapes:  # unknown in a real fight, and only a policy of sb3-contrib sees it
            parts[PRIVILEGED] = observation.new_zeros(observation.shape[0], *self.shapes[PRIVILEGED])
        if memory is None:
            return self.heads(self.trunk(parts), mask, uniform)
        latent, following = self.trunk(parts | {MEMORY: memory})
        return *self.heads(latent, mask, uniform), following


class _CriticModule(nn.Module):
    """What `critic_graph` records; ``inputs`` are the names of its arguments, in order."""

    def __init__(self, policy: MaskableActorCriticPolicy) -> None:
        super().__init__()
        self.inputs, space = (*_frame_shapes(policy),), policy.observation_space
        if isinstance(policy, AutoregressivePolicy):
            last = *policy.critic, policy.value_net
            self.trunk: nn.Module = _Trunk(policy, self.inputs, *policy.extractors[1], *last)
            if policy.memory is not None and policy.memory.settings.critic:
                seen = _Trunk(policy, self.inputs, *policy.extractors[1])
                self.trunk, self.inputs = _RememberingTrunk(policy, seen, *last), (*self.inputs, MEMORY)
            return
        stock = policy.mlp_extractor.value_net, policy.value_net
        self.trunk = _StockTrunk(policy, policy.vf_features_extractor, *stock)
        if isinstance(space, spaces.Dict) and ACTION_MASK in space.spaces:
            self.inputs = (*self.inputs, ACTION_MASK)

    def forward(self, *given: th.Tensor) -> Any:
        """Returns values ``(batch,)``."""
        values = self.trunk(dict(zip(self.inputs, given, strict=True)))
        return (values[0] if MEMORY in self.inputs else values).squeeze(1)


@th.no_grad()
def _stock_heads(policy: MaskableActorCriticPolicy) -> AutoregressiveHeads:
    """Returns the heads of a policy of sb3-contrib as ours, which do not depend on each other."""
    last: Any = policy.action_net
    sizes = head_sizes_of(policy.action_space)
    if sum(sizes) > _MAX_ENTRIES:
        raise ValueError(f"a graph of such a policy has at most {_MAX_ENTRIES} entries of all heads, not {sum(sizes)}")
    heads = AutoregressiveHeads(last.in_features, DependencyRules(sizes), [()] * len(sizes), False, False, False)
    heads.direct.weight.copy_(last.weight)
    heads.direct.bias.copy_(last.bias)
    return heads


def _exported(policy: MaskableActorCriticPolicy, module: _ActorModule | _CriticModule, outputs: Sequence[str]) -> bytes:
    """Returns the graph of a module of a policy."""
    sizes = head_sizes_of(policy.action_space)
    examples = {key: th.zeros(1, *shape) for key, shape in _frame_shapes(policy).items()}
    examples |= {ACTION_MASK: th.ones(1, sum(sizes), dtype=th.bool), "uniform": th.zeros(1, len(sizes))}
    if MEMORY in module.inputs:
        examples[MEMORY] = policy.memory.initial(1).cpu()  # type: ignore[operator, union-attr]
    return exported(module, {name: examples[name] for name in module.inputs}, outputs)


def exported(
    module: nn.Module,
    examples: Mapping[str, th.Tensor],
    outputs: Sequence[str],
    opset: int = OPSET,
    batched: Sequence[str] | None = None,
) -> bytes:
    """Returns the graph of a module, which may have `HeadsModule` as its ``heads``, by an example of each input.

    ``batched`` are the outputs with a row for each of the inputs, by default all.
    """
    try:
        import onnx
    except ImportError as error:
        raise ValueError(
            'graphs need ONNX: pip install "sb3-pvp[onnx]", or leave them out (sb3-pvp export --no-onnx)'
        ) from error
    try:
        model = _recorded(module, examples, outputs, opset, batched)
        if isinstance(heads := getattr(module, "heads", None), HeadsModule):
            _with_branches(model, heads)
        onnx.checker.check_model(model, full_check=True)
        graph = bytes(model.SerializeToString(deterministic=True))
        if ELSEWHERE in graph:  # readers would take it for one that refers to other files
            raise ValueError(f"rename its parts that have {ELSEWHERE.decode()!r} in their names")
    except Exception as error:  # of whatever the class of a user's features extractor does
        raise ValueError(f"the policy cannot become a graph: {' '.join(str(error).split()):.200}") from error
    return graph


@th.no_grad()
def _recorded(
    module: nn.Module,
    examples: Mapping[str, th.Tensor],
    outputs: Sequence[str],
    opset: int = OPSET,
    batched: Sequence[str] | None = None,
) -> Any:
    """Returns the ONNX model of a module, given an example of each input by name."""
    import onnx

    file = io.BytesIO()
    with _EXPORTER, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its exporter that needs no further package is called legacy
        th.onnx.export(
            module.eval().requires_grad_(False),
            tuple(examples.values()),
            file,  # type: ignore[arg-type]
            input_names=[*examples],
            output_names=[*outputs],
            dynamic_axes={name: {0: "batch"} for name in (*examples, *(outputs if batched is None else batched))},
            opset_version=opset,
            dynamo=False,
        )
    return onnx.load_from_string(file.getvalue())


def _with_branches(model: Any, heads: HeadsModule) -> None:
    """Replaces each `_Branch` of a model by a branch: hidden layers only run if the head has a choice in some row."""
    import onnx

    make, names = onnx.helper, ["scores", "threshold", "latent", "chosen"]
    for node in [each for each in model.graph.node if each.domain == _DOMAIN]:
        head, (*given, has_choice) = node.attribute[0].i, node.input
        widths = heads.sizes[head], 1, heads.latent_width, int(heads.starts[head])
        examples = {name: th.zeros(1, width) for name, width in zip(names, widths, strict=True)}
        deep = onnx.compose.add_prefix(_recorded(heads.deep[head], examples, ["choice", "shares"]), f"head_{head}/")
        # A branch has no inputs: it sees the values outside.
        outside = [
            make.make_node("Identity", [value], [f"head_{head}/{name}"])
            for value, name in zip(given, names, strict=True)
        ]
        results = [f"head_{head}/only_{name}" for name in ("choice", "shares")]
        only = [
            make.make_node("Hardmax", given[:1], results[:1], axis=1),
            make.make_node("Identity", results[:1], results[1:]),
        ]
        infos = [make.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in results]
        inside: Any = [*outside, *deep.graph.node], "then", [], deep.graph.output, deep.graph.initializer
        branches = {"then_branch": make.make_graph(*inside), "else_branch": make.make_graph(only, "else", [], infos)}
        node.CopyFrom(make.make_node("If", [has_choice], node.output, **branches))
    used = [each for each in model.opset_import if each.domain != _DOMAIN]
    del model.opset_import[:]
    model.opset_import.extend(used)


def _frame_shapes(policy: MaskableActorCriticPolicy) -> dict[str, tuple[int, int]]:
    """Returns frames and features of each part of the observation but the mask, as the graphs see them."""
    space = policy.observation_space
    parts = dict(space.spaces) if isinstance(space, spaces.Dict) else {OBSERVATION: space}
    parts.pop(ACTION_MASK, None)
    if OBSERVATION not in parts or parts.keys() - {OBSERVATION, PRIVILEGED}:
        raise ValueError(f"a graph needs an observation with the part {OBSERVATION!r} and no others, not {space}")
    frames, _ = frames_of(parts[OBSERVATION])
    known = {key: parts[key] for key in (OBSERVATION, PRIVILEGED) if key in parts}
    return {key: (frames, spaces.flatdim(part) // frames) for key, part in known.items()}
