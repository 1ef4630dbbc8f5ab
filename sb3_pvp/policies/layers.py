"""The grammar of network architectures (training.md §3.1), and plain networks made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any

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
    """One layer: a linear one of ``size`` outputs with its activation (``None``: none), or a dropout."""

    size: int = 0
    activation: str | None = None
    dropout: float = 0.0

    @property
    def is_linear(self) -> bool:
        """Whether the layer has weights."""
        return self.size > 0


def parse_layers(architecture: Architecture | None, activation: str) -> tuple[Layer, ...]:
    """The layers of an architecture: ``[64, 64]``, or the full grammar ``{"layers": [...]}``.

    A layer there is ``{"size": 64, "activation": "relu", "repeat": 2}`` or ``{"dropout": 0.1}``. An empty or absent
    architecture is the identity. ``activation``, one of `ACTIVATIONS`, follows every size of the short form. Raises
    ``ValueError`` for anything outside the grammar.
    """
    if isinstance(architecture, Mapping):
        require_all_known("key of an architecture", architecture, ("layers",))
        architecture = architecture.get("layers") or ()
    parsed = (
        _parse_layer(item) if isinstance(item, Mapping) else [Layer(_size(item), activation)]
        for item in architecture or ()
    )
    return tuple(chain.from_iterable(parsed))


@dataclass(frozen=True)
class Architectures:
    """The layers of a policy's networks: before actor and critic, of these two, and of each head before its logits."""

    features: tuple[Layer, ...]
    actor: tuple[Layer, ...]
    critic: tuple[Layer, ...]
    heads: Sequence[tuple[Layer, ...]]

    @classmethod
    def of(cls, given: Mapping[str, Any], num_heads: int) -> Architectures:
        """Those in the arguments of an `AutoregressivePolicy`; raises `ValueError` as `parse_layers` does."""
        activation, net_arch, head_arch = given["activation"], given["net_arch"], given["head_arch"]
        require_known("activation", activation, ACTIVATIONS)
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
    return next((layer.size for layer in reversed(layers) if layer.is_linear), num_inputs)


def make_network(num_inputs: int, layers: Sequence[Layer]) -> nn.Sequential:
    """The layers as a module from ``(batch, num_inputs)`` to ``(batch, output_size(...))``."""
    modules: list[nn.Module] = []
    for layer in layers:
        if layer.is_linear:
            modules.append(nn.Linear(num_inputs, layer.size))
            num_inputs = layer.size
        modules += after_linear(layer)
    return nn.Sequential(*modules)


def after_linear(layer: Layer) -> list[nn.Module]:
    """What a layer does besides its linear map: its activation, or the dropout that it is."""
    if not layer.is_linear:
        return [nn.Dropout(layer.dropout)]
    return [ACTIVATIONS[layer.activation]()] if layer.activation else []


def _parse_layer(item: Mapping[str, Any]) -> list[Layer]:
    require_all_known("key of an architecture", item, ("size", "activation", "repeat", "dropout"))
    if ("size" in item) == ("dropout" in item):
        raise ValueError(f"a layer has either a size or a dropout, got {dict(item)}")
    repeat = _size(item.get("repeat", 1), "repeat")
    if "dropout" in item:
        return [Layer(dropout=_DROPOUT.read("a dropout", item["dropout"]))] * repeat
    if item.get("activation") is not None:
        require_known("activation", item["activation"], ACTIVATIONS)
    return [Layer(_size(item["size"]), item.get("activation"))] * repeat


def _size(value: object, name: str = "size") -> int:
    return POSITIVE.read(f"the {name} of a layer", value)
