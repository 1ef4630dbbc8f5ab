"""Actions that training forbids, for good or for a while (rewards.md §7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.contract import Contract
from sb3_pvp.schedules import parse_schedule

_INDEX_LISTS = ("true_indices", "false_indices")


class ActionMaskOverride:
    """Takes sub-actions out of action masks; it can only forbid.

    Args:
        config: a schedule of arrays with one boolean per sub-action, such as an ``npboolarray`` or a ``jump`` of them.
            Ids of sub-actions may stand for their positions, ``size`` may be left out, and ``{"forbid": [ids]}`` is
            short for an ``npboolarray`` with these ``false-indices``.
        contract: what the sub-actions are called.

    Attributes:
        allowed: bool ``(A,)``, what the schedule gives at its present time.

    Raises:
        ValueError: for anything that is no such schedule, and for an unknown sub-action.
    """

    def __init__(self, config: Any, contract: Contract) -> None:
        self._num_actions = contract.num_flat_actions
        self._first_entries = contract.head_offsets[:-1]
        self._schedule = parse_schedule(_spelled_out(config, contract))
        for threshold, _ in getattr(self._schedule, "jumps", ()):
            self._evaluated(threshold)  # what will be wrong later is refused now
        self.set_trained_rollouts(0)

    def set_trained_rollouts(self, trained_rollouts: int) -> None:
        """Moves the time of the schedule."""
        self.allowed = self._evaluated(trained_rollouts)

    def applied(self, masks: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Masks ``(..., A)`` without what is forbidden, a new array; a head without any choice keeps its entry 0."""
        left = masks & self.allowed
        left[..., self._first_entries] |= ~np.logical_or.reduceat(left, self._first_entries, axis=-1)
        return left

    def _evaluated(self, time: int) -> NDArray[np.bool_]:
        value = np.asarray(self._schedule(time))
        if value.shape != (self._num_actions,) or value.dtype != bool:
            raise ValueError(
                f"action_mask_override must give {self._num_actions} booleans, one per sub-action, "
                f"got {value.dtype} {value.shape} at t = {time}"
            )
        return value


def _spelled_out(config: Any, contract: Contract) -> Any:
    """The configuration with positions for ids, in schedules inside schedules too."""
    if not isinstance(config, Mapping):
        return config
    if set(config) == {"forbid"}:
        config = {"type": "npboolarray", "false_indices": config["forbid"]}
    keys = {str(key).replace("-", "_"): value for key, value in config.items()}
    for key in _INDEX_LISTS:
        if isinstance(keys.get(key), (list, tuple)):
            keys[key] = [contract.flat_index(entry) if isinstance(entry, str) else entry for entry in keys[key]]
    if keys.get("type") == "npboolarray":
        keys.setdefault("size", contract.num_flat_actions)
    return {key: _spelled_out(value, contract) for key, value in keys.items()}
