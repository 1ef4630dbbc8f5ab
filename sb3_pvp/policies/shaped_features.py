"""Features extractors of SB3 inside of `AutoregressivePolicy`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch as th
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

from sb3_pvp.policies.features import ACTION_MASK, OBSERVATION, PRIVILEGED, frames_of
from sb3_pvp.policies.networks import Layer, make_network

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
        given: the arguments of `AutoregressivePolicy`.
        layers: those of ``features_arch``.
        num_features: the number of flat features, public ones first.
    """
    if (extractor_class := given.get("features_extractor_class")) is None:
        return make_network(num_features, layers)
    shaped = ShapedFeatures(space, extractor_class, given.get("features_extractor_kwargs") or {}, num_features)
    rest = num_features - shaped.num_public
    network, width = make_network(shaped.extractor.features_dim + rest, layers)
    return nn.Sequential(shaped, *network), width
