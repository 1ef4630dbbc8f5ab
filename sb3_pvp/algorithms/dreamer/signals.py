"""What observations and actions are to the networks of DreamerV3, from their spaces (dreamer.md §5.2, A12)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.preprocessing import is_image_space, is_image_space_channels_first
from stable_baselines3.common.type_aliases import PyTorchObs


@dataclass(frozen=True)
class Signal:
    """One key of an observation or an action: ``size`` numbers, or choices out of ``classes`` each, or an image.

    ``image`` is height, width and channels of pixels in uint8.
    """

    size: int
    classes: int = 0
    image: tuple[int, int, int] | None = None

    @property
    def width(self) -> int:
        """The number of inputs or outputs that a network has for it."""
        return self.size * max(self.classes, 1)

    @property
    def stored(self) -> tuple[tuple[int, ...], type[Any]]:
        """The shape and the type that its values are stored in."""
        return self.image or (self.size,), np.uint8 if self.image else np.int32 if self.classes else np.float32

    def encode(self, values: th.Tensor) -> th.Tensor:
        """Returns network inputs ``(…, width)`` of values ``(…, size)``; choice -1 stands for none, and is all 0."""
        return one_hot(values, self.classes).flatten(-2) if self.classes else values


def one_hot(indices: th.Tensor, classes: int) -> th.Tensor:
    """Returns ``(…, classes)`` of class numbers ``(…)``; -1 stands for none, and is all 0."""
    return (indices.unsqueeze(-1) == th.arange(classes, device=indices.device)).float()


def encode_actions(signals: Mapping[str, Signal], actions: Mapping[str, th.Tensor]) -> th.Tensor:
    """Returns network inputs ``(…, width)`` of an action, its keys sorted."""
    return th.cat([signals[key].encode(actions[key]) for key in sorted(signals)], -1)


def signals_of(space: spaces.Space[Any], name: str) -> dict[str, Signal]:
    """Returns the signals of a space that is not a dictionary; raises `ValueError` for kinds that have none.

    Choices out of different numbers of classes are signals of their own, in their order.
    """
    if isinstance(space, spaces.Box) and is_image_space(space):
        shape = space.shape
        first = is_image_space_channels_first(space)
        return {name: Signal(0, image=(shape[1], shape[2], shape[0]) if first else (shape[0], shape[1], shape[2]))}
    if isinstance(space, (spaces.Box, spaces.MultiBinary)):
        return {name: Signal(int(np.prod(space.shape)), 0 if isinstance(space, spaces.Box) else 2)}
    if isinstance(space, spaces.Discrete):
        return {name: Signal(1, int(space.n))}
    if isinstance(space, spaces.MultiDiscrete):
        counts = [int(count) for count in space.nvec.flatten()]
        if len(set(counts)) == 1:
            return {name: Signal(len(counts), counts[0])}
        return {f"{name}_{i:04}": Signal(1, count) for i, count in enumerate(counts)}
    raise ValueError(f"DreamerV3 does not support {name} in {space}: use Box, Discrete, MultiDiscrete or MultiBinary")


class ObservedSignals:
    """The signals of an observation space, without the vectors and images whose keys do not match.

    ``mlp_keys`` and ``cnn_keys`` are regular expressions that the keys of a dictionary begin with. Raises
    `ValueError` if nothing matches.
    """

    def __init__(self, space: spaces.Space[Any], mlp_keys: str = ".*", cnn_keys: str = ".*") -> None:
        parts = dict(space.spaces) if isinstance(space, spaces.Dict) else {"observation": space}
        of_keys = {
            key: signals_of(part, key)
            for key, part in sorted(parts.items())
            if re.match(cnn_keys if is_image_space(part) else mlp_keys, key)
        }
        if not of_keys:
            raise ValueError(
                f"no key of the observation matches mlp_keys {mlp_keys!r} or cnn_keys {cnn_keys!r}: {', '.join(parts)}"
            )
        self.signals = {name: signal for signals in of_keys.values() for name, signal in signals.items()}
        self._origins = {key: (parts[key], list(signals)) for key, signals in of_keys.items()}

    def tensors(self, observations: PyTorchObs) -> dict[str, th.Tensor]:
        """Returns the values ``(n, size)`` or pixels ``(n, height, width, channels)`` of observations ``(n, …)``."""
        values: dict[str, th.Tensor] = {}
        for key, (space, names) in self._origins.items():
            part = observations[key] if isinstance(observations, dict) else observations
            signal = self.signals[names[0]]
            if signal.image:
                values[key] = part.movedim(1, -1) if part.shape[1:] != signal.image else part
                continue
            part = part.reshape(len(part), -1)
            if signal.classes:
                part = part.long() - th.as_tensor(getattr(space, "start", 0), device=part.device).flatten()
            values |= zip(names, th.split(part if signal.classes else part.float(), signal.size, 1), strict=True)
        return values


class ActionSignals:
    """The signals of an action space: choices, or numbers in [-1, 1] that are mapped to its bounds."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.space = space
        self.signals = signals_of(space, "action")

    def to_env(self, actions: Mapping[str, th.Tensor]) -> NDArray[Any]:
        """Returns actions for environments ``(n, …)`` of values ``(n, size)``."""
        values = np.concatenate([actions[key].cpu().numpy() for key in sorted(self.signals)], -1)
        shaped = values.reshape(len(values), *(self.space.shape or ()))
        if not isinstance(self.space, spaces.Box):
            return shaped + getattr(self.space, "start", 0)
        # Where there are no bounds, numbers stay in [-1, 1].
        bounded = np.isfinite(self.space.low) & np.isfinite(self.space.high)
        low, high = np.where(bounded, self.space.low, -1), np.where(bounded, self.space.high, 1)
        scaled: NDArray[Any] = low + (np.clip(shaped, -1, 1) + 1) / 2 * (high - low)
        return scaled.astype(self.space.dtype)
