"""The world model of DreamerV3: encoder, recurrent state, decoder, and the heads upon the state (dreamer.md §4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import torch as th
from torch import nn
from torch.nn import functional as F

from sb3_pvp.algorithms.dreamer.distributions import (
    ActionDistribution,
    BoundedNormal,
    Choices,
    Draws,
    latent_kl,
    masked,
    mixed_probs,
    straight_through,
    symlog,
)
from sb3_pvp.algorithms.dreamer.layers import NORM_EPS, BlockLinear, NormedLayer, convolution, linear, multi_layer
from sb3_pvp.algorithms.dreamer.signals import Signal
from sb3_pvp.algorithms.dreamer.sizes import ModelSize

#: Channels of the four convolutions, as multiples of the depth; the decoder has them in the other order.
CHANNELS = (2, 3, 4, 4)

Tensors = dict[str, th.Tensor]


class Latent(NamedTuple):
    """The state of the world: what is remembered ``(…, deter)``, and one-hot draws ``(…, stoch, classes)``."""

    deter: th.Tensor
    stoch: th.Tensor

    def features(self) -> th.Tensor:
        """Returns what all heads read, ``(…, features)``."""
        return th.cat([self.deter, self.stoch.flatten(-2)], -1)


class Observed(NamedTuple):
    """States that a sequence of observations led to ``(batch, time, …)``, with the logits of their draws.

    ``posterior`` is with the observation of the step, ``prior`` what was expected before it.
    """

    states: Latent
    posterior: th.Tensor
    prior: th.Tensor

    def divergences(self, free_nats: float) -> Tensors:
        """Returns KL(posterior || prior): the prior learns to expect, the posterior to be expected; free below."""
        posterior, prior = mixed_probs(self.posterior), mixed_probs(self.prior)
        sides = {"dyn": (posterior.detach(), prior), "rep": (posterior, prior.detach())}
        return {name: latent_kl(*each).clamp(min=free_nats) for name, each in sides.items()}


class WorldEncoder(nn.Module):
    """Turns an observation into ``width`` numbers."""

    def __init__(self, signals: Mapping[str, Signal], size: ModelSize) -> None:
        super().__init__()
        self.signals = signals
        self.vectors, self.images = split_keys(signals)
        self.width = 0
        if self.vectors:
            self.mlp = multi_layer(sum(signals[key].width for key in self.vectors), size.units, size.layers)
            self.width += size.units
        if self.images:
            height, width, channels = whole_image(signals)
            depths = [channels, *(size.depth * multiple for multiple in CHANNELS)]
            layers = (NormedLayer(convolution(*sides), pool=True) for sides in pairwise(depths))
            self.convolutions = nn.Sequential(*layers)
            self.width += depths[-1] * (height // 16) * (width // 16)

    def forward(self, observations: Mapping[str, th.Tensor]) -> th.Tensor:
        """Returns tokens ``(batch, time, width)`` of values ``(batch, time, size)`` or pixels."""
        tokens = []
        if self.vectors:
            given = ((self.signals[key], observations[key]) for key in self.vectors)
            inputs = [signal.encode(values) if signal.classes else symlog(values) for signal, values in given]
            tokens.append(self.mlp(th.cat(inputs, -1)))
        if self.images:
            pixels = th.cat([observations[key] for key in self.images], -1) / 255 - 0.5
            maps = self.convolutions(pixels.to(tokens[0] if tokens else None).flatten(0, 1).movedim(-1, -3))
            tokens.append(maps.movedim(-3, -1).reshape(*pixels.shape[:2], -1))
        return th.cat(tokens, -1)


class RecurrentState(nn.Module):
    """How the state of the world goes on: a GRU in blocks, and draws out of classes that it expects or sees."""

    def __init__(self, tokens: int, actions: int, size: ModelSize) -> None:
        super().__init__()
        self.blocks = size.blocks
        draws = size.stoch * size.classes
        self.from_deter = NormedLayer(linear(size.deter, size.hidden))
        self.from_stoch = NormedLayer(linear(draws, size.hidden))
        self.from_action = NormedLayer(linear(actions, size.hidden))
        self.mix = NormedLayer(BlockLinear(size.deter + size.blocks * 3 * size.hidden, size.deter, size.blocks))
        self.gates = BlockLinear(size.deter, 3 * size.deter, size.blocks)
        # Logits ``(…, stoch, classes)`` before anything is seen, and with the observation's tokens.
        shape = nn.Unflatten(-1, (size.stoch, size.classes))
        self.prior = multi_layer(size.deter, size.hidden, size.prior_layers, draws).append(shape)
        self.posterior = multi_layer(size.deter + tokens, size.hidden, size.posterior_layers, draws).append(shape)

    def core(self, state: Latent, action: th.Tensor) -> th.Tensor:
        """Returns what is remembered ``(batch, deter)`` after an action ``(batch, actions)``."""
        layers = (self.from_deter, self.from_stoch, self.from_action)
        inputs = (state.deter, state.stoch.flatten(-2), action.clamp(-1, 1))
        # The norms of all three at once: small tensors cost what the calls cost.
        x = th.stack([each.layer(part) for each, part in zip(layers, inputs, strict=True)], -2)
        weight = th.stack([each.norm.weight for each in layers])
        x = F.silu(F.rms_norm(x, x.shape[-1:], eps=NORM_EPS) * weight).flatten(-2)
        # Every block reads its own part of what is remembered, and all that is new.
        before = state.deter.reshape(len(x), self.blocks, -1)
        hidden = self.mix(th.cat([before, x.unsqueeze(-2).expand(-1, self.blocks, -1)], -1).flatten(-2))
        gates = self.gates.of_blocks(hidden.reshape(len(x), self.blocks, -1))
        reset, candidate, update = gates.to(before.dtype).chunk(3, -1)
        candidate = (reset.sigmoid() * candidate).tanh()
        # With -1, it forgets slowly at first.
        deter = before.transpose(0, 1).lerp(candidate, (update - 1).sigmoid())
        return deter.transpose(0, 1).flatten(-2)

    def observe(
        self, start: Latent, tokens: th.Tensor, actions: th.Tensor, is_first: th.Tensor, draws: Draws
    ) -> Observed:
        """Follows sequences ``(batch, time, …)``; ``actions`` are those before each observation, as network inputs.

        At the first step of an episode, state and action are 0: the core still runs, and gives what its biases say.
        """
        goes_on = (~is_first).to(tokens.dtype).unsqueeze(-1)
        state, states, logits = start, [], []
        # Taken apart at once: the gradient of a slice is as large as the whole.
        parts = (each.unbind(1) for each in (goes_on, actions * goes_on, tokens))
        for kept, action, token in zip(*parts, strict=True):
            deter = self.core(Latent(state.deter * kept, state.stoch * kept.unsqueeze(-1)), action)
            logits.append(self.posterior(th.cat([deter, token], -1)))
            probs = mixed_probs(logits[-1])
            state = Latent(deter, straight_through(draws.latent(probs), probs))
            states.append(state)
        deters, stochs = (th.stack(parts, 1) for parts in zip(*states, strict=True))
        return Observed(Latent(deters, stochs), th.stack(logits, 1), self.prior(deters))


class WorldDecoder(nn.Module):
    """Predicts the observation of a state: numbers in symlog, logits of classes, pixels in 0 to 1."""

    def __init__(self, signals: Mapping[str, Signal], size: ModelSize) -> None:
        super().__init__()
        self.signals = signals
        self.vectors, self.images = split_keys(signals)
        draws = size.stoch * size.classes
        if self.vectors:
            self.mlp = multi_layer(draws + size.deter, size.units, size.layers)
            self.heads = nn.ModuleDict({of_key(key): linear(size.units, signals[key].width) for key in self.vectors})
        if self.images:
            height, width, channels = whole_image(signals)
            depths = [size.depth * multiple for multiple in reversed(CHANNELS)]
            self.lowest = (height // 16, width // 16, depths[0])
            pixels = self.lowest[0] * self.lowest[1] * depths[0]
            self.image_blocks = size.image_blocks
            self.from_deter = BlockLinear(size.deter, pixels, size.image_blocks)
            hidden = 2 * size.units
            self.from_stoch = multi_layer(draws, hidden, 1, pixels)
            self.norm = nn.RMSNorm(depths[0], eps=NORM_EPS)
            self.convolutions = nn.ModuleList(NormedLayer(convolution(*sides)) for sides in pairwise(depths))
            self.pixels = convolution(depths[-1], channels)

    def forward(self, states: Latent) -> Tensors:
        """Returns what each key is expected to be ``(…, size)``, ``(…, size, classes)``, or pixels, channels last."""
        predictions: Tensors = {}
        if self.vectors:
            # The original concatenates these two the other way round for all other heads.
            hidden = self.mlp(th.cat([states.stoch.flatten(-2), states.deter], -1))
            for key in self.vectors:
                output, classes = self.heads[of_key(key)](hidden).float(), self.signals[key].classes
                predictions[key] = output.unflatten(-1, (-1, classes)) if classes else output
        if self.images:
            channels = [image[2] for key in self.images if (image := self.signals[key].image)]
            parts = th.split(self._pixels(states), channels, -1)
            predictions.update(zip(self.images, parts, strict=True))
        return predictions

    def _pixels(self, states: Latent) -> th.Tensor:
        batch, (height, width, channels) = states.deter.shape[:-1], self.lowest
        blocks = self.image_blocks
        of_deter = self.from_deter(states.deter).reshape(-1, blocks, height, width, channels // blocks)
        of_deter = of_deter.movedim(1, 3).flatten(3)
        of_stoch = self.from_stoch(states.stoch.flatten(-2)).reshape(-1, *self.lowest)
        x = F.silu(self.norm(of_deter + of_stoch)).movedim(-1, -3)
        for layer in (*self.convolutions, self.pixels):
            x = layer(F.interpolate(x, scale_factor=2, mode="nearest"))
        x = x.sigmoid().movedim(-3, -1)
        return x.reshape(*batch, *x.shape[1:])

    def losses(self, predictions: Tensors, observations: Mapping[str, th.Tensor]) -> Tensors:
        """Returns the loss ``(…)`` of each key, summed over its elements."""
        losses: Tensors = {}
        for key, prediction in predictions.items():
            signal, target = self.signals[key], observations[key]
            if signal.image:
                losses[key] = (prediction - target / 255).square().sum((-3, -2, -1))
            elif signal.classes:
                losses[key] = -(prediction.log_softmax(-1).flatten(-2) * signal.encode(target)).sum(-1)
            else:
                losses[key] = (prediction - symlog(target)).square().sum(-1)
        return losses


class ActionHead(nn.Module):
    """The actor: a distribution of each key of the action."""

    def __init__(self, signals: Mapping[str, Signal], size: ModelSize) -> None:
        super().__init__()
        self.signals = signals
        self.mlp = multi_layer(size.features, size.units, size.layers)
        widths = {key: signal.width for key, signal in sorted(signals.items())}
        numbers = [key for key in widths if not signals[key].classes]
        # Logits, or means; then the standard deviations of numbers.
        self.outputs = nn.ModuleDict({of_key(key): linear(size.units, widths[key], 0.01) for key in widths})
        self.deviations = nn.ModuleDict({of_key(key): linear(size.units, widths[key], 0.01) for key in numbers})

    def forward(self, features: th.Tensor) -> dict[str, ActionDistribution]:
        """Returns a distribution of actions ``(…, size)`` for each key."""
        hidden = self.mlp(features)
        distributions: dict[str, ActionDistribution] = {}
        for key in sorted(self.signals):
            output, classes = self.outputs[of_key(key)](hidden), self.signals[key].classes
            if classes:
                distributions[key] = Choices(output.float().unflatten(-1, (-1, classes)))
            else:
                distributions[key] = BoundedNormal.of(output, self.deviations[of_key(key)](hidden))
        return distributions


class DreamerNetworks(nn.Module):
    """All networks of DreamerV3; the slow critic is a copy of the critic that follows it and is not trained."""

    def __init__(self, observations: Mapping[str, Signal], actions: Mapping[str, Signal], size: ModelSize) -> None:
        super().__init__()
        self.actions = actions
        self.encoder = WorldEncoder(observations, size)
        self.recurrent = RecurrentState(self.encoder.width, sum(signal.width for signal in actions.values()), size)
        self.decoder = WorldDecoder(observations, size)
        state, units = size.features, size.units
        self.reward = multi_layer(state, units, size.head_layers, size.bins, scale=0)
        self.goes_on = multi_layer(state, units, size.head_layers, 1)
        self.actor = ActionHead(actions, size)
        self.critic = multi_layer(state, units, size.layers, size.bins, scale=0)
        self.slow_critic = multi_layer(state, units, size.layers, size.bins, scale=0).requires_grad_(False)
        self.slow_critic.load_state_dict(self.critic.state_dict())

    def choose(self, features: th.Tensor, draws: Draws, masks: th.Tensor | None = None) -> Tensors:
        """Returns an action ``(n, size)`` of each key, given features ``(n, …)`` and flat masks, bool ``(n, A)``."""
        distributions = self.actor(features)
        return draws.actions(distributions if masks is None else masked(distributions, masks))

    def legal(self, observations: Tensors) -> th.Tensor | None:
        """Returns masks of observations, bool ``(…, A)``: where it starts in the model, the actor chooses by them."""
        return None

    def judge(self, features: th.Tensor, actions: Tensors) -> tuple[th.Tensor, Tensors]:
        """Returns log-probabilities ``(…)`` of actions that `choose` returned, and the entropy ``(…)`` of each key."""
        distributions = self.actor(features)
        log_probs = sum(each.log_prob(actions[key]) for key, each in distributions.items())
        return log_probs, {key: each.entropy() for key, each in distributions.items()}

    def trained(self) -> list[nn.Parameter]:
        """Returns the parameters that the optimiser changes."""
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    @th.no_grad()
    def follow(self, rate: float) -> None:
        """Moves the slow critic towards the critic."""
        th._foreach_lerp_([*self.slow_critic.parameters()], [*self.critic.parameters()], rate)


def of_key(key: str) -> str:
    """Returns the name of a key's layer: torch has names that layers cannot have, and none with dots."""
    return f"of_{key.replace('.', ':')}"


def split_keys(signals: Mapping[str, Signal]) -> tuple[list[str], list[str]]:
    """Returns the keys of vectors and those of images, each sorted."""
    keys = sorted(signals)
    return [key for key in keys if not signals[key].image], [key for key in keys if signals[key].image]


def whole_image(signals: Mapping[str, Signal]) -> tuple[int, int, int]:
    """Returns height, width and channels of all images one behind the other.

    Raises `ValueError` if their sides differ, or are not 48 to 256 pixels in steps of 16.
    """
    shapes = [signals[key].image or (0, 0, 0) for key in split_keys(signals)[1]]
    sides = {shape[:2] for shape in shapes}
    height, width = shapes[0][:2]
    if len(sides) > 1 or any(side % 16 or not 48 <= side <= 256 for side in (height, width)):
        raise ValueError(f"images must be of one size with sides of 48, 64, … 256 pixels, got {sorted(sides)}")
    return height, width, sum(shape[2] for shape in shapes)
