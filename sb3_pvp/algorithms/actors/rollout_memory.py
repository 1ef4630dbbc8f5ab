"""What the rows of a rollout remember: a policy with memory learns from the states at the starts of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray

from sb3_pvp.policies.memory import Remembered

#: `RolloutMemory.states` in a buffer and among the arrays of actors; and what was remembered in the info of an episode
#: that is cut off, for the value of what would follow.
MEMORY = "memory"


def shape_of_states(policy: Any, n_steps: int, rows: int) -> tuple[int, int, int] | None:
    """Returns the shape of `RolloutMemory.states`; ``None`` for a policy without memory.

    A rollout is cut into as few sequences as its length allows, all equally long. Raises `ValueError` if these would be
    less than half as long as they may be.
    """
    if (memory := getattr(policy, "memory", None)) is None:
        return None
    length = min(memory.settings.length, n_steps)
    count = next(each for each in range(-(-n_steps // length), n_steps + 1) if n_steps % each == 0)
    if 2 * (n_steps // count) < length:
        raise ValueError(
            f"n_steps={n_steps} has no equal parts of about {length} steps, memory's length: take a multiple"
        )
    return count + 1, rows, memory.width


class RolloutMemory:
    """Goes on with the states of all rows, step by step.

    Args:
        policy: with memory.
        n_steps: of the rollout.
        rows: number of environments.
        last: the states after the last rollout, ``(rows, width)``; ``None`` or of other rows: none are known.
        out: where `states` are written, by default a new array.
    """

    def __init__(
        self, policy: Any, n_steps: int, rows: int, last: th.Tensor | None, out: NDArray[np.float32] | None = None
    ) -> None:
        shape = shape_of_states(policy, n_steps, rows)
        assert shape is not None
        #: Before each sequence, and after the last one: float32 ``(sequences + 1, rows, width)``.
        self.states = np.empty(shape, np.float32) if out is None else out
        self._length, self._tells = n_steps // (shape[0] - 1), policy.memory.settings.critic
        initial = policy.memory.initial(rows)
        state = initial if last is None or last.shape != initial.shape else last.to(initial.device)
        self._now = Remembered(state, th.zeros(rows, dtype=th.bool))

    @classmethod
    def of_policy(cls, policy: Any, *arguments: Any) -> tuple[RolloutMemory | None, NDArray[np.float32] | None]:
        """Returns one and its `states`; nothing for a policy without memory."""
        if getattr(policy, "memory", None) is None:
            return None, None
        made = cls(policy, *arguments)
        return made, made.states

    @property
    def state(self) -> th.Tensor:
        """The states after the last step, ``(rows, width)``."""
        return self._now.state

    def before(self, step: int, starts: Any) -> Remembered:
        """Returns what the policy acts with in a step, where episodes start, bool ``(rows,)``."""
        if step % self._length == 0:
            self.states[step // self._length] = self.state.cpu().numpy()
        self._now.starts = th.as_tensor(np.asarray(starts, np.bool_), device=self.state.device)
        return self._now

    def after(self, step: int, dones: NDArray[np.bool_], infos: Sequence[dict[str, Any]]) -> None:
        """Keeps what `of_truncated` needs of the episodes that end with a step, and the last states."""
        for row in np.flatnonzero(dones).tolist() if self._tells else ():
            if infos[row].get("TimeLimit.truncated", False):
                infos[row][MEMORY] = self.state[row].cpu().numpy().copy()
        if (step + 1) % self._length == 0:
            self.states[(step + 1) // self._length] = self.state.cpu().numpy()


def of_truncated(policy: Any, cut: Sequence[int], infos: Sequence[dict[str, Any]]) -> tuple[Remembered, ...]:
    """Returns what such rows have remembered, as the last argument of ``predict_values``; nothing without need."""
    memory = getattr(policy, "memory", None)
    if memory is None or not memory.settings.critic:
        return ()
    states = np.stack([infos[row].pop(MEMORY) for row in cut])
    return (Remembered.of(states, np.zeros(len(cut), np.bool_), policy.device),)


def at_end(policy: Any, buffer: Any, dones: NDArray[np.bool_]) -> tuple[Remembered, ...]:
    """Returns what rows remember after a rollout, as `of_truncated` does; nothing without memory."""
    states = getattr(buffer, MEMORY, None)
    return () if states is None else (Remembered.of(states[-1], dones, policy.device),)
