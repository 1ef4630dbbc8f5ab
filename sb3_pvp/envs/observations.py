"""What a learner sees in each row of an environment: stacked frames, the privileged part, and masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sb3_pvp.game import World
from sb3_pvp.game.contract import Contract
from sb3_pvp.players.seats import ActionMaskOverride, Observation, ObservationNoise, SeatHistory, Seats, Selection

_LEARNERS_NOISE = 2  # stream of a fight's seed


def observation_space(contract: Contract, num_frames: int) -> spaces.Dict:
    """Returns the space of one row of `SeatObservations.stacked`; ``"privileged"`` only if the contract has some.

    The mask is a `Box` and not a `MultiBinary`, because SB3's ``VecNormalize`` only accepts Boxes.
    """
    parts: dict[str, spaces.Space[Any]] = {"observation": contract.stacked_space(num_frames)}
    if num_privileged := len(contract.partial_indices):
        parts["privileged"] = spaces.Box(-np.inf, np.inf, (num_frames, num_privileged), np.float32)
    return spaces.Dict({**parts, "action_mask": spaces.Box(0, 1, (contract.num_flat_actions,), np.int8)})


class SeatObservations(SeatHistory):
    """The learner's observations and masks in each row of an environment.

    ``frame_ages`` are the ages of the frames in an observation, in ticks, ascending; ``noise`` and ``override`` are
    configs of `ObservationNoise` and `ActionMaskOverride`.
    """

    def __init__(
        self,
        world: World,
        seats: Seats,
        frame_ages: tuple[int, ...],
        noise: Mapping[str, Any] | None = None,
        override: Any = None,
    ) -> None:
        # No history is needed if the observation is just the newest frame as the world has it.
        contract, depth = world.contract, 0 if frame_ages == (0,) and noise is None else max(frame_ages) + 1
        super().__init__(world, seats, depth, _LEARNERS_NOISE, contract.partial_indices)
        if noise is not None:
            self.noises = [(ObservationNoise(noise, contract), np.arange(world.num_fights))]
        self._override = None if override is None else ActionMaskOverride(override, contract)
        self._ages = list(frame_ages)
        self._array = contract.stacked_space(len(self._ages)) if contract.shape else None

    def set_trained_rollouts(self, trained_rollouts: int) -> None:
        """Sets the time of the schedules of noise and override."""
        for part in (self._override, *(noise for noise, _ in self.noises)):
            if part is not None:
                part.set_trained_rollouts(trained_rollouts)

    def stacked(self, rows: Selection = slice(None)) -> Observation:
        """Returns new arrays: ``observation`` float32 ``(N, frames, D)``, ``privileged`` float32 ``(N, frames, P)``
        (what only the opponent sees, if the contract has that) and ``action_mask`` int8 ``(N, A)``. An observation with
        a shape is as in `Contract.stacked_space`."""
        if len(self.own):
            own, hidden = self.own[rows][:, self._ages], self.hidden[rows][:, self._ages]
        else:
            own = self._seats.own(self._world.obs, rows)[:, np.newaxis]
            hidden = self._seats.others(self._world.obs, rows, self._hidden)[:, np.newaxis]
        if self._array is not None:
            own = own.reshape(len(own), *self._array.shape).astype(self._array.dtype, copy=False)
        privileged = {"privileged": hidden} if self._hidden.size else {}
        return {"observation": own, **privileged, "action_mask": self.masks(rows).view(np.int8)}

    def masks(self, rows: Selection | int = slice(None)) -> NDArray[np.bool_]:
        """Returns the learner's flat masks, bool ``(N, A)``, or ``(A,)`` for one row: a new array."""
        masks = self._seats.own(self._world.masks, slice(rows, rows + 1) if isinstance(rows, int) else rows)
        allowed = masks if self._override is None else self._override.applied(masks)
        return allowed[0] if isinstance(rows, int) else allowed
