"""Building blocks of networks: architectures (training.md §3.1), layers and running statistics (§4)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

import numpy as np
import torch as th
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from torch import nn

from sb3_pvp.common.arguments import PositiveInt, read_model
from sb3_pvp.common.errors import require_all_known, require_known

Activation = Literal["relu", "tanh", "gelu"]
ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}
#: Sizes, each followed by the policy's activation; or the full grammar ``{"layers": [...]}``.
Architecture = Sequence[int] | Mapping[str, Any]
#: The weight ``(outputs, inputs)`` and the bias ``(outputs,)`` of one linear layer.
LinearLayer = tuple[th.Tensor, th.Tensor]
#: Products of at least so many rows and columns give each row the same bits whatever the others; smaller ones use other
#: routines. These are filled up while acting, so that no decision depends on the batch that it is made in.
LEAST_ROWS, LEAST_COLUMNS = 4, 12
#: The same for rows times the weights of `nn.Linear`, which lie in memory transposed: the processors with AVX512-FP16
#: have routines of their own for up to 15 rows. Weights that lie as they are multiplied do without, and are faster for
#: few rows, but with more inputs than this the bits depend on the batch again.
LEAST_ROWS_OF_LINEAR, MAX_INPUTS_LAID_OUT = 16, 512
#: Agent-steps that are evaluated or observed at once without learning from them.
ROWS_AT_ONCE = 2048


class Layer(BaseModel, frozen=True, extra="forbid", strict=True):
    """A linear layer with ``size`` outputs and an activation (``None``: identity).

    With ``size`` 0, only the activation; without one either, dropout.
    """

    size: PositiveInt = 0
    activation: Activation | None = None
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    repeat: PositiveInt = 1


Layers = tuple[Layer, ...]


def parse_layers(architecture: Architecture | None, activation: str) -> Layers:
    """Returns the layers of an architecture: ``[64, 64]``, or the full grammar ``{"layers": [...]}``.

    A layer is ``{"size": 64, "activation": "relu", "repeat": 2}``, ``{"activation": "relu"}`` or ``{"dropout": 0.1}``.
    ``activation`` follows each size of the short form. An empty architecture and ``None`` are the identity. Raises
    `ValueError` for other forms.
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
        if ("dropout" in given) == (given.get("size", given.get("activation")) is not None):
            raise ValueError(f"a layer needs either a size or a dropout, or an activation alone, got {given}")
        layer = read_model(Layer, given, "layer key")
        layers += [layer.model_copy(update={"repeat": 1})] * layer.repeat
    return tuple(layers)


def parse_architectures(given: Mapping[str, Any], num_heads: int) -> tuple[Layers, Layers, Layers, Sequence[Layers]]:
    """Returns the layers of features, actor, critic and each head from the arguments of `AutoregressivePolicy`.

    Raises `ValueError` if one is malformed, or there are too many or too few.
    """
    activation, net_arch, head_arch = given["activation"], given["net_arch"], given["head_arch"]
    net_arch = (64, 64) if net_arch is None else net_arch
    if not isinstance(net_arch, Mapping) or "layers" in net_arch:
        net_arch = {"pi": net_arch, "vf": net_arch}
    if set(net_arch) != {"pi", "vf"}:
        raise ValueError(f"a mapping as net_arch needs 'pi' and 'vf' (or 'layers'), got {sorted(net_arch)}")
    # [64, 64] is one architecture for all heads, [[64], [64]] is one architecture per head.
    each = isinstance(head_arch, Sequence) and any(
        isinstance(item, Sequence) or (isinstance(item, Mapping) and "layers" in item) for item in head_arch
    )
    if each and len(head_arch) != num_heads:
        raise ValueError(f"head_arch has {len(head_arch)} architectures for {num_heads} heads; give one per head")
    heads = [parse_layers(head, activation) for head in (head_arch if each else [head_arch] * num_heads)]
    features, actor, critic = (
        parse_layers(part, activation) for part in (given["features_arch"], net_arch["pi"], net_arch["vf"])
    )
    return features, actor, critic, heads


def make_network(
    num_inputs: int, layers: Sequence[Layer], linear: Callable[[int, int], nn.Module] = nn.Linear
) -> tuple[nn.Sequential, int]:
    """Builds a module from ``(..., num_inputs)`` to ``(..., outputs)``; returns it and the number of outputs."""
    modules: list[nn.Module] = []
    for layer in layers:
        if layer.size:
            modules.append(linear(num_inputs, layer.size))
            num_inputs = layer.size
        if layer.activation:
            modules.append(ACTIVATIONS[layer.activation]())
        elif not layer.size:
            modules.append(nn.Dropout(layer.dropout))
    return nn.Sequential(*modules), num_inputs


def apply_layers(network: nn.Sequential, inputs: th.Tensor) -> th.Tensor:
    """Does the same as calling a network of `make_network`, without the overhead of a call of each module.

    In rollouts these calls take longer than the layers of a small network. Hooks of modules are not called.
    """
    previous: nn.Module | None = None
    for layer in network:
        if isinstance(layer, nn.Linear):
            inputs = nn.functional.linear(inputs, layer.weight, layer.bias)
        elif isinstance(layer, nn.ReLU) and isinstance(previous, nn.Linear):
            inputs = th.relu_(inputs)  # in place, as the gradient of a linear layer does not need its outputs
        else:
            inputs = layer(inputs)
        previous = layer
    return inputs


def filled(rows: th.Tensor, least: int = LEAST_ROWS) -> th.Tensor:
    """Returns rows ``(batch, ...)``, repeated until there are so many."""
    return rows if len(rows) >= least else rows[th.arange(least, device=rows.device) % len(rows)]


@th.no_grad()
def set_layers(network: nn.Sequential, layers: Iterable[LinearLayer]) -> None:
    """Copies weights into the linear layers of a network, in order."""
    own = [module for module in network if isinstance(module, nn.Linear)]
    for module, (weight, bias) in zip(own, layers, strict=True):
        module.weight.copy_(weight)
        module.bias.copy_(bias)


class RunningNormalizer(nn.Module):
    """Scales features to zero mean and unit variance, by running statistics of the rollouts (training.md §4).

    `observe` only collects, `update` applies. So PPO acts in a rollout and learns from it with the same statistics,
    and its probability ratio is one before the first gradient step.

    Features that have been constant so far are only centred: dividing by zero would blow up their first change. With
    ``scale_constants`` they are divided all the same, and any change of them counts as ``±clip`` (training.md §4).
    """

    mean: th.Tensor  #: Float ``(num_features,)``.
    variance: th.Tensor  #: Float ``(num_features,)``.
    count: th.Tensor  #: Number of samples, a float64 scalar.
    pending: th.Tensor  #: Float64 ``(3, num_features)``: samples, sum and sum of squares since the last `update`.

    def __init__(self, num_features: int, clip: float = 5.0, scale_constants: bool = False) -> None:
        super().__init__()
        self.clip = clip
        self._constant = -1.0 if scale_constants else 1e-6
        self.register_buffer("mean", th.zeros(num_features))
        self.register_buffer("variance", th.ones(num_features))
        self.register_buffer("count", th.zeros((), dtype=th.float64))
        self.register_buffer("pending", th.zeros(3, num_features, dtype=th.float64))
        self._scale: tuple[object, th.Tensor] = (None, self.variance)

    def forward(self, features: th.Tensor) -> th.Tensor:
        """Returns normalised features ``(..., num_features)``, clipped to ``±clip``."""
        # The same in Numba: `sb3_pvp.policies.kernels.normalize`.
        return ((features - self.mean) * self.scale()).clamp(-self.clip, self.clip)

    def scale(self) -> th.Tensor:
        """Returns the factors of centred features, ``(num_features,)``."""
        variance = self.variance
        # In-place changes bump the version; a tensor on another device has another address.
        key = variance._version, variance.data_ptr()
        if key != self._scale[0]:
            self._scale = key, th.where(variance > self._constant, variance + 1e-8, 1.0).rsqrt()
        return self._scale[1]

    def observe(self, features: th.Tensor, first: int = 0) -> None:
        """Collects raw features ``(..., width)`` for the next `update`; ``first`` is the number of the first one."""
        # The same in Numba: `sb3_pvp.policies.kernels.observe`.
        rows = features.detach().reshape(-1, features.shape[-1])
        if rows.is_cpu:
            from sb3_pvp.policies.kernels import observe  # Numba takes long to import

            observe(rows.numpy(), first, self.pending.numpy())
            return
        for part in th.split(rows, ROWS_AT_ONCE):  # the same in PyTorch
            wide = part.double()
            sums = th.stack([th.ones_like(wide), wide, wide.square()]).sum(1)
            self.pending[:, first : first + rows.shape[1]] += sums

    @property
    def has_pending(self) -> bool:
        """Whether anything was observed since the last `update`."""
        return bool(self.pending[0, 0])

    @th.no_grad()
    def update(self) -> None:
        """Merges what was observed since the last update into the statistics."""
        if not self.has_pending:
            return
        pending_count, total, squares = self.pending
        # Moments are merged, not deviations: the sums of a rollout can come from any number of calls and processes.
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
    """A snapshot of a `RunningNormalizer` as NumPy arrays, for the first features of a frame."""

    mean: NDArray[np.float32]  #: Float32 ``(features,)``.
    scale: NDArray[np.float32]  #: Factors of centred features, float32 ``(features,)``.
    clip: float  #: Normalised features are clipped to ``±clip``.

    @classmethod
    def of(cls, normalizer: RunningNormalizer, num_features: int) -> FrameStatistics:
        """Copies the statistics of the first ``num_features`` features."""
        mean, scale = (part[:num_features].cpu().numpy().copy() for part in (normalizer.mean, normalizer.scale()))
        return cls(mean, scale, normalizer.clip)

    def __call__(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns normalised features ``(..., features)``."""
        normalized = (features - self.mean) * self.scale
        return np.clip(normalized, -self.clip, self.clip, out=normalized)


AUTO, FP32, BF16 = "auto", "fp32", "bf16"
PRECISIONS = (AUTO, FP32, BF16)
#: Layers that are narrower are too small to gain: their time is not that of the product.
MIN_WIDTH = 256
#: How many times faster bfloat16 must be, so that the choice does not depend on noise.
MIN_SPEEDUP = 1.3


def check_precision(precision: str, policy: MaskableActorCriticPolicy) -> None:
    """Raises `ValueError` for an unknown precision, or one that is not possible with this policy."""
    require_known("precision", precision, PRECISIONS)
    if precision == BF16 and not _has_float32_outputs(policy):
        raise ValueError(f"precision='bf16' needs an AutoregressivePolicy, not {type(policy).__name__}; use 'fp32'")


def resolve_precision(precision: str, policy: MaskableActorCriticPolicy) -> str:
    """Returns ``"fp32"`` or ``"bf16"`` for a policy; ``"auto"`` measures which is faster.

    Processors say too little: some have instructions for bfloat16 and are slower with them.
    """
    if precision != AUTO:
        return precision
    # The widest layer stands for all: it is where most of the time goes.
    shapes = [part.shape[-2:] for part in policy.parameters() if part.ndim > 1 and min(part.shape[-2:]) >= MIN_WIDTH]
    if not shapes or not _has_float32_outputs(policy):
        return FP32
    widest = max(shapes, key=lambda shape: shape.numel())
    return BF16 if bf16_speedup(*widest, policy.device) > MIN_SPEEDUP else FP32


@cache
def bf16_speedup(num_outputs: int, num_inputs: int, device: th.device, rows: int = 256) -> float:
    """Measures how many times faster a layer is with bfloat16, once per process; below 1 it is slower."""
    inputs, weight = th.ones(rows, num_inputs, device=device), th.ones(num_outputs, num_inputs, device=device)
    seconds: dict[str, list[float]] = {FP32: [], BF16: []}
    for _ in range(4):  # the first warms up
        for precision, times in seconds.items():
            started = time.perf_counter()
            with learning_in(precision, device):
                th.nn.functional.linear(inputs, weight)[0, 0].item()  # waits for a GPU
            times.append(time.perf_counter() - started)
    return min(seconds[FP32]) / min(seconds[BF16])


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Lets PyTorch compute with so many threads."""
    before = th.get_num_threads()
    th.set_num_threads(number)
    try:
        yield
    finally:
        th.set_num_threads(before)


def learning_in(precision: str, device: th.device) -> AbstractContextManager[Any]:
    """Returns a context in which PyTorch computes products of matrices in ``"fp32"`` or ``"bf16"``."""
    return th.autocast(device.type, th.bfloat16) if precision == BF16 else nullcontext()


def in_float32(tensor: th.Tensor) -> AbstractContextManager[Any]:
    """Returns a context in which everything on the device of ``tensor`` is float32 again."""
    device = tensor.device.type
    is_on = th.amp.is_autocast_available(device) and th.is_autocast_enabled(device)
    return th.autocast(device, enabled=False) if is_on else nullcontext()  # acting should not pay for the former


def _has_float32_outputs(policy: MaskableActorCriticPolicy) -> bool:
    """Whether the policy uses `in_float32`, as `AutoregressivePolicy` does."""
    return hasattr(policy, "evaluate_heads")
