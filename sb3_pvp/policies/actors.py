"""Acting: head after head, with as little work per head as possible; and policies that do nothing else.

All that does not change while a policy acts is computed once: what the choice of an entry means for the heads after it
is one row of a table. Heads without hidden layers are compiled loops (`sb3_pvp.policies.kernels`), for which a call of
PyTorch or NumPy has too little to do; networks of heads run only for the rows where the head has a choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.distributions import MaskableDistribution, MaybeMasks
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from torch import nn

from sb3_pvp.policies.features import ACTION_MASK, OBSERVATION, PRIVILEGED
from sb3_pvp.policies.heads import AutoregressiveHeads, BatchedLinear, DependencyRules, HeadGroup
from sb3_pvp.policies.networks import RunningNormalizer, make_network, parse_architectures

# From this share of rows on, picking rows costs more than it saves.
DENSE_SHARE = 0.75


@dataclass(frozen=True)
class _FirstLayer:
    """The first layer of one head, or of all heads without hidden layers; matrices are ``(inputs, outputs)``."""

    weight: th.Tensor  #: For the trunk's output.
    bias: th.Tensor
    choices: th.Tensor | None  #: For the one-hot encodings of all heads.
    masks: th.Tensor | None  #: For the masks.

    @classmethod
    def of(cls, heads: AutoregressiveHeads, weight: th.Tensor, bias: th.Tensor, visible: th.Tensor) -> _FirstLayer:
        """From ``weight``, ``(inputs, outputs)`` with all inputs, and ``visible``, ``(extra inputs, outputs or 1)``."""
        flat = heads.rules.num_flat
        of_latent, of_extra = weight[: heads.num_inputs].contiguous(), weight[heads.num_inputs :] * visible
        masks = of_extra[-flat:].contiguous() if heads.future_masks else None
        if not heads.autoregressive:
            return cls(of_latent, bias.clone(), None, masks)
        # An encoding is what it is when nothing is chosen, plus a difference in the chosen entry.
        nothing, everything = heads.encode(weight.new_tensor([[0.0], [1.0]]).expand(2, flat))
        choices = of_extra[:flat] * (everything - nothing)[:, None]
        return cls(of_latent, bias + nothing @ of_extra[:flat], choices.contiguous(), masks)

    def start(self, latent: th.Tensor, masks: th.Tensor) -> th.Tensor:
        """All but the choices, ``(batch, outputs)``."""
        outputs = th.addmm(self.bias, latent, self.weight)
        return outputs if self.masks is None else outputs.addmm_(masks.float(), self.masks)


@dataclass(frozen=True)
class _Network:
    """A head with hidden layers: its first layer, and what comes after it."""

    first: _FirstLayer
    steps: Sequence[Callable[[th.Tensor], th.Tensor]]

    @classmethod
    def of(cls, heads: AutoregressiveHeads, head: int, group: HeadGroup) -> _Network:
        index, linear = group.heads.index(head), group.linear_layers()
        weight, bias, visible = linear[0].weight[index], linear[0].bias[index, 0], heads.visible[head][:, None]
        steps: list[Callable[[th.Tensor], th.Tensor]] = []
        for module in list(group.network)[1:]:
            if isinstance(module, BatchedLinear):
                width = heads.rules.head_sizes[head] if module is linear[-1] else module.weight.shape[2]
                of_head = module.weight[index, :, :width].contiguous()
                steps.append(partial(th.addmm, module.bias[index, 0, :width], mat2=of_head))
            elif not isinstance(module, nn.Dropout):  # acting leaves none out
                steps.append(module)
        return cls(_FirstLayer.of(heads, weight, bias, visible), steps)

    def add_to(
        self, scores: NDArray[np.float32], latent: th.Tensor, chosen: NDArray[np.float32], masks: th.Tensor
    ) -> None:
        """Adds logits to the penalties ``(batch, size)`` where several entries have none; ``chosen``: before."""
        rows: Any = np.flatnonzero((scores == 0).sum(1) > 1)
        if not len(rows):
            return
        if len(rows) > DENSE_SHARE * len(scores):
            rows = slice(None)
        else:
            picked = th.from_numpy(rows).to(latent.device)
            latent, masks = latent[picked], masks if self.first.masks is None else masks[picked]
        hidden = self.first.start(latent, masks)
        if self.first.choices is not None:
            encoded = th.from_numpy(chosen[rows]).to(latent.device)
            hidden = hidden.addmm_(encoded, self.first.choices[: chosen.shape[1]])
        for step in self.steps:
            hidden = step(hidden)
        scores[rows] += hidden.cpu().numpy()


class HeadTables:
    """What `AutoregressiveHeads` act with, as long as their weights and statistics stay what they are.

    Attributes:
        key: equal for heads with the same actions and rules, which `choose` takes together.
        table: float ``(A, A)``, what choosing the entry of a row adds to the logits of later heads.
        permits: float ``(A, A)``: 1 where it permits an entry that asks for one of several choices.
        wishes: float ``(A,)``, what is added to such an entry if none of those was made; 0 for all others.
        networks: of the heads with hidden layers; ``None`` for the others.
        has_networks: whether there is any.
    """

    @th.no_grad()
    def __init__(self, heads: AutoregressiveHeads) -> None:
        rules, direct = heads.rules, heads.direct
        self._direct: _FirstLayer | None = None
        table = rules.forbids * rules.penalties
        if direct.heads:
            # As if they had all entries.
            weight = direct.weight.new_zeros(rules.num_flat, direct.weight.shape[1])
            bias = direct.bias.new_zeros(rules.num_flat)
            weight[direct.entries], bias[direct.entries] = direct.weight, direct.bias
            self._direct = _FirstLayer.of(heads, weight.T, bias, (rules.membership @ heads.visible).T)
            table = table if self._direct.choices is None else table + self._direct.choices
        groups = {head: group for group in heads.groups for head in group.heads}
        self.head_sizes, self.starts = rules.head_sizes, np.array(rules.starts)
        self.networks = [
            _Network.of(heads, head, groups[head]) if head in groups else None for head in range(len(rules.head_sizes))
        ]
        parts = (table, rules.penalties, rules.permits, rules.penalties * rules.asks_any)
        self.table, self.penalties, self.permits, self.wishes = (part.cpu().numpy() for part in parts)
        self.has_networks = bool(groups)
        self.key = (self.head_sizes, self.permits.tobytes(), self.wishes.tobytes())

    def start(self, latent: th.Tensor, masks: th.Tensor) -> th.Tensor:
        """Logits ``(batch, A)`` of the heads without hidden layers before anything is chosen or forbidden; else 0."""
        if self._direct is None:
            return latent.new_zeros(len(latent), len(self.table))
        return self._direct.start(latent, masks)


@th.no_grad()
def choose(
    tables: Sequence[HeadTables], latents: Sequence[th.Tensor], masks: th.Tensor, uniforms: th.Tensor
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Joint actions, int64 ``(batch, heads)``, and their log-probabilities ``(batch,)``.

    Args:
        tables: of one or several policies; their keys are equal.
        latents: the output of each policy's trunk ``(its rows, inputs)``.
        masks: bool ``(batch, A)``, the rows of one policy after the other.
        uniforms: random numbers from [0, 1), float32 ``(batch, heads)``; where they are negative, the most likely entry
            is taken.
    """
    from sb3_pvp.policies.kernels import draw, draw_heads  # Numba takes long to import

    like, ends = tables[0], [*accumulate(map(len, latents))]
    spans = [slice(start, end) for start, end in zip((0, *ends), ends, strict=False)]
    masks_of = [masks[span] for span in spans]
    starts = [each.start(*given) for each, *given in zip(tables, latents, masks_of, strict=True)]
    scores, allowed = (th.cat(starts) if len(starts) > 1 else starts[0]).cpu().numpy(), masks.cpu().numpy()
    numbers = uniforms.numpy()
    if not any(each.has_networks for each in tables):
        # All tables as one: the rows of policy k begin at k * A.
        table = np.concatenate([each.table for each in tables]) if len(tables) > 1 else like.table
        first = np.repeat(np.arange(len(tables)) * len(like.table), [len(latent) for latent in latents])
        rules = like.penalties, like.permits, like.wishes, like.starts
        return draw_heads(scores, allowed, numbers, table, first, *rules)
    scores += np.where(allowed, np.float32(0.0), like.penalties)
    parts = list(zip(tables, latents, spans, masks_of, strict=True))
    granted, encoded, rows = np.zeros_like(scores), np.zeros_like(scores), np.arange(len(scores))
    actions, log_probs = np.empty(numbers.shape, np.int64), np.zeros(len(scores), np.float32)
    for head, (start, size) in enumerate(zip(like.starts, like.head_sizes, strict=True)):
        entries = slice(start, start + size)
        own = scores[:, entries]
        own += like.wishes[entries] * (granted[:, entries] == 0)
        for each, latent, span, mask in parts:
            network = each.networks[head]
            if network is not None:
                network.add_to(own[span], latent, encoded[span, :start], mask)
        chosen, log_prob = draw(own, numbers[:, head])
        actions[:, head] = chosen
        log_probs += log_prob
        chosen += start
        granted += like.permits.take(chosen, 0)
        encoded[rows, chosen] = 1.0
        for each, span in zip(tables, spans, strict=True):
            scores[span] += each.table.take(chosen[span], 0)
    return actions, log_probs


class AutoregressiveDistribution(MaskableDistribution):
    """The joint distribution of all heads: `act` for acting, and the face that sb3-contrib's policies give theirs.

    That is made from the trunk's output ``(batch, num_inputs)`` and allows everything until `apply_masking`. Entropies
    are those given the actions of the last `log_prob`; ``deterministic`` may say for each head whether it samples.
    """

    _entropies: th.Tensor

    def __init__(self, heads: AutoregressiveHeads) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._heads = heads
        self._key: tuple[int, ...] = ()

    def forget(self, *_: object) -> None:
        """Makes the tables anew at the next use; fused optimisers change weights without a trace."""
        self._key = ()

    @th.no_grad()
    def act(
        self, latent: th.Tensor, masks: th.Tensor, deterministic: bool | Sequence[bool] = False
    ) -> tuple[th.Tensor, th.Tensor]:
        """Joint actions, int ``(batch, heads)``, and their log-probabilities ``(batch,)``.

        Args:
            latent: the trunk's output ``(batch, num_inputs)``.
            masks: bool ``(batch, A)``.
            deterministic: take the most likely entry of all heads, or (a sequence) of some.
        """
        sizes = self._heads.rules.head_sizes
        flags = [deterministic] * len(sizes) if isinstance(deterministic, bool) else [*map(bool, deterministic)]
        if len(flags) != len(sizes):
            raise ValueError(
                f"deterministic must be a bool or one bool for each of {len(sizes)} heads, got {len(flags)}"
            )
        uniforms = th.full((len(latent), len(sizes)), -1.0) if all(flags) else th.rand(len(latent), len(sizes))
        if any(flags):
            uniforms[:, flags] = -1.0
        self._follow_weights()
        actions, log_probs = choose([self._tables], [latent], masks, uniforms)
        return th.from_numpy(actions).to(latent.device), th.from_numpy(log_probs).to(latent.device)

    def _follow_weights(self) -> None:
        """Makes the tables anew if a weight or a statistic has changed, or might have."""
        normalizer = self._heads.normalizer
        tensors = (*self._heads.parameters(), normalizer.mean, normalizer.variance, *self._heads.rules.buffers())
        key = tuple(chain.from_iterable((tensor._version, tensor.data_ptr()) for tensor in tensors))
        if key != self._key or self._heads.training:
            self._tables, self._key = HeadTables(self._heads), key

    def proba_distribution_net(self, *args: Any, **kwargs: Any) -> nn.Module:
        return self._heads

    def proba_distribution(self, latent: th.Tensor) -> AutoregressiveDistribution:
        self._latent = latent
        self.apply_masking(None)
        return self

    def apply_masking(self, masks: MaybeMasks) -> None:
        """Takes flat masks ``(batch, A)``; ``None`` allows everything."""
        shape = (len(self._latent), self._heads.rules.num_flat)
        allowed = th.ones(shape) if masks is None else th.as_tensor(masks)
        self._masks = allowed.to(self._latent.device).bool().reshape(shape)

    def log_prob(self, actions: th.Tensor) -> th.Tensor:
        actions = actions.long().reshape(len(self._latent), -1)
        log_probs, self._entropies = self._heads(self._latent, self._masks, actions)
        return log_probs.sum(1)  # type: ignore[no-any-return]

    def entropy(self) -> th.Tensor:
        return self._entropies.sum(1)

    def sample(self) -> th.Tensor:
        return self.get_actions(deterministic=False)

    def mode(self) -> th.Tensor:
        return self.get_actions(deterministic=True)

    def get_actions(self, deterministic: bool | Sequence[bool] = False) -> th.Tensor:
        return self.act(self._latent, self._masks, deterministic)[0]

    def actions_from_params(self, latent: th.Tensor, deterministic: bool = False) -> th.Tensor:
        return self.proba_distribution(latent).get_actions(deterministic)

    def log_prob_from_params(self, latent: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        actions = self.actions_from_params(latent)
        return actions, self.log_prob(actions)


class AutoregressiveActor:
    """What an `AutoregressivePolicy` with all these arguments and weights acts with; without critic and optimiser.

    ``frame_shape`` is the ``(frames, features)`` of one observation.
    """

    def __init__(
        self,
        frame_shape: tuple[int, int],
        head_sizes: tuple[int, ...],
        arguments: Mapping[str, Any],
        weights: Mapping[str, th.Tensor],
    ) -> None:
        self.frame_shape, self.head_sizes = frame_shape, head_sizes
        of_features, of_actor, _, of_heads = parse_architectures(arguments, len(head_sizes))
        extractor, width = make_network(frame_shape[0] * frame_shape[1], of_features)
        actor, width = make_network(width, of_actor)
        flags = [arguments[flag] for flag in ("autoregressive", "normalize_actions", "future_masks")]
        heads = AutoregressiveHeads(width, DependencyRules(head_sizes), of_heads, *flags)
        normalizer = RunningNormalizer(len(weights["features_extractor.normalizer.mean"]))
        # Named as in the policy whose weights they get.
        features = nn.ModuleDict({"normalizer": normalizer})
        parts = {"features_extractor": features, "extractors": nn.ModuleList([extractor])}
        network = nn.ModuleDict(parts | {"actor": actor, "action_net": heads}).eval().requires_grad_(False)
        network.load_state_dict({name: weights[name] for name in network.state_dict()})
        self._normalize, self._clip = bool(arguments["normalize_observations"]), normalizer.clip
        self._mean, self._scale = normalizer.mean[: frame_shape[1]], normalizer.scale()[: frame_shape[1]]
        # Acting on few rows at a time would spend much of it in the calls of modules.
        self._trunk = [_step(layer) for layer in (*extractor, *actor)]
        self.tables = HeadTables(heads)

    def latent(self, observations: th.Tensor) -> th.Tensor:
        """The trunk's output ``(batch, ...)`` for raw observations."""
        frames = observations
        if self._normalize:
            frames = ((frames - self._mean) * self._scale).clamp_(-self._clip, self._clip)
        latent = frames.flatten(1)
        for step in self._trunk:
            latent = step(latent)
        return latent


class PlainActor:
    """What any other masked policy acts with: independent heads."""

    def __init__(
        self, policy: MaskableActorCriticPolicy, frame_shape: tuple[int, int], head_sizes: tuple[int, ...]
    ) -> None:
        self.frame_shape, self.head_sizes, self._policy = frame_shape, head_sizes, policy

    def act(self, observations: th.Tensor, masks: th.Tensor, uniforms: th.Tensor) -> th.Tensor:
        """As `act_together` of this one alone."""
        space = self._policy.observation_space
        seen: Any = observations.reshape(-1, *(space.shape or ()))
        if isinstance(space, spaces.Dict):
            seen = {OBSERVATION: observations, ACTION_MASK: masks.float()}
            if PRIVILEGED in space.spaces:  # nobody knows it in a real fight
                seen[PRIVILEGED] = th.zeros(len(observations), *(space[PRIVILEGED].shape or ()))
            seen = {key: seen[key] for key in space.spaces}
        from sb3_pvp.policies.kernels import draw  # Numba takes long to import

        heads = self._policy.get_distribution(seen, masks.numpy()).distributions  # type: ignore[attr-defined]
        parts = zip(heads, uniforms.numpy().T, strict=True)
        return th.from_numpy(np.stack([draw(head.logits.numpy(), numbers)[0] for head, numbers in parts], 1))


Actor = AutoregressiveActor | PlainActor


@th.inference_mode()
def act_together(
    actors: Sequence[Actor], observations: Sequence[th.Tensor], masks: th.Tensor, uniforms: th.Tensor
) -> th.Tensor:
    """Legal actions of several actors at once, int64 ``(batch, heads)``.

    Args:
        actors: with the same heads; what can be computed together is.
        observations: those of each actor, float32 ``(its rows, frames, features)``, raw, newest frame first.
        masks: bool ``(batch, A)``, the rows of one actor after the other.
        uniforms: as in `choose`.
    """
    groups: dict[object, list[int]] = {}
    for place, actor in enumerate(actors):
        groups.setdefault(actor.tables.key if isinstance(actor, AutoregressiveActor) else place, []).append(place)
    if len(groups) == 1:
        return _act_alike(actors, observations, masks, uniforms)
    rows = th.split(th.arange(len(masks)), [len(part) for part in observations])
    actions = th.empty(len(masks), len(actors[0].head_sizes), dtype=th.int64)
    for places in groups.values():
        picked = th.cat([rows[place] for place in places])
        own, seen = [actors[place] for place in places], [observations[place] for place in places]
        actions[picked] = _act_alike(own, seen, masks[picked], uniforms[picked])
    return actions


def _act_alike(
    actors: Sequence[Actor], observations: Sequence[th.Tensor], masks: th.Tensor, uniforms: th.Tensor
) -> th.Tensor:
    """`act_together` of actors whose tables have one key, or of a single one."""
    if isinstance(actors[0], PlainActor):
        return actors[0].act(observations[0], masks, uniforms)
    alike = [actor for actor in actors if isinstance(actor, AutoregressiveActor)]
    latents = [actor.latent(seen) for actor, seen in zip(alike, observations, strict=True)]
    return th.from_numpy(choose([actor.tables for actor in alike], latents, masks, uniforms)[0])


def _step(layer: nn.Module) -> Callable[[th.Tensor], th.Tensor]:
    """What a layer of the trunk does while acting, without the call of a module."""
    if isinstance(layer, nn.Linear):
        return partial(nn.functional.linear, weight=layer.weight, bias=layer.bias)
    return th.relu_ if isinstance(layer, nn.ReLU) else layer.forward
