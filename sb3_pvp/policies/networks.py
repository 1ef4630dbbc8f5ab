"""What networks are made of: the grammar of architectures (training.md §3.1), layers, and running statistics (§4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch as th
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from torch import nn

from sb3_pvp.common.arguments import PositiveInt, read_model
from sb3_pvp.common.names import require_all_known

Activation = Literal["relu", "tanh", "gelu"]
ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}
#: What an architecture may be given as: sizes, each followed by the policy's activation, or the full grammar.
Architecture = Sequence[int] | Mapping[str, Any]


class Layer(BaseModel, frozen=True, extra="forbid", strict=True):
    """One layer: a linear one of ``size`` outputs with its activation (``None``: none), or (size 0) a dropout."""

    size: PositiveInt = 0
    activation: Activation | None = None
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    repeat: PositiveInt = 1


Layers = tuple[Layer, ...]


def parse_layers(architecture: Architecture | None, activation: str) -> Layers:
    """The layers of an architecture: ``[64, 64]``, or the full grammar ``{"layers": [...]}``.

    A layer there is ``{"size": 64, "activation": "relu", "repeat": 2}`` or ``{"dropout": 0.1}``. An empty or absent
    architecture is the identity. ``activation`` follows every size of the short form. `ValueError` for anything else.
    """
    items: Any = architecture
    if isinstance(architecture, Mapping):
        require_all_known("key of an architecture", architecture, ["layers"])
        items = architecture.get("layers")
    if isinstance(items, str) or not isinstance(items, Sequence | None):
        raise ValueError(f"an architecture is a list of sizes, or {{'layers': [...]}}, got {architecture!r}")
    layers: list[Layer] = []
    for item in items or ():
        given = dict(item) if isinstance(item, Mapping) else {"size": item, "activation": activation}
        if ("size" in given) == ("dropout" in given):
            raise ValueError(f"a layer has either a size or a dropout, got {given}")
        layer = read_model(Layer, given, "layer key")
        layers += [layer.model_copy(update={"repeat": 1})] * layer.repeat
    return tuple(layers)


def parse_architectures(given: Mapping[str, Any], num_heads: int) -> tuple[Layers, Layers, Layers, Sequence[Layers]]:
    """The layers before actor and critic, of these two, and of each head, in the arguments of `AutoregressivePolicy`.

    Raises `ValueError` for what is wrong in one, and if they are not as many as there are networks.
    """
    activation, net_arch, head_arch = given["activation"], given["net_arch"], given["head_arch"]
    net_arch = (64, 64) if net_arch is None else net_arch
    if not isinstance(net_arch, Mapping) or "layers" in net_arch:
        net_arch = {"pi": net_arch, "vf": net_arch}
    if set(net_arch) != {"pi", "vf"}:
        raise ValueError(f"a mapping as net_arch needs 'pi' and 'vf' (or 'layers'), got {sorted(net_arch)}")
    each = isinstance(head_arch, Sequence) and any(
        isinstance(item, Sequence) or (isinstance(item, Mapping) and "layers" in item) for item in head_arch
    )
    if each and len(head_arch) != num_heads:
        raise ValueError(f"head_arch has {len(head_arch)} architectures for {num_heads} heads; give one for each")
    heads = [parse_layers(head, activation) for head in (head_arch if each else [head_arch] * num_heads)]
    features, actor, critic = (
        parse_layers(part, activation) for part in (given["features_arch"], net_arch["pi"], net_arch["vf"])
    )
    return features, actor, critic, heads


def make_network(
    num_inputs: int, layers: Sequence[Layer], linear: Callable[[int, int], nn.Module] = nn.Linear
) -> tuple[nn.Sequential, int]:
    """The layers as a module from ``(..., num_inputs)`` to ``(..., outputs)``, and the number of outputs."""
    modules: list[nn.Module] = []
    for layer in layers:
        if layer.size:
            modules.append(linear(num_inputs, layer.size))
            num_inputs = layer.size
            modules += [ACTIVATIONS[layer.activation]()] if layer.activation else []
        else:
            modules.append(nn.Dropout(layer.dropout))
    return nn.Sequential(*modules), num_inputs


class RunningNormalizer(nn.Module):
    """Scales features to zero mean and unit variance, with statistics of everything the policy acted on in training.

    `observe` only collects; `update` makes it count. PPO can so act and learn from one rollout under the same
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
        if features.is_cpu and not features.requires_grad:
            from sb3_pvp.policies.kernels import normalize  # Numba takes long to import

            normalized = th.empty_like(features, memory_format=th.contiguous_format)
            rows = features.reshape(-1, features.shape[-1]).numpy()
            normalize(rows, self.mean.numpy(), self.scale().numpy(), self.clip, normalized.view(rows.shape).numpy())
            return normalized
        return ((features - self.mean) * self.scale()).clamp(-self.clip, self.clip)

    def scale(self) -> th.Tensor:
        """What centred features are multiplied by, ``(num_features,)``."""
        return th.where(self.variance > 1e-6, self.variance + 1e-8, 1.0).rsqrt()

    @th.no_grad()
    def observe(self, features: th.Tensor) -> None:
        """Collects raw features ``(..., num_features)`` for the next `update`."""
        rows = features.reshape(-1, features.shape[-1])
        if rows.is_cpu:
            from sb3_pvp.policies.kernels import observe  # Numba takes long to import

            observe(rows.numpy(), self.pending.numpy())
        else:
            wide = rows.double()
            self.pending += th.stack([th.ones_like(wide), wide, wide.square()]).sum(1)

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
    """What `RunningNormalizer` knew at one moment of the first features of a frame, for what needs no network."""

    mean: NDArray[np.float32]  #: Float32 ``(features,)``.
    scale: NDArray[np.float32]  #: What centred features are multiplied by, float32 ``(features,)``.
    clip: float  #: Normalised features are within ``±clip``.

    @classmethod
    def of(cls, normalizer: RunningNormalizer, num_features: int) -> FrameStatistics:
        """A copy of the normalizer's statistics of its first ``num_features`` features."""
        mean, scale = (part[:num_features].cpu().numpy().copy() for part in (normalizer.mean, normalizer.scale()))
        return cls(mean, scale, normalizer.clip)

    def __call__(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Normalised features of the same shape ``(..., features)``."""
        normalized = (features - self.mean) * self.scale
        return np.clip(normalized, -self.clip, self.clip, out=normalized)
