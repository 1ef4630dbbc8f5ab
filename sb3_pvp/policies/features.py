"""From observations to normalised features: public ones, and privileged ones that only the critic sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import PyTorchObs

from sb3_pvp.policies.networks import RunningNormalizer

OBSERVATION, PRIVILEGED, ACTION_MASK = "observation", "privileged", "action_mask"
#: Agent-steps that are evaluated at once without learning from them.
ROWS_AT_ONCE = 2048


def part_of(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Returns the space of what an agent itself sees: the part ``"observation"`` of a Dict, or else the whole space."""
    return space.spaces.get(OBSERVATION, space) if isinstance(space, spaces.Dict) else space


def frames_of(space: spaces.Space[Any]) -> tuple[int, tuple[int, ...]]:
    """Returns the number of frames that an agent sees, and the shape of each.

    A frame is a vector, or an array of three axes, such as planes; a space of two or four axes has several, which come
    first. Any other space is one vector.
    """
    shape = part_of(space).shape or ()
    if len(shape) in (2, 4):
        return shape[0], shape[1:]
    return 1, shape if len(shape) == 3 else (spaces.flatdim(part_of(space)),)


def map_parts(parts: Any, function: Callable[[Any], Any]) -> Any:
    """Applies a function to an array, or to each part of a Dict observation."""
    return {key: function(part) for key, part in parts.items()} if isinstance(parts, dict) else function(parts)


class NormalizedFeatures(BaseFeaturesExtractor):
    """Features extractor that normalises and flattens observations.

    In a Dict space all keys but ``"privileged"`` and ``"action_mask"`` are public; a Box is public. Parts may have
    frames, see `frames_of`, and if they have equally many, all frames share statistics (training.md §5).
    ``scale_constants`` is that of `RunningNormalizer`.
    """

    def __init__(
        self,
        observation_space: spaces.Space,  # type: ignore[type-arg]
        normalize: bool = True,
        scale_constants: bool = False,
    ) -> None:
        parts = (
            dict(observation_space) if isinstance(observation_space, spaces.Dict) else {OBSERVATION: observation_space}
        )
        parts.pop(ACTION_MASK, None)
        public = [key for key in parts if key != PRIVILEGED]
        if not public:
            raise ValueError(f"the observation space {observation_space} has no public part, such as {OBSERVATION!r}")
        for key, part in parts.items():
            if not isinstance(part, spaces.Box):
                raise ValueError(f"observations must be Box spaces, but {key!r} is {part}; convert it with a wrapper")
        frames = {frames_of(part)[0] for part in parts.values()}
        self.num_frames = frames.pop() if len(frames) == 1 else 1
        sizes = {key: spaces.flatdim(space) for key, space in parts.items()}
        super().__init__(observation_space, sum(sizes.values()))
        #: Number of flat public features, which come before the privileged ones.
        self.num_public = sum(sizes[key] for key in public)
        self.has_privileged = PRIVILEGED in parts
        self.keys = [*public, PRIVILEGED] if self.has_privileged else public
        self.normalize = normalize
        self._places: list[_Place] = []
        feature, of_public = 0, self.num_public // self.num_frames
        for key in self.keys:
            width = sizes[key] // self.num_frames
            column = self.num_public if key == PRIVILEGED else feature
            self._places.append(_Place(feature, column, width if key == PRIVILEGED else of_public))
            feature += width
        #: Statistics of the features of one frame, public before privileged.
        self.normalizer = RunningNormalizer(self.features_dim // self.num_frames, scale_constants=scale_constants)

    def forward(self, observations: PyTorchObs) -> th.Tensor:
        """Returns flat normalised features ``(batch, features_dim)``: public before privileged, newest frame first."""
        parts = self._parts(observations)
        if self.normalize and parts[0].is_cpu and not any(part.requires_grad for part in parts):
            return self._normalized(parts)
        frames = th.cat(parts, 2)
        if self.normalize:
            frames = self.normalizer(frames)
        width = self.num_public // self.num_frames
        return th.cat([frames[:, :, :width].flatten(1), frames[:, :, width:].flatten(1)], 1)

    def observe(self, observations: PyTorchObs) -> None:
        """Collects raw features for the next update of the statistics."""
        for place, part in zip(self._places, self._parts(observations), strict=True):
            self.normalizer.observe(part, place.feature)

    def _parts(self, observations: PyTorchObs) -> list[th.Tensor]:
        """Returns raw parts ``(batch, frames, features of a frame)``."""
        parts = [observations] if isinstance(observations, th.Tensor) else [observations[key] for key in self.keys]
        return [part.float().reshape(len(part), self.num_frames, -1) for part in parts]

    def _normalized(self, parts: list[th.Tensor]) -> th.Tensor:
        """Does the same as `forward`, compiled, and writes each part straight to its columns."""
        from sb3_pvp.policies.acting_kernels import normalize  # Numba takes long to import

        mean, scale = self.normalizer.mean.numpy(), self.normalizer.scale().numpy()
        normalized = th.empty(len(parts[0]), self.features_dim)
        columns = normalized.numpy()
        for place, part in zip(self._places, parts, strict=True):
            own = slice(place.feature, place.feature + part.shape[2])
            raw = part.contiguous().numpy()
            normalize(raw, mean[own], scale[own], self.normalizer.clip, columns, place.column, place.stride)
        return normalized


class _Place(NamedTuple):
    """Where a part of an observation is among the features."""

    feature: int  #: Its first one in the statistics of a frame.
    column: int  #: Its first one in the flat features.
    stride: int  #: Columns from one frame to the next.


def complete_observation(observation: Any, space: spaces.Dict, masks_given: bool) -> dict[str, NDArray[Any]]:
    """Returns the observation with all parts of the space; missing ones are zero.

    An array ``(features,)``, ``(frames, features)`` or ``(batch, ...)`` is taken as the part ``"observation"``.
    Raises `ValueError` if the space has a mask and none is given, or the array does not fit the space.
    """
    if isinstance(observation, tuple):
        raise ValueError("predict() got a tuple; env.reset() of Gymnasium returns (observation, info): pass the first")
    parts = dict(observation) if isinstance(observation, dict) else {OBSERVATION: np.asarray(observation)}
    if ACTION_MASK in space.spaces and ACTION_MASK not in parts and not masks_given:
        raise ValueError("No action mask: pass action_masks=..., or an observation with the key 'action_mask'")
    key = OBSERVATION if OBSERVATION in parts else next(iter(parts))
    if key not in space.spaces:
        raise ValueError(f"The observation has a part {key!r}, but the policy was trained on {sorted(space.spaces)}")
    array, shape = np.asarray(parts[key]), space[key].shape or ()
    # With a single frame, the common case, the axis of frames may be left out.
    if array.shape[-len(shape) :] != shape and shape[:1] == (1,) and array.ndim in (1, 2):
        array = array.reshape(*array.shape[:-1], 1, -1)
    if array.shape[-len(shape) :] != shape:
        raise ValueError(f"An observation of shape {np.shape(parts[key])} does not fit {shape} or a batch of it")
    parts[key], batch = array, array.shape[: array.ndim - len(shape)]
    for name, part in space.spaces.items():
        if name not in parts:
            parts[name] = np.zeros((*batch, *(part.shape or ())), part.dtype)
    return parts
