"""Sampling actions head by head, as fast as possible, and inference-only policies.

Whatever is constant while a policy acts is precomputed: how choosing an entry affects the logits of later heads is one
row of a table. Heads without hidden layers run in compiled loops (`sb3_pvp.policies.kernels`), because a PyTorch
or NumPy call would cost more than the work it does. Heads with hidden layers only run on rows that leave them a choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate, chain
from typing import Any, cast

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.distributions import MaskableDistribution, MaybeMasks
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from torch import nn

from sb3_pvp.policies.features import ACTION_MASK, OBSERVATION, PRIVILEGED, ShapedFeatures, make_extractor
from sb3_pvp.policies.heads import HEAD_FLAGS, AutoregressiveHeads, BatchedLinear, DependencyRules, HeadGroup
from sb3_pvp.policies.memory import Remembered, read_memory
from sb3_pvp.policies.networks import (
    LEAST_COLUMNS,
    LEAST_ROWS,
    LEAST_ROWS_OF_LINEAR,
    MAX_INPUTS_LAID_OUT,
    RunningNormalizer,
    apply_layers,
    filled,
    make_network,
    parse_architectures,
)


@dataclass(frozen=True)
class FirstLayer:
    """The first layer of one head, or of all heads without hidden layers; matrices are ``(inputs, outputs)``."""

    weight: th.Tensor  #: For the trunk's output.
    bias: th.Tensor
    choices: th.Tensor | None  #: For the one-hot choices of all heads; ``None`` without autoregression.
    masks: th.Tensor | None  #: For the action masks; ``None`` without ``future_masks``.

    @classmethod
    def split(cls, heads: AutoregressiveHeads, weight: th.Tensor, bias: th.Tensor, visible: th.Tensor) -> FirstLayer:
        """Splits ``weight (inputs, outputs)``; ``visible (extra inputs, outputs or 1)`` is 0 for hidden inputs."""
        flat = heads.rules.num_flat
        of_latent, of_extra = weight[: heads.num_inputs].contiguous(), weight[heads.num_inputs :] * visible
        masks = of_extra[-flat:].contiguous() if heads.future_masks else None
        if not heads.autoregressive:
            return cls(of_latent, bias.clone(), None, masks)
        # The encoding of an entry has only two values, so normalisation folds into the layer: the encoding of "nothing
        # chosen" goes into the bias, and each choice adds one scaled row.
        unchosen, chosen = heads.encode(weight.new_tensor([[0.0], [1.0]]).expand(2, flat))
        choices = of_extra[:flat] * (chosen - unchosen)[:, None]
        return cls(of_latent, bias + unchosen @ of_extra[:flat], choices.contiguous(), masks)

    def before_choices(self, latent: th.Tensor, masks: th.Tensor) -> th.Tensor:
        """Returns the outputs ``(batch, outputs)`` while no head has chosen yet."""
        bias, weight, of_masks = self._wide
        outputs = th.addmm(bias, filled(latent), weight)
        outputs = outputs if of_masks is None else outputs.addmm_(filled(masks).float(), of_masks)
        return outputs[: len(latent), : len(self.bias)].contiguous()

    @cached_property
    def _wide(self) -> tuple[th.Tensor, th.Tensor, th.Tensor | None]:
        """Bias, weight and masks with enough columns."""
        return _widened(self.bias), _widened(self.weight), None if self.masks is None else _widened(self.masks)


@dataclass(frozen=True)
class _Network:
    """A head with hidden layers: its first layer, and the functions that follow it."""

    first: FirstLayer
    bias: NDArray[np.float32]  #: That of the first layer, on the CPU.
    choices: NDArray[np.float32]  #: Those of the first layer, on the CPU; without autoregression empty.
    steps: Sequence[Callable[[th.Tensor], th.Tensor]]
    last: Callable[[th.Tensor], th.Tensor]  #: The last of the steps, with enough columns.
    size: int  #: The number of entries.

    @classmethod
    def of(cls, heads: AutoregressiveHeads, head: int, group: HeadGroup) -> _Network:
        """Takes one head out of the batched layers of its group."""
        index, linear = group.heads.index(head), group.linear_layers()
        weight, bias, visible = linear[0].weight[index], linear[0].bias[index, 0], heads.visible[head][:, None]
        steps: list[Callable[[th.Tensor], th.Tensor]] = []
        for module in list(group.network)[1:]:
            if isinstance(module, BatchedLinear):
                # Only the last layer is padded: the logits of a group are as wide as the widest head.
                width = heads.rules.head_sizes[head] if module is linear[-1] else module.weight.shape[2]
                of_bias, of_head = module.bias[index, 0, :width], module.weight[index, :, :width].contiguous()
                steps.append(partial(th.addmm, of_bias, mat2=of_head))
                last = partial(th.addmm, _widened(of_bias), mat2=_widened(of_head))
            elif isinstance(module, nn.ReLU):
                steps.append(th.relu_)  # a call of a module takes several times as long
            elif not isinstance(module, nn.Dropout):  # the identity while acting
                steps.append(module)
        first = FirstLayer.split(heads, weight, bias, visible)
        choices = (weight[:0] if first.choices is None else first.choices).cpu().numpy()
        return cls(first, first.bias.cpu().numpy(), choices, steps, last, heads.rules.head_sizes[head])

    @th.no_grad()
    def logits(
        self, latent: th.Tensor, masks: th.Tensor, rows: NDArray[np.int64], entries: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Returns logits ``(rows, size)`` for some rows; ``entries`` are the flat ones that the earlier heads chose in
        all rows, ``(batch, earlier heads)``."""
        from sb3_pvp.policies.kernels import sum_rows  # Numba takes long to import

        num_rows, rows = len(rows), np.resize(rows, max(len(rows), LEAST_ROWS))
        picked = th.from_numpy(rows).to(latent.device)
        chosen = th.from_numpy(sum_rows(self.bias, self.choices, entries, rows)).to(latent.device)
        # Not into NumPy's memory, which is aligned by chance: the bits of a product would depend on that.
        hidden = th.addmm(chosen, latent.index_select(0, picked), self.first.weight)
        if self.first.masks is not None:
            hidden = hidden.addmm_(masks.index_select(0, picked).float(), self.first.masks)
        for step in self.steps[:-1]:
            hidden = step(hidden)
        return self.last(hidden)[:num_rows, : self.size].contiguous().cpu().numpy()


def _widened(part: th.Tensor) -> th.Tensor:
    """Returns a vector or matrix with columns of zeros so that it has at least `LEAST_COLUMNS`."""
    return nn.functional.pad(part, (0, max(LEAST_COLUMNS - part.shape[-1], 0)))


class HeadTables:
    """Precomputed tables that `AutoregressiveHeads` act with; valid until their weights or statistics change.

    ``A`` is the number of flat entries, the sub-actions of all heads.

    Attributes:
        key: equal for heads with the same actions and rules, which `sample_actions` can batch.
        table: float ``(A, A)``; choosing the entry of a row adds that row to the logits of later heads, ``-inf`` to
            those that it forbids. Of one head it has a single column, as `permits` has.
        permits: float ``(A, A)``; 1 where choosing the row satisfies a ``require_any`` of the column.
        asks_any: bool ``(A,)``: entries with a ``require_any``.
        direct: the layer of the heads without hidden layers, whose logits it computes; ``None`` if there are none.
        networks: one per head; ``None`` for heads without hidden layers.
        has_networks: whether any head has hidden layers.
    """

    @th.no_grad()
    def __init__(self, heads: AutoregressiveHeads) -> None:
        rules, direct = heads.rules, heads.direct
        self.direct: FirstLayer | None = None
        table = th.zeros_like(rules.forbids).masked_fill(rules.forbids > 0, -th.inf)
        if direct.heads:
            # Heads with hidden layers get zeros, so that the table covers all entries.
            weight = direct.weight.new_zeros(rules.num_flat, direct.weight.shape[1])
            bias = direct.bias.new_zeros(rules.num_flat)
            weight[direct.entries], bias[direct.entries] = direct.weight, direct.bias
            self.direct = FirstLayer.split(heads, weight.T, bias, (rules.membership @ heads.visible).T)
            if self.direct.choices is not None and len(rules.head_sizes) > 1:  # one head has no later ones
                table = table + self.direct.choices
        groups = {head: group for group in heads.groups for head in group.heads}
        self.head_sizes, self.starts = rules.head_sizes, np.array(rules.starts)
        self.networks = [
            _Network.of(heads, head, groups[head]) if head in groups else None for head in range(len(rules.head_sizes))
        ]
        parts = (table, rules.permits, rules.asks_any)
        self.table, self.permits, self.asks_any = (part.cpu().numpy() for part in parts)
        self.has_networks = bool(groups)
        self.key = (self.head_sizes, self.permits.tobytes(), self.asks_any.tobytes())

    def initial_logits(self, latent: th.Tensor, masks: th.Tensor) -> th.Tensor:
        """Returns logits ``(batch, A)`` before any choice, without masks; 0 for heads with hidden layers."""
        if self.direct is None:
            return latent.new_zeros(len(latent), len(self.table))
        return self.direct.before_choices(latent, masks)


def sample_actions(
    tables: Sequence[HeadTables], latents: Sequence[th.Tensor], masks: th.Tensor, uniforms: th.Tensor
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
    """Samples joint actions, int64 ``(batch, heads)``; returns them, their log-probabilities ``(batch,)`` and scores
    ``(batch, A)``, see `sb3_pvp.policies.kernels.sample_heads`.

    Args:
        tables: one per policy; their keys must be equal.
        latents: the trunk output of each policy ``(rows of the policy, inputs)``, without a gradient.
        masks: bool ``(batch, A)``, the rows of one policy after the other.
        uniforms: random numbers in [0, 1), float32 ``(batch, heads)``; a negative one selects the most likely entry.
    """
    from sb3_pvp.policies import kernels  # Numba takes long to import

    like, ends = tables[0], [*accumulate(map(len, latents))]
    spans = [slice(start, end) for start, end in zip((0, *ends), ends, strict=False)]
    initial = [each.initial_logits(own, masks[span]) for each, own, span in zip(tables, latents, spans, strict=True)]
    logits, allowed = (th.cat(initial) if len(initial) > 1 else initial[0]).cpu().numpy(), masks.cpu().numpy()
    # Kernels look up by row which policy it is of: one call for all, where small networks mostly cost calls.
    # Stack the tables: the rows of policy k begin at k * A.
    table = np.concatenate([each.table for each in tables]) if len(tables) > 1 else like.table
    first = np.zeros(len(logits), np.int64)
    for number, span in enumerate(spans[1:], 1):
        first[span] = number * len(like.table)
    numbers, rules = uniforms.numpy(), (table, first, like.permits, like.asks_any)
    if not any(each.has_networks for each in tables):
        return kernels.sample_heads(logits, allowed, numbers, like.starts, *rules)
    scores, granted, actions, log_probs = kernels.begin_heads(logits, allowed, len(like.starts))
    for head, (start, size) in enumerate(zip(like.starts.tolist(), like.head_sizes, strict=True)):
        for each, latent, span in zip(tables, latents, spans, strict=True):
            if (network := each.networks[head]) is not None:
                own = scores[span]
                rows = kernels.rows_with_choice(own, granted[span], start, start + size, like.asks_any)
                if len(rows):
                    entries = actions[span, :head] + like.starts[:head]
                    kernels.add_logits(own, rows, start, network.logits(latent, masks[span], rows, entries))
        kernels.sample_head(scores, granted, head, start, start + size, numbers, *rules, actions, log_probs)
    return actions, log_probs, scores


class AutoregressiveDistribution(MaskableDistribution):
    """The joint distribution of all heads: `act` samples fast, the rest is sb3-contrib's distribution interface.

    `proba_distribution` takes the trunk's output ``(batch, num_inputs)``; everything is legal until `apply_masking`.
    `entropy` is that of the heads given the actions of the last `log_prob`. ``deterministic`` may be one bool per head.
    """

    _entropies: th.Tensor

    def __init__(self, heads: AutoregressiveHeads) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._heads = heads
        #: Identities and versions of the parameters that the tables were built from; empty: they are built again.
        self.built_from: tuple[tuple[int, int], ...] = ()

    def act(
        self,
        latent: th.Tensor,
        masks: th.Tensor,
        deterministic: bool | Sequence[bool] = False,
        uniforms: th.Tensor | None = None,
    ) -> tuple[th.Tensor, th.Tensor]:
        """Samples joint actions, int ``(batch, heads)``, and returns them with their log-probabilities ``(batch,)``.

        ``latent`` is the trunk's output ``(batch, num_inputs)``, ``masks`` are bool ``(batch, A)``; ``deterministic``
        takes the most likely entry of every head, or, as a sequence with one bool per head, of some.
        ``uniforms``, float32 ``(batch, heads)``, are used in place of drawn numbers from [0, 1).
        """
        sizes, given = self._heads.rules.head_sizes, cast("Any", deterministic)
        is_greedy = [*map(bool, given)] if np.ndim(given) else bool(given)
        if isinstance(is_greedy, list) and len(is_greedy) != len(sizes):
            raise ValueError(f"deterministic must be a bool, or {len(sizes)} bools, one per head; got {len(is_greedy)}")
        if is_greedy in (True, [True] * len(sizes)):  # the random stream stays where it is
            uniforms = th.full((len(latent), len(sizes)), -1.0)
        else:
            uniforms = th.rand(len(latent), len(sizes)) if uniforms is None else uniforms
            if is_greedy:
                uniforms[:, is_greedy] = -1.0
        self._refresh_tables()
        actions, log_probs, _ = sample_actions([self._tables], [latent.detach()], masks, uniforms)
        return th.from_numpy(actions).to(latent.device), th.from_numpy(log_probs).to(latent.device)

    def _refresh_tables(self) -> None:
        """Rebuilds the tables if a weight or a statistic has changed, or may have."""
        heads, rules = self._heads, self._heads.rules
        tensors = [heads.normalizer.mean, heads.normalizer.variance, rules.forbids, rules.permits, rules.asks_any]
        # Not `parameters()`, whose walk through all modules takes as long as acting.
        layer: Any
        for layer in (heads.direct, *chain.from_iterable(group.linear_layers() for group in heads.groups)):
            tensors += [layer.weight, layer.bias]
        # In-place changes bump the version; a tensor that was replaced has another address.
        key = tuple([(tensor._version, tensor.data_ptr()) for tensor in tensors])
        if key != self.built_from or heads.training:
            self._tables, self.built_from = HeadTables(heads), key

    def proba_distribution_net(self, *args: Any, **kwargs: Any) -> nn.Module:
        """Returns the heads, which exist already."""
        return self._heads

    def proba_distribution(self, latent: th.Tensor) -> AutoregressiveDistribution:
        """Sets the trunk's output ``(batch, num_inputs)`` and resets the masks."""
        self._latent = latent
        self.apply_masking(None)
        return self

    def apply_masking(self, masks: MaybeMasks) -> None:
        """Sets the flat masks ``(batch, A)``; ``None`` allows everything."""
        shape = (len(self._latent), self._heads.rules.num_flat)
        allowed = th.ones(shape) if masks is None else th.as_tensor(masks)
        self._masks = allowed.to(self._latent.device).bool().reshape(shape)

    def log_prob(self, actions: th.Tensor) -> th.Tensor:
        """Returns log-probabilities ``(batch,)`` of joint actions, and computes what `entropy` returns."""
        actions = actions.long().reshape(len(self._latent), -1)
        log_probs, self._entropies = self._heads(self._latent, self._masks, actions)
        return log_probs.sum(1)  # type: ignore[no-any-return]

    def entropy(self) -> th.Tensor:
        """Returns entropies ``(batch,)``, summed over heads, given the actions of the last `log_prob`."""
        return self._entropies.sum(1)

    def sample(self) -> th.Tensor:
        """Samples joint actions, int ``(batch, heads)``."""
        return self.get_actions(deterministic=False)

    def mode(self) -> th.Tensor:
        """Returns the greedy joint actions: the most likely entry of each head given the heads before it."""
        return self.get_actions(deterministic=True)

    def get_actions(self, deterministic: bool | Sequence[bool] = False) -> th.Tensor:
        """Samples joint actions, int ``(batch, heads)``; ``deterministic`` as in `act`."""
        return self.act(self._latent, self._masks, deterministic)[0]

    def actions_from_params(self, latent: th.Tensor, deterministic: bool = False) -> th.Tensor:
        """Samples joint actions for the trunk's output, with everything allowed."""
        return self.proba_distribution(latent).get_actions(deterministic)

    def log_prob_from_params(self, latent: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Samples joint actions for the trunk's output, and returns them with their log-probabilities."""
        actions = self.actions_from_params(latent)
        return actions, self.log_prob(actions)


class AutoregressiveActor:
    """An `AutoregressivePolicy` for inference, without critic and optimiser.

    ``frame_shape`` is ``(frames, features)``; ``arguments`` are those of the policy, ``weights`` is its state dict, and
    ``space`` that of its observations, by default a Box of frames.
    """

    def __init__(
        self,
        frame_shape: tuple[int, int],
        head_sizes: tuple[int, ...],
        arguments: Mapping[str, Any],
        weights: Mapping[str, th.Tensor],
        space: spaces.Space[Any] | None = None,
    ) -> None:
        self.frame_shape, self.head_sizes = frame_shape, head_sizes
        of_features, of_actor, _, of_heads = parse_architectures(arguments, len(head_sizes))
        space = spaces.Box(-np.inf, np.inf, frame_shape) if space is None else space
        if isinstance(name := arguments.get("features_extractor_class"), str):
            from sb3_pvp.policies.extractors import find_extractor

            arguments = {**arguments, "features_extractor_class": find_extractor(name)}
        extractor, width = make_extractor(space, arguments, of_features, frame_shape[0] * frame_shape[1])
        settings = read_memory(arguments["memory"]) if arguments.get("memory") else None
        self.memory = None if settings is None else settings.make(width)
        actor, width = make_network(width + (settings.size if settings else 0), of_actor)
        flags = [arguments[flag] for flag in HEAD_FLAGS]
        heads = AutoregressiveHeads(width, DependencyRules(head_sizes), of_heads, *flags)
        normalizer = RunningNormalizer(
            len(weights["features_extractor.normalizer.mean"]), scale_constants=arguments["scale_constants"]
        )
        # The names must be those of the policy's state dict.
        features = nn.ModuleDict({"normalizer": normalizer})
        parts = {"features_extractor": features, "extractors": nn.ModuleList([extractor])}
        parts |= {"actor": actor, "action_net": heads} | ({} if self.memory is None else {"memory": self.memory})
        network = nn.ModuleDict(parts).eval().requires_grad_(False)
        network.load_state_dict({name: weights[name] for name in network.state_dict()})
        self._normalize, self._clip = bool(arguments["normalize_observations"]), normalizer.clip
        self._mean, self._scale = (part[: frame_shape[1]].numpy() for part in (normalizer.mean, normalizer.scale()))
        self._trunk = extractor, actor
        layers = [layer for network in self._trunk for layer in network if isinstance(layer, nn.Linear)]
        is_narrow = all(layer.in_features <= MAX_INPUTS_LAID_OUT for layer in layers)
        is_narrow &= not any(isinstance(layer, ShapedFeatures) for layer in extractor)
        for layer in layers if is_narrow else ():
            layer.weight.data = layer.weight.t().contiguous().t()
        self._least_rows = LEAST_ROWS if is_narrow else LEAST_ROWS_OF_LINEAR
        self.tables = HeadTables(heads)

    def latent(self, observations: th.Tensor, remembered: Remembered | None = None) -> th.Tensor:
        """Returns the trunk's output ``(batch, inputs)`` for raw observations ``(batch, frames, features)``.

        With memory, ``remembered`` is what the rows remember, and gets the next states.
        """
        num_rows, observations = len(observations), filled(observations, self._least_rows)
        latent = observations.flatten(1)
        if self._normalize:
            from sb3_pvp.policies.kernels import normalize  # Numba takes long to import

            raw, latent, width = observations.contiguous().numpy(), th.empty_like(latent), observations.shape[2]
            normalize(raw, self._mean, self._scale, self._clip, latent.numpy(), 0, width)
        extractor, actor = self._trunk
        latent = apply_layers(extractor, latent)
        if self.memory is not None and remembered is not None:
            own = self.memory.act(latent[:num_rows], remembered)
            latent = th.cat([latent, filled(own, self._least_rows)], 1)
        return apply_layers(actor, latent)[:num_rows]


def sample_independently(
    logits: NDArray[np.float32], masks: NDArray[np.bool_], uniforms: NDArray[np.float32], head_sizes: tuple[int, ...]
) -> NDArray[np.int64]:
    """Returns legal actions ``(batch, heads)`` of heads without rules; arguments as in `kernels.sample_heads`."""
    from sb3_pvp.policies.kernels import sample_heads  # Numba takes long to import

    starts, flat = np.cumsum((0, *head_sizes[:-1])), sum(head_sizes)
    # Of one head the kernel reads nothing there, and the actions of a game may be thousands.
    nothing, first = np.zeros((flat, flat if len(head_sizes) > 1 else 1), np.float32), np.zeros(len(logits), np.int64)
    given = logits.clip(min=np.finfo(np.float32).min), masks, uniforms, starts
    return sample_heads(*given, nothing, first, nothing, np.zeros(flat, np.bool_))[0]


class PlainActor:
    """Any other masked policy, with independent heads, for inference."""

    def __init__(
        self, policy: MaskableActorCriticPolicy, frame_shape: tuple[int, int], head_sizes: tuple[int, ...]
    ) -> None:
        self.frame_shape, self.head_sizes, self._policy = frame_shape, head_sizes, policy

    def act(self, observations: th.Tensor, masks: th.Tensor, uniforms: th.Tensor) -> th.Tensor:
        """Returns legal actions, int64 ``(batch, heads)``; arguments as in `act_batched`."""
        space, num_rows = self._policy.observation_space, len(observations)
        observations, masks = (filled(part, LEAST_ROWS_OF_LINEAR) for part in (observations, masks))
        seen: Any = observations.reshape(-1, *(space.shape or ()))
        if isinstance(space, spaces.Dict):
            own = observations.reshape(-1, *(space[OBSERVATION].shape or ()))
            seen = {OBSERVATION: own, ACTION_MASK: masks.float()}
            if PRIVILEGED in space.spaces:  # only the critic reads it; unknown in a real fight
                seen[PRIVILEGED] = th.zeros(len(observations), *(space[PRIVILEGED].shape or ()))
            seen = {key: seen[key] for key in space.spaces}
        # Without masks: what they forbid sb3-contrib gives a logit, which is more than some others.
        heads = self._policy.get_distribution(seen).distributions  # type: ignore[attr-defined]
        logits = th.cat([head.logits[:num_rows] for head in heads], 1)
        given = logits.numpy(), masks[:num_rows].numpy(), uniforms.numpy()
        return th.from_numpy(sample_independently(*given, self.head_sizes))


Actor = AutoregressiveActor | PlainActor


@th.inference_mode()
def act_batched(
    actors: Sequence[Actor],
    observations: Sequence[th.Tensor],
    masks: th.Tensor,
    uniforms: th.Tensor,
    remembered: Remembered | None = None,
) -> th.Tensor:
    """Returns legal actions of several actors, int64 ``(batch, heads)``, in as few batches as possible.

    Args:
        actors: must have the same heads.
        observations: one tensor per actor, float32 ``(rows of the actor, frames, features)``, raw, newest frame first.
        masks: bool ``(batch, A)``, the rows of one actor after the other.
        uniforms: as in `sample_actions`.
        remembered: of a single actor with memory, see `AutoregressiveActor.latent`.
    """
    groups: dict[object, list[int]] = {}
    for index, actor in enumerate(actors):
        groups.setdefault(actor.tables.key if isinstance(actor, AutoregressiveActor) else index, []).append(index)
    if len(groups) == 1:
        return _act_group(actors, observations, masks, uniforms, remembered)
    rows = th.split(th.arange(len(masks)), [len(part) for part in observations])
    actions = th.empty(len(masks), len(actors[0].head_sizes), dtype=th.int64)
    for members in groups.values():
        picked = th.cat([rows[index] for index in members])
        own, seen = [actors[index] for index in members], [observations[index] for index in members]
        actions[picked] = _act_group(own, seen, masks[picked], uniforms[picked])
    return actions


def _act_group(
    actors: Sequence[Actor],
    observations: Sequence[th.Tensor],
    masks: th.Tensor,
    uniforms: th.Tensor,
    remembered: Remembered | None = None,
) -> th.Tensor:
    """Does the same as `act_batched` for actors with equal table keys, or for one `PlainActor`."""
    if isinstance(actors[0], PlainActor):
        return actors[0].act(observations[0], masks, uniforms)
    alike = [actor for actor in actors if isinstance(actor, AutoregressiveActor)]
    latents = [actor.latent(seen, remembered) for actor, seen in zip(alike, observations, strict=True)]
    actions, _, scores = sample_actions([actor.tables for actor in alike], latents, masks, uniforms)
    if np.isnan(scores).any():  # refused by the other policies themselves; the actions would be arbitrary
        raise ValueError("an observation or a weight of an opponent is NaN: no action can be chosen")
    return th.from_numpy(actions)
