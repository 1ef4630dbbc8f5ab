"""Rollout buffers that keep their memory from one rollout to the next."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sb3_contrib.common.maskable.buffers import MaskableDictRolloutBuffer, MaskableRolloutBuffer


class _ReusedMemory:
    """Mixin that copies each step once, and only allocates memory for the first rollout.

    SB3 allocates, and so faults in, all pages again for each rollout, and copies each step twice.
    """

    def reset(self: Any) -> None:
        """Empties the buffer; the arrays keep what was in them until `add` replaces it."""
        if hasattr(self, "action_masks") and not self.generator_ready:  # SB3's `get` changes the arrays' shapes
            self.pos, self.full = 0, False
            return
        super().reset()  # type: ignore[misc]
        self.action_masks = np.ones(self.action_masks.shape, np.bool_)  # SB3 has floats, four times as large

    def add(
        self: Any,
        obs: Any,
        action: NDArray[Any],
        reward: NDArray[np.float32],
        episode_start: NDArray[np.bool_],
        value: Any,
        log_prob: Any,
        action_masks: NDArray[np.bool_] | None = None,
    ) -> None:
        """Adds a step of all environments, see SB3's buffers; ``value`` and ``log_prob`` are tensors."""
        # Straight into the arrays: SB3 copies each part first, to protect it from environments that reuse theirs.
        step = self.pos
        if isinstance(self.observations, dict):
            for key, stored in self.observations.items():
                stored[step] = np.reshape(obs[key], stored.shape[1:])
        else:
            self.observations[step] = np.reshape(obs, self.observations.shape[1:])
        self.actions[step] = action.reshape(self.actions.shape[1:])
        self.action_masks[step] = True if action_masks is None else action_masks.reshape(self.action_masks.shape[1:])
        self.rewards[step], self.episode_starts[step] = reward, episode_start
        self.values[step], self.log_probs[step] = value.flatten().cpu().numpy(), log_prob.flatten().cpu().numpy()
        self.pos += 1
        self.full = self.pos == self.buffer_size


class ReusedRolloutBuffer(_ReusedMemory, MaskableRolloutBuffer):  # type: ignore[misc]
    """A `MaskableRolloutBuffer` that keeps its memory, with masks as booleans."""


class ReusedDictRolloutBuffer(_ReusedMemory, MaskableDictRolloutBuffer):  # type: ignore[misc]
    """A `MaskableDictRolloutBuffer` that keeps its memory, with masks as booleans."""


#: By the class of SB3 that each one replaces.
REUSED = {MaskableRolloutBuffer: ReusedRolloutBuffer, MaskableDictRolloutBuffer: ReusedDictRolloutBuffer}


def reused(buffer: Any) -> Any:
    """Returns a buffer like one of SB3 that keeps its memory; of another class, chosen by the user, the same one."""
    own: Any = REUSED.get(type(buffer))
    if own is None:
        return buffer
    names = ("buffer_size", "observation_space", "action_space", "device", "gae_lambda", "gamma", "n_envs")
    return own(**{name: getattr(buffer, name) for name in names})


def narrowed(buffer: Any, rows: NDArray[np.int64]) -> Any:
    """Returns a copy of a full buffer of this module with some of its environments only."""
    # The rollout goes on in the whole buffer, whose memory the next one uses: only what learns from it is narrowed.
    part, shape = copy.copy(buffer), buffer.rewards.shape

    def picked(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: picked(each) for key, each in value.items()}
        # By environments alone: what a policy remembers has other steps.
        return value[:, rows] if isinstance(value, np.ndarray) and value.shape[1:2] == shape[1:] else value

    vars(part).update({name: picked(value) for name, value in vars(buffer).items()}, n_envs=len(rows))
    return part
