"""From observations to normalised features: public ones, and privileged ones that only the critic sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import nn

from sb3_pvp.common.arguments import check_mask
from sb3_pvp.policies.networks import Layer, RunningNormalizer, make_network

OBSERVATION, PRIVILEGED, ACTION_MASK = "observation", "privileged", "action_mask"
MEMORY, NEXT_MEMORY = "memory", "next_memory"  #: What graphs of a policy with memory get and return.


def part_of(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Returns the space of what an agent itself sees: the part ``"observation"`` of a Dict, or else the whole space."""
    return space.spaces.get(OBSERVATION, space) if isinstance(space, spaces.Dict) else space


def head_sizes_of(action_space: spaces.Space) -> tuple[int, ...]:  # type: ignore[type-arg]
    """Returns the number of sub-actions of each head; a Discrete space has one head."""
    if isinstance(action_space, spaces.Discrete):
        return (int(action_space.n),)
    if isinstance(action_space, spaces.MultiDiscrete) and action_space.nvec.ndim == 1:
        return tuple(int(size) for size in action_space.nvec)
    raise ValueError(f"the model has the action space {action_space}, but it must be Discrete or MultiDiscrete")


def heads_of(action_space: spaces.Space) -> tuple[tuple[int, ...], tuple[int, ...]]:  # type: ignore[type-arg]
    """Returns `head_sizes_of` a space and the positions of the heads that are numbers, which have a size of 1.

    These are in a box, see `sb3_pvp.game.contract.Contract.action_space`.
    """
    if not isinstance(action_space, spaces.Box):
        return head_sizes_of(action_space), ()
    is_number = action_space.low.ravel() < 0
    sizes = np.where(is_number, 1, action_space.high.ravel() + 1).astype(int)
    return tuple(sizes.tolist()), tuple(np.flatnonzero(is_number).tolist())


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
        # Statistics are of one frame: its public parts, then the privileged one. Features have all public frames
        # first, so that the actor's input is one slice. So a part has two places.
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
        # The same in Numba: `_normalized`. Dense on GPUs, and where a gradient for the observation is asked for.
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
        from sb3_pvp.policies.kernels import normalize  # Numba takes long to import

        # Dense: the rest of `forward`, which joins the parts before it splits the frames again.
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


def flat_masks(obs: PyTorchObs, given: Any, num_flat: int, device: th.device) -> th.Tensor:
    """Returns flat masks, bool ``(batch, A)``: those given, else those in the observation, else all true.

    Raises `ValueError` for another number of entries than ``num_flat``.
    """
    masks = obs.get(ACTION_MASK) if given is None and isinstance(obs, dict) else given
    batch = len(obs if isinstance(obs, th.Tensor) else next(iter(obs.values())))
    if masks is None:
        return th.ones(batch, num_flat, dtype=th.bool, device=device)
    masks = th.as_tensor(masks, device=device).bool()
    if masks.numel() not in (num_flat, batch * num_flat):
        shape = tuple(masks.shape)
        raise ValueError(f"action masks must have shape ({batch}, {num_flat}) or ({num_flat},), got {shape}")
    return masks.reshape(-1, num_flat).expand(batch, num_flat)


def checked_observation(observation: Any, space: spaces.Space[Any], action_masks: Any) -> Any:
    """Returns what `complete_observation` makes of the argument of a ``predict``, with the masks given beside it.

    Raises `ValueError` if it does not fit, or a mask is missing, not 0 or 1, or allows nothing.
    """
    if isinstance(space, spaces.Dict):
        observation = complete_observation(observation, space, action_masks is not None)
    seen = observation.get(ACTION_MASK, True) if isinstance(observation, dict) else True
    check_mask(seen if action_masks is None else action_masks)
    return observation


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


Parts = dict[str, th.Tensor]


class ShapedFeatures(nn.Module):
    """A features extractor of SB3, on flat public features in their shapes; those after them pass by.

    ``extractor_class`` gets the space as the policy has it, without the mask and what only the critic sees; a class
    that takes no Dict gets the space of the only part. It sees the normalised numbers. Raises `ValueError` if it
    refuses these.

    Args:
        space: of the policy's observations.
        extractor_class: the class of the extractor.
        kwargs: its arguments.
        num_features: the number of all flat features; by default there are only public ones.
    """

    def __init__(
        self,
        space: spaces.Space[Any],
        extractor_class: type[BaseFeaturesExtractor],
        kwargs: Mapping[str, Any],
        num_features: int = 0,
    ) -> None:
        super().__init__()
        whole = space.spaces if isinstance(space, spaces.Dict) else {OBSERVATION: space}
        parts = {key: part for key, part in whole.items() if key not in (PRIVILEGED, ACTION_MASK)}
        frames = {frames_of(part)[0] for part in parts.values()}
        self._num_frames = frames.pop() if len(frames) == 1 else 1  # as in `NormalizedFeatures`
        self._shapes = {key: part.shape or () for key, part in parts.items()}
        self._widths = [prod(shape) // self._num_frames for shape in self._shapes.values()]
        self.num_public = self._num_frames * sum(self._widths)
        self.num_features = num_features or self.num_public  #: Public features and the rest.
        # Some extractors of SB3 take a Dict, some a Box, and none says which: what raises is not the one.
        choices = [*parts.values()] if len(parts) == 1 else []
        if isinstance(space, spaces.Dict):
            choices.insert(0, spaces.Dict([*parts.items()]))
        faults = []
        for given in choices:
            self._takes_dict = isinstance(given, spaces.Dict)
            try:
                self.extractor = extractor_class(given, **kwargs)
                self._check()
                return
            except Exception as error:  # of whatever the class of a user does
                faults.append(" ".join(str(error).split()))
        raise ValueError(f"the features extractor {extractor_class.__name__} refuses {choices[0]}: {faults[0]:.200}")

    @th.no_grad()
    def _check(self) -> None:
        """Raises whatever the extractor raises for zeros, or `ValueError` for another width than it says."""
        self.eval()
        extracted, wanted = self(th.zeros(2, self.num_public)), (2, self.extractor.features_dim)
        if tuple(extracted.shape) != wanted:
            raise ValueError(f"it returns the shape {tuple(extracted.shape)}, not {wanted} as its features_dim says")
        self.train()

    def forward(self, features: th.Tensor) -> th.Tensor:
        """Returns ``(batch, features_dim of the extractor and the rest)`` for ``(batch, public and the rest)``."""
        public, rest = features[:, : self.num_public], features[:, self.num_public :]
        columns = public.reshape(-1, self._num_frames, sum(self._widths)).split_with_sizes(self._widths, 2)
        given = zip(self._shapes.items(), columns, strict=True)
        parts = {key: column.reshape(-1, *shape) for (key, shape), column in given}
        extracted: th.Tensor = self.extractor(parts if self._takes_dict else next(iter(parts.values())))
        return th.cat([extracted, rest], 1) if rest.shape[1] else extracted


def make_extractor(
    space: spaces.Space[Any], given: Mapping[str, Any], layers: Sequence[Layer], num_features: int
) -> tuple[nn.Sequential, int]:
    """Returns what stands in front of the actor, or of the critic, and the number of its outputs.

    Args:
        space: of the policy's observations.
        given: the arguments of `AutoregressivePolicy`, with a features extractor as a class.
        layers: those of ``features_arch``.
        num_features: the number of flat features, public ones first.
    """
    if (extractor_class := given.get("features_extractor_class")) is None:
        return make_network(num_features, layers)
    shaped = ShapedFeatures(space, extractor_class, given.get("features_extractor_kwargs") or {}, num_features)
    rest = num_features - shaped.num_public
    network, width = make_network(shaped.extractor.features_dim + rest, layers)
    return nn.Sequential(shaped, *network), width
