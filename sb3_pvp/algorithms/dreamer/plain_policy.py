"""Plain descriptions of DreamerV3's policies: with the weights, all that is needed to build one; nothing is unpickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch as th
from gymnasium import Space, spaces
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sb3_pvp.algorithms.dreamer.dreamer_policy import DreamerPolicy
from sb3_pvp.algorithms.dreamer.sizes import ModelSize
from sb3_pvp.common.errors import first_error
from sb3_pvp.policies.features import OBSERVATION, head_sizes_of
from sb3_pvp.policies.files.description import Part

#: The largest of any number in a size, and the most entries of all heads: some take memory whatever the weights are.
_MAX_NUMBER, _MAX_ENTRIES = 1 << 16, 1 << 13


class PlainPolicy(BaseModel):
    """A `DreamerPolicy` of Box observations and choices, without the parts of the observation that it does not see."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    observation: dict[str, Part]  #: A Box is the part ``"observation"`` alone.
    is_dict: bool
    head_sizes: tuple[int, ...] = Field(min_length=1)
    is_discrete: bool
    size: dict[str, int]

    @property
    def observation_space(self) -> Space[Any]:
        """A new observation space."""
        parts = {key: part.space() for key, part in self.observation.items()}
        return spaces.Dict(parts) if self.is_dict else parts[OBSERVATION]

    @property
    def action_space(self) -> Space[Any]:
        """A new action space."""
        return spaces.Discrete(self.head_sizes[0]) if self.is_discrete else spaces.MultiDiscrete([*self.head_sizes])

    def build(self, weights: Mapping[str, th.Tensor]) -> DreamerPolicy:
        """Returns the policy; raises `ValueError` if the weights do not fit, before memory is taken for others."""
        if max(*self.size.values(), sum(self.head_sizes)) > _MAX_NUMBER or sum(self.head_sizes) > _MAX_ENTRIES:
            raise ValueError("its description is too large")
        given = self.observation_space, self.action_space, lambda _: 0.0, ModelSize(**self.size)
        with th.device("meta"):  # where tensors have shapes, and no memory
            DreamerPolicy(*given, mlp_keys="").check(weights)
        policy = DreamerPolicy(*given, mlp_keys="")
        policy.load_state_dict(weights)
        return policy


def describe(model: Any) -> dict[str, Any]:
    """Returns the plain description of a `DreamerV3`; raises `ValueError` if its spaces have none."""
    policy, space = model.policy, model.observation_space
    parts = space.spaces if isinstance(space, spaces.Dict) else {OBSERVATION: space}
    actions, starts = model.action_space, getattr(model.action_space, "start", 0)
    sizes = head_sizes_of(actions)
    if type(policy) is not DreamerPolicy or any(starts if len(sizes) > 1 else [starts]):
        raise ValueError("it is a policy of one's own, or its actions do not begin at 0")
    return PlainPolicy(
        observation={key: Part.of(key, parts[key]) for key in policy.observed.signals},
        is_dict=isinstance(space, spaces.Dict),
        head_sizes=sizes,
        is_discrete=isinstance(actions, spaces.Discrete),
        size=asdict(policy.size),
    ).model_dump(mode="json")


def read_plain(values: object) -> PlainPolicy:
    """Returns the description in plain values; raises `ValueError` if they are none."""
    try:
        return PlainPolicy.model_validate(values)
    except ValidationError as error:
        raise ValueError(f"its description is wrong: {first_error(error, of=PlainPolicy)}") from None
