"""Sizes of DreamerV3, by the names of 2024 (``size1m`` … ``size400m``) and of 2023 (``small`` … ``xlarge``)."""

from __future__ import annotations

from dataclasses import dataclass

from sb3_pvp.common.errors import require_known


@dataclass(frozen=True)
class ModelSize:
    """How large the networks are (dreamer.md §4.2).

    The state of the world is a vector of ``deter`` numbers, computed in ``blocks`` groups, and ``stoch`` draws out of
    ``classes`` each. ``hidden`` is the width inside the world model, ``units`` that of all other networks, with
    ``layers`` layers in encoder, decoder, actor and critic and ``head_layers`` in the heads of reward and
    continuation. ``depth`` is the number of channels that those of the convolutions are multiples of. The decoder of
    images reads the state in ``image_blocks`` groups; ``bins`` describe a reward or a value.
    """

    deter: int
    hidden: int
    units: int
    classes: int
    depth: int
    stoch: int = 32
    blocks: int = 8
    layers: int = 3
    head_layers: int = 1
    prior_layers: int = 2
    posterior_layers: int = 1
    image_blocks: int = 8
    bins: int = 255

    def __post_init__(self) -> None:
        if self.deter % self.blocks or self.deter % self.image_blocks:
            given = f"{self.deter} for {self.blocks} and {self.image_blocks}"
            raise ValueError(f"deter must be a multiple of blocks and of image_blocks, got {given}")

    @property
    def features(self) -> int:
        """The width of what all heads read: the whole state."""
        return self.deter + self.stoch * self.classes


def _size_2024(width: int) -> ModelSize:
    return ModelSize(deter=8 * width, hidden=width, units=width, classes=width // 16, depth=width // 16)


def _size_2023(deter: int, units: int, layers: int, depth: int, latents: int = 32) -> ModelSize:
    """The widths of 2023 for the networks of 2024; all of its networks had the same number of layers."""
    return ModelSize(deter, units, units, latents, depth, latents, layers=layers, head_layers=layers, prior_layers=1)


SIZES: dict[str, ModelSize] = {
    "size1m": _size_2024(64),
    "size12m": _size_2024(256),
    "size25m": _size_2024(384),
    "size50m": _size_2024(512),
    "size100m": _size_2024(768),
    "size200m": _size_2024(1024),
    "size400m": _size_2024(1536),
    # The one that the original was measured with on two cores (dreamer.md §5.4).
    "micro": ModelSize(deter=128, hidden=32, units=32, classes=8, depth=4, stoch=8, blocks=4, layers=2, image_blocks=4),
    "debug": _size_2023(32, 16, 2, 8, latents=4),
    "XS": _size_2023(256, 256, 1, 24),
    "small": _size_2023(512, 512, 2, 32),
    "medium": _size_2023(1024, 640, 3, 48),
    "large": _size_2023(2048, 768, 4, 64),
    "xlarge": _size_2023(4096, 1024, 5, 96),
}


def model_size(name: str) -> ModelSize:
    """Returns the size of this name; raises `ValueError` with the nearest name for others."""
    require_known("size of DreamerV3", name, SIZES)
    return SIZES[name]
