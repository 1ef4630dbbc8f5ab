"""Policies that only act: frozen, without critic and optimiser, and with random numbers that are handed in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from torch import nn

from sb3_pvp.policies.autoregressive import AutoregressivePolicy
from sb3_pvp.policies.dependencies import DependencyRules
from sb3_pvp.policies.features import ACTION_MASK, OBSERVATION, PRIVILEGED
from sb3_pvp.policies.heads import HEAD_FLAGS, AutoregressiveHeads
from sb3_pvp.policies.layers import Architectures, make_network, output_size
from sb3_pvp.policies.model_files import PolicyFile
from sb3_pvp.policies.normalization import RunningNormalizer
from sb3_pvp.policies.sampling import FirstLayer, HeadSampler


class Actor(Protocol):
    """Chooses legal actions for a batch of observations.

    Attributes:
        frame_shape: ``(frames, features)`` of one observation.
        head_sizes: sub-actions of each head.
    """

    frame_shape: tuple[int, int]
    head_sizes: tuple[int, ...]

    def act(self, observations: th.Tensor, masks: th.Tensor, noise: th.Tensor) -> th.Tensor:
        """Actions, int64 ``(batch, heads)``.

        Args:
            observations: float32 ``(batch, frames, features)``, raw, newest frame first.
            masks: bool ``(batch, A)``.
            noise: Gumbel noise, float32 ``(batch, A)``; zeros in a row take the most likely entries.
        """


def make_actor(file: PolicyFile) -> Actor:
    """What the policy in a file acts with.

    Raises `ValueError` unless it is one of MaskablePPO that sees ``(frames, features)``, alone or under
    ``"observation"``, and chooses a MultiDiscrete action.
    """
    policy = None if issubclass(file.policy_class, AutoregressivePolicy) else file.policy()
    if not isinstance(file.action_space, spaces.MultiDiscrete):
        raise ValueError(f"the model has the actions {file.action_space}, not one choice for each of several heads")
    frame_shape = _frame_shape(file.observation_space)
    head_sizes = tuple(file.action_space.nvec.tolist())
    if policy is not None:
        return PlainActor(policy, frame_shape, head_sizes)
    with file.making():
        return AutoregressiveActor(frame_shape, head_sizes, file.arguments, file.weights())


class AutoregressiveActor:
    """What an `AutoregressivePolicy` acts with, without its critic and its optimiser.

    Args:
        frame_shape: see `Actor`.
        head_sizes: see `Actor`.
        arguments: what the policy was made with.
        weights: its parameters and statistics.

    Attributes:
        direct: its heads, if none has hidden layers.
    """

    def __init__(
        self,
        frame_shape: tuple[int, int],
        head_sizes: tuple[int, ...],
        arguments: Mapping[str, Any],
        weights: Mapping[str, th.Tensor],
    ) -> None:
        self.frame_shape, self.head_sizes = frame_shape, head_sizes
        given = (AutoregressivePolicy.__init__.__kwdefaults__ or {}) | dict(arguments)
        layers = Architectures.of(given, len(head_sizes))
        flags = [bool(given[flag]) for flag in HEAD_FLAGS]
        widths = [frame_shape[0] * frame_shape[1]]
        for part in (layers.features, layers.actor):
            widths.append(output_size(widths[-1], part))
        normalizer = RunningNormalizer(len(weights["features_extractor.normalizer.mean"]))
        extractor, actor = make_network(widths[0], layers.features), make_network(widths[1], layers.actor)
        heads = AutoregressiveHeads(widths[2], DependencyRules(head_sizes), layers.heads, *flags)
        # Named as in the policy whose weights they get.
        features = nn.ModuleDict({"normalizer": normalizer})
        parts = {"features_extractor": features, "extractors": nn.ModuleList([extractor])}
        network = nn.ModuleDict(parts | {"actor": actor, "action_net": heads}).eval().requires_grad_(False)
        network.load_state_dict({name: weights[name] for name in network.state_dict()})
        self.normalize, self.clip = bool(given["normalize_observations"]), normalizer.clip
        self.mean, self.scale = normalizer.mean[: frame_shape[1]], normalizer.scale()[: frame_shape[1]]
        # What acts on few rows at a time spends much of it in the calls of modules.
        self._trunk = [_step(layer) for layer in (*extractor, *actor)]
        self._sampler = HeadSampler(heads)
        self.direct = None if heads.groups else DirectHeads(heads, self._sampler.direct_layer())

    @th.inference_mode()
    def latent(self, observations: th.Tensor) -> th.Tensor:
        """The trunk's output ``(batch, ...)`` for raw observations."""
        frames = observations
        if self.normalize:
            frames = ((frames - self.mean) * self.scale).clamp_(-self.clip, self.clip)
        latent = frames.flatten(1)
        for step in self._trunk:
            latent = step(latent)
        return latent

    def act(self, observations: th.Tensor, masks: th.Tensor, noise: th.Tensor) -> th.Tensor:
        """See `Actor.act`."""
        if self.direct is not None:
            return _act_directly([(self, observations, masks, noise)])[0]
        return self._sampler.choose(self.latent(observations), masks, noise)


class PlainActor:
    """What any other masked policy acts with: independent heads."""

    def __init__(
        self, policy: MaskableActorCriticPolicy, frame_shape: tuple[int, int], head_sizes: tuple[int, ...]
    ) -> None:
        self.frame_shape, self.head_sizes, self._policy = frame_shape, head_sizes, policy
        self._space = policy.observation_space

    @th.inference_mode()
    def act(self, observations: th.Tensor, masks: th.Tensor, noise: th.Tensor) -> th.Tensor:
        """See `Actor.act`."""
        # A normalised log-probability plus Gumbel noise is largest where a sample is.
        joint = self._policy.get_distribution(self._complete(observations, masks), masks.numpy())
        heads = joint.distributions  # type: ignore[attr-defined]
        noises = th.split(noise, list(self.head_sizes), 1)
        return th.stack([(head.logits + own).argmax(1) for head, own in zip(heads, noises, strict=True)], 1)

    def _complete(self, observations: th.Tensor, masks: th.Tensor) -> th.Tensor | dict[str, th.Tensor]:
        if not isinstance(self._space, spaces.Dict):
            return observations.reshape(-1, *(self._space.shape or ()))
        parts = {OBSERVATION: observations, ACTION_MASK: masks.float()}
        hidden = self._space.spaces.get(PRIVILEGED)
        if hidden is not None:  # nobody knows it in a real fight
            parts[PRIVILEGED] = th.zeros(len(observations), *(hidden.shape or ()))
        return {key: parts[key] for key in self._space.spaces}


class DirectHeads:
    """The heads of one policy that does not learn any more, on the CPU; those of several policies choose at once.

    Args:
        heads: none has hidden layers.
        layer: what makes their logits.

    Attributes:
        key: equal for heads with the same actions and rules, which `choose` takes together.
        table: float ``(A, A)``, what choosing the entry of a row adds to the logits of later heads.
        permits: float ``(A, A)``: 1 where it permits an entry that asks for one of several choices.
        wishes: float ``(A,)``, what is added to such an entry if none of those was made; 0 for all others.
    """

    def __init__(self, heads: AutoregressiveHeads, layer: FirstLayer) -> None:
        rules = heads.rules
        self._layer = layer
        self.head_sizes, self.penalties = rules.head_sizes, rules.penalties.numpy()
        forbidden = rules.forbids * rules.penalties
        self.table = (forbidden if layer.choices is None else layer.choices + forbidden).numpy()
        self.permits = rules.permits.numpy()
        self.wishes = (rules.penalties * rules.asks_any).numpy()
        self.key = (self.head_sizes, self.permits.tobytes(), self.wishes.tobytes())

    def start(self, latent: th.Tensor, masks: th.Tensor) -> th.Tensor:
        """Logits ``(batch, A)`` before anything is chosen or forbidden."""
        return self._layer.start(latent, masks.float() if self._layer.masks is not None else latent)


def choose(
    heads: Sequence[DirectHeads], counts: Sequence[int], scores: NDArray[np.float32], masks: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Joint actions, int64 ``(batch, heads)``: head by head the best score that masks and rules allow.

    It is done by NumPy, whose calls cost half of PyTorch's where there is so little to do in each.

    Args:
        heads: of each policy; their keys are equal.
        counts: how many rows each policy has, one policy after the other.
        scores: logits and noise, float ``(batch, A)``; overwritten.
        masks: bool ``(batch, A)``.
    """
    like = heads[0]
    scores += np.where(masks, np.float32(0.0), like.penalties)
    # All tables as one: the rows of policy k begin at k * A.
    table = np.concatenate([each.table for each in heads]) if len(heads) > 1 else like.table
    first = np.repeat(np.arange(len(heads)) * len(like.table), counts)
    asks = bool(like.wishes.any())
    granted = np.zeros_like(scores)
    actions = np.zeros((len(scores), len(like.head_sizes)), np.int64)
    start = 0
    for head, size in enumerate(like.head_sizes):
        own = scores[:, start : start + size]
        if asks:
            entries = slice(start, start + size)
            own = own + like.wishes[entries] * (granted[:, entries] == 0)
        actions[:, head] = chosen = own.argmax(1)
        chosen += start
        if asks:
            granted += like.permits.take(chosen, 0)
        chosen += first
        scores += table.take(chosen, 0)
        start += size
    return actions


def act_together(
    actors: Sequence[Actor], observations: Sequence[th.Tensor], masks: th.Tensor, noise: th.Tensor
) -> th.Tensor:
    """`Actor.act` of several actors: each has observations of its own, masks and noise have the rows of all in turn."""
    counts = [len(part) for part in observations]
    asked = list(zip(actors, observations, th.split(masks, counts), th.split(noise, counts), strict=True))
    results: list[th.Tensor] = [masks] * len(actors)
    groups: dict[object, list[int]] = {}
    for place, actor in enumerate(actors):
        direct = getattr(actor, "direct", None)
        groups.setdefault(place if direct is None else direct.key, []).append(place)
    for places in groups.values():
        actor, *rest = asked[places[0]]
        alone = getattr(actor, "direct", None) is None
        chosen = [actor.act(*rest)] if alone else _act_directly([asked[place] for place in places])
        for place, part in zip(places, chosen, strict=True):
            results[place] = part
    return th.cat(results)


@th.inference_mode()
def _act_directly(asked: Sequence[tuple[Any, th.Tensor, th.Tensor, th.Tensor]]) -> Sequence[th.Tensor]:
    """The actions of actors whose heads are alike and have no hidden layers: only the logits are computed apart."""
    scores = th.cat([actor.direct.start(actor.latent(seen), masks) for actor, seen, masks, _ in asked])
    scores += th.cat([noise for *_, noise in asked])
    counts = [len(seen) for _, seen, _, _ in asked]
    masks = th.cat([masks for _, _, masks, _ in asked])
    actions = choose([actor.direct for actor, *_ in asked], counts, scores.numpy(), masks.numpy())
    return th.split(th.from_numpy(actions), counts)


def _step(layer: nn.Module) -> Callable[[th.Tensor], th.Tensor]:
    """What a layer does while acting."""
    if isinstance(layer, nn.Linear):
        weight, bias = layer.weight.detach(), layer.bias.detach()
        return lambda inputs: nn.functional.linear(inputs, weight, bias)
    if isinstance(layer, nn.ReLU):
        return th.relu_
    return layer.forward


def _frame_shape(space: spaces.Space) -> tuple[int, int]:  # type: ignore[type-arg]
    parts = dict(space.spaces) if isinstance(space, spaces.Dict) else {OBSERVATION: space}
    own = parts.pop(OBSERVATION, None)
    unknown = parts.keys() - {PRIVILEGED, ACTION_MASK}
    shape = getattr(own, "shape", None) or ()
    if unknown or len(shape) not in (1, 2):
        raise ValueError(f"the model sees {space}, not frames of features under the key {OBSERVATION!r}")
    frames, features = shape if len(shape) == 2 else (1, *shape)
    return int(frames), int(features)
