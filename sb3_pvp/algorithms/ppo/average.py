"""The average of a policy's weights over its training, an exponential moving one.

Where self-play goes round an equilibrium, the average is nearer to it than any policy on the way; it is often the least
exploitable of all (EMAgnet, https://arxiv.org/abs/2606.23995).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import torch as th
from pydantic import Field

from sb3_pvp.common.arguments import Kind

EMA_DECAY = Kind[Any](Annotated[float, Field(ge=0, lt=1)] | None, "a number from 0 to below 1, or None")


class WeightAverage:
    """The average of the weights of a policy; it begins as the weights are now.

    After a step of its optimiser, whoever makes it, it is ``decay`` times what it was plus ``1 - decay`` times the
    weights: about the mean of the last ``1 / (1 - decay)`` steps. Statistics of observations are no weights: an
    averaged policy has those of the policy.
    """

    def __init__(self, policy: Any, decay: float) -> None:
        self.decay = decay
        self._policy, self._parts = policy, {n: part.detach().clone() for n, part in policy.named_parameters()}
        self._parameters = [*policy.parameters()]  # to find them takes as long as to average them
        policy.optimizer.register_step_post_hook(lambda *_: self.update())

    @th.no_grad()
    def update(self) -> None:
        """Moves the average to the weights by one step."""
        th._foreach_lerp_([*self._parts.values()], [*self._parameters], 1 - self.decay)

    def weights(self) -> dict[str, th.Tensor]:
        """Returns the average, by names of parameters; not a copy."""
        return dict(self._parts)

    @th.no_grad()
    def set_weights(self, weights: Mapping[str, th.Tensor]) -> None:
        """Sets the average."""
        for name, part in self._parts.items():
            part.copy_(weights[name])

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Lets the policy have these weights meanwhile, for whatever plays or saves it; it must not learn."""
        # Exchanged, not copied: the optimiser keeps its parameters, and their values are not touched.
        own = [each.data for each in self._parameters]
        forget = getattr(self._policy, "forget_tables", lambda: None)
        for each, part in zip(self._parameters, self._parts.values(), strict=True):
            each.data = part
        forget()
        try:
            yield
        finally:
            for each, part in zip(self._parameters, own, strict=True):
                each.data = part
            forget()
