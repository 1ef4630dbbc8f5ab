"""A finished roll-out as tensors, and its random mini-batches (training.md §6.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.buffers import MaskableDictRolloutBuffer, MaskableRolloutBuffer
from stable_baselines3.common.type_aliases import PyTorchObs

MaskableBuffer = MaskableRolloutBuffer | MaskableDictRolloutBuffer


@dataclass(frozen=True)
class Samples:
    """Steps of a roll-out, in no particular order; the first axis of every tensor counts them."""

    observations: PyTorchObs
    actions: th.Tensor
    action_masks: th.Tensor
    old_values: th.Tensor
    old_log_probs: th.Tensor
    advantages: th.Tensor
    returns: th.Tensor

    def __len__(self) -> int:
        return len(self.returns)

    def __getitem__(self, indices: th.Tensor) -> Samples:
        """The steps with these indices, int64 ``(batch,)``."""
        return Samples(*(each_part(tensors, lambda tensor: tensor[indices]) for tensors in vars(self).values()))

    def minibatches(self, batch_size: int | None) -> Iterator[Samples]:
        """One epoch: every step once, in an order drawn from NumPy's global generator as SB3 does.

        The last mini-batch may be smaller; ``None``: one batch with all steps.
        """
        order = th.from_numpy(np.random.permutation(len(self))).to(self.returns.device)  # noqa: NPY002
        for indices in th.split(order, batch_size or len(self)):
            yield self[indices]


def read_buffer(buffer: MaskableBuffer) -> Samples:
    """The content of a full roll-out buffer; converted once, while SB3 converts every mini-batch of every epoch."""

    def tensor(array: NDArray[Any]) -> th.Tensor:
        return th.as_tensor(buffer.swap_and_flatten(array), device=buffer.device)

    actions = tensor(buffer.actions)
    return Samples(
        each_part(buffer.observations, tensor),
        actions.long().flatten() if isinstance(buffer.action_space, spaces.Discrete) else actions,
        tensor(buffer.action_masks).bool(),
        *(tensor(array).flatten() for array in (buffer.values, buffer.log_probs, buffer.advantages, buffer.returns)),
    )


def each_part(parts: Any, function: Callable[[Any], Any]) -> Any:
    """The function of an array, or of each part of observations in a Dict."""
    return {key: function(part) for key, part in parts.items()} if isinstance(parts, dict) else function(parts)
