"""What networks are made of: the grammar of architectures (training.md §3.1), layers, and running statistics (§4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from pydantic import Field
from torch import nn

from sb3_pvp.common.arguments import POSITIVE, Kind
from sb3_pvp.common.names import require_all_known, require_known

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}
_DROPOUT = Kind[float](Annotated[float, Field(ge=0, lt=1)], "a number from 0 to below 1")
#: What an architecture may be given as: sizes, each followed by the policy's activation, or the full grammar.
Architecture = Sequence[int] | Mapping[str, Any]
DEFAULT_ARCHITECTURE = (64, 64)


@dataclass(frozen=True)
class Layer:
    """One layer: a linear one of ``size`` outputs with its activation (``None``: none), or (size 0) a dropout."""

    size: int = 0
    activation: str | None = None
    dropout: float = 0.0


def check_architecture(given: Any) -> None:
    """Raises `ValueError` for anything outside the grammar, in one architecture or in a list or mapping of several."""
    if isinstance(given, Mapping) and not given.keys() & {"size", "dropout"}:
        require_all_known("key of an architecture", given, ("layers", "pi", "vf"))
        given = list(given.values())
    if isinstance(given, Mapping):
        require_all_known("key of an architecture", given, ("size", "activation", "repeat", "dropout"))
        if "size" in given and "dropout" in given:
            raise ValueError(f"a layer has either a size or a dropout, got {dict(given)}")
        POSITIVE.check(**{f"the {name} of a layer": given[name] for name in ("size", "repeat") if name in given})
        if given.get("activation") is not None:
            require_known("activation", given["activation"], ACTIVATIONS)
        if "dropout" in given:
            _DROPOUT.check(**{"a dropout": given["dropout"]})
    elif isinstance(given, Sequence) and not isinstance(given, str):
        for part in given:
            check_architecture(part)
    elif given is not None:
        POSITIVE.check(**{"the size of a layer": given})


def parse_layers(architecture: Architecture | None, activation: str) -> tuple[Layer, ...]:
    """The layers of an architecture: ``[64, 64]``, or the full grammar ``{"layers": [...]}``.

    A layer there is ``{"size": 64, "activation": "relu", "repeat": 2}`` or ``{"dropout": 0.1}``. An empty or absent
    architecture is the identity. ``activation``, one of `ACTIVATIONS`, follows every size of the short form.
    """
    items = architecture.get("layers") if isinstance(architecture, Mapping) else architecture
    layers: list[Layer] = []
    for item in items or ():
        given: dict[str, Any] = dict(item) if isinstance(item, Mapping) else {"size": item, "activation": activation}
        repeat = given.pop("repeat", 1)
        layers += [Layer(**given)] * repeat
    return tuple(layers)


@dataclass(frozen=True)
class Architectures:
    """The layers of a policy's networks: before actor and critic, of these two, and of each head before its logits."""

    features: tuple[Layer, ...]
    actor: tuple[Layer, ...]
    critic: tuple[Layer, ...]
    heads: Sequence[tuple[Layer, ...]]

    @classmethod
    def of(cls, given: Mapping[str, Any], num_heads: int) -> Architectures:
        """Those in the arguments of an `AutoregressivePolicy`, each of which `check_architecture` found right.

        Raises `ValueError` if they are not as many as there are networks.
        """
        activation, net_arch, head_arch = given["activation"], given["net_arch"], given["head_arch"]
        net_arch = DEFAULT_ARCHITECTURE if net_arch is None else net_arch
        if not isinstance(net_arch, Mapping) or "layers" in net_arch:
            net_arch = {"pi": net_arch, "vf": net_arch}
        if set(net_arch) != {"pi", "vf"}:
            raise ValueError(f"a mapping as net_arch needs 'pi' and 'vf' (or 'layers'), got {sorted(net_arch)}")
        each = isinstance(head_arch, Sequence) and any(
            isinstance(item, Sequence) or (isinstance(item, Mapping) and "layers" in item) for item in head_arch
        )
        if each and len(head_arch) != num_heads:
            raise ValueError(f"head_arch has {len(head_arch)} architectures for {num_heads} heads; give one for each")
        heads = [parse_layers(head, activation) for head in (head_arch if each else [head_arch])]
        trunk = [parse_layers(arch, activation) for arch in (given["features_arch"], net_arch["pi"], net_arch["vf"])]
        return cls(trunk[0], trunk[1], trunk[2], heads if each else heads * num_heads)


def output_size(num_inputs: int, layers: Sequence[Layer]) -> int:
    """How many outputs a network of these layers has."""
    return next((layer.size for layer in reversed(layers) if layer.size), num_inputs)


def make_network(num_inputs: int, layers: Sequence[Layer]) -> nn.Sequential:
    """The layers as a module from ``(batch, num_inputs)`` to ``(batch, output_size(...))``."""
    modules: list[nn.Module] = []
    for layer in layers:
        if layer.size:
            modules.append(nn.Linear(num_inputs, layer.size))
            num_inputs = layer.size
        modules += after_linear(layer)
    return nn.Sequential(*modules)


def after_linear(layer: Layer) -> list[nn.Module]:
    """What a layer does besides its linear map: its activation, or the dropout that it is."""
    if not layer.size:
        return [nn.Dropout(layer.dropout)]
    return [ACTIVATIONS[layer.activation]()] if layer.activation else []


class RunningNormalizer(nn.Module):
    """Scales features to zero mean and unit variance, with statistics of everything the policy acted on in training.

    `observe` only collects; `update` makes it count. PPO can so act and learn from one roll-out under the same
    statistics, which keeps its probability ratio at one before the first gradient step.

    Features that always keep one value so far are only shifted: dividing by nothing would blow up their first change.
    """

    mean: th.Tensor
    variance: th.Tensor
    count: th.Tensor
    pending: th.Tensor

    def __init__(self, num_features: int, clip: float = 5.0) -> None:
        super().__init__()
        self.clip = clip
        self.register_buffer("mean", th.zeros(num_features))
        self.register_buffer("variance", th.ones(num_features))
        self.register_buffer("count", th.zeros((), dtype=th.float64))
        # Rows: number of samples (in every column), sum, sum of squares.
        self.register_buffer("pending", th.zeros(3, num_features, dtype=th.float64))

    def forward(self, features: th.Tensor) -> th.Tensor:
        """Returns normalised features of the same shape ``(..., num_features)``, within ``±clip``."""
        return ((features - self.mean) * self.scale()).clamp(-self.clip, self.clip)

    def scale(self) -> th.Tensor:
        """What centred features are multiplied by, ``(num_features,)``."""
        return th.where(self.variance > 1e-6, self.variance + 1e-8, 1.0).rsqrt()

    @th.no_grad()
    def observe(self, features: th.Tensor) -> None:
        """Collects raw features ``(..., num_features)`` for the next `update`."""
        wide = features.reshape(-1, features.shape[-1]).double()
        self.pending[0] += len(wide)
        self.pending[1] += wide.sum(0)
        self.pending[2] += wide.square_().sum(0)

    @property
    def has_pending(self) -> bool:
        """Whether anything was observed since the last `update`."""
        return bool(self.pending[0, 0])

    @th.no_grad()
    def update(self) -> None:
        """Adds what was observed since the last update to the statistics; does nothing if nothing was."""
        if not self.has_pending:
            return
        pending_count, total, squares = self.pending
        mean, square = self.mean.double(), self.variance.double() + self.mean.double().square()
        count = self.count + pending_count[0]
        new_mean = (mean * self.count + total) / count
        new_variance = (square * self.count + squares) / count - new_mean.square()
        self.mean.copy_(new_mean)
        self.variance.copy_(new_variance.clamp(min=0.0))
        self.count.copy_(count)
        self.pending.zero_()


@dataclass(frozen=True)
class FrameStatistics:
    """What `RunningNormalizer` knew at one moment of the first features of a frame, for what needs no network.

    Attributes:
        mean: float32 ``(features,)``.
        scale: what centred features are multiplied by, float32 ``(features,)``.
        clip: normalised features are within ``±clip``.
    """

    mean: NDArray[np.float32]
    scale: NDArray[np.float32]
    clip: float

    @classmethod
    def of(cls, normalizer: RunningNormalizer, num_features: int) -> FrameStatistics:
        """A copy of the normalizer's statistics of its first ``num_features`` features."""
        mean, scale = (part[:num_features].cpu().numpy().copy() for part in (normalizer.mean, normalizer.scale()))
        return cls(mean, scale, normalizer.clip)

    @classmethod
    def identity(cls, num_features: int) -> FrameStatistics:
        """Statistics that leave features as they are."""
        return cls(np.zeros(num_features, np.float32), np.ones(num_features, np.float32), np.inf)

    def __call__(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Normalised features of the same shape ``(..., features)``."""
        normalized = (features - self.mean) * self.scale
        return np.clip(normalized, -self.clip, self.clip, out=normalized)
