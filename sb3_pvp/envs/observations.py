"""What learners see: frames of their own, the hidden part of the opponent's, and the masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sb3_pvp.contract import Contract
from sb3_pvp.game import World
from sb3_pvp.opponents.seat_views import ActionMaskOverride, ObservationNoise, SeatHistory, Seats, Selection

Observation = dict[str, NDArray[Any]]
_NOISE = 2  # stream of a fight's seed


def observation_space(contract: Contract, num_frames: int) -> spaces.Dict:
    """The space of `SeatObservations.stacked` for one fight; without a privileged part where nothing is hidden.

    The mask is a `Box`, not a `MultiBinary`, because SB3's ``VecNormalize`` accepts nothing else.
    """
    hidden = len(contract.partial_indices)
    parts: dict[str, spaces.Space[Any]] = {
        "observation": spaces.Box(-np.inf, np.inf, (num_frames, contract.num_observations), np.float32),
        "privileged": spaces.Box(-np.inf, np.inf, (num_frames, hidden), np.float32),
        "action_mask": spaces.Box(0, 1, (contract.num_flat_actions,), np.int8),
    }
    if not hidden:
        del parts["privileged"]
    return spaces.Dict(parts)


class SeatObservations(SeatHistory):
    """The observations of one seat for each row of an environment; its history is empty if the newest is enough.

    Frames of ``frame_ages`` (ascending, in ticks before the newest one) are shown. ``hidden``, float32 ``(N, depth,
    P)``, is what only the other seat saw at the same time as `own`.
    """

    def __init__(
        self,
        world: World,
        seats: Seats,
        frame_ages: tuple[int, ...],
        noise: ObservationNoise | None = None,
        override: ActionMaskOverride | None = None,
    ) -> None:
        self._remembers = frame_ages != (0,) or noise is not None
        super().__init__(world, seats, max(frame_ages) + 1 if self._remembers else 0, _NOISE)
        self._rows = np.arange(world.num_fights)
        if noise is not None:
            self.noises = [(noise, self._rows)]
        self._ages, self._override = list(frame_ages), override
        self._partial = world.contract.partial_indices
        self.hidden = np.zeros((*self.own.shape[:2], len(self._partial)), np.float32)

    def begin(self, rows: NDArray[np.int64], seeds: Sequence[int | None]) -> None:
        """See `SeatHistory.begin`."""
        if self._remembers:
            self.hidden[rows] = 0.0
            super().begin(rows, seeds)

    def advance(self, rows: NDArray[np.int64] | None = None) -> None:
        """See `SeatHistory.advance`; all rows are meant."""
        if self._remembers:
            self.hidden[:, 1:] = self.hidden[:, :-1]
            super().advance(self._rows)

    def stacked(self, rows: Selection = slice(None)) -> Observation:
        """New arrays: ``observation`` float32 ``(N, frames, D)``, ``privileged`` float32 ``(N, frames, P)`` (what the
        opponent sees and this seat does not, if there is such) and ``action_mask`` int8 ``(N, A)``."""
        if self._remembers:
            own, hidden = self.own[rows][:, self._ages], self.hidden[rows][:, self._ages]
        else:
            own = self._seats.own(self._world.obs, rows)[:, np.newaxis]
            hidden = self._fresh_hidden(rows)[:, np.newaxis]
        privileged = {"privileged": hidden} if self._partial.size else {}
        return {"observation": own, **privileged, "action_mask": self.masks(rows).view(np.int8)}

    def masks(self, rows: Selection | int = slice(None)) -> NDArray[np.bool_]:
        """The seat's flat masks, bool ``(N, A)``, or ``(A,)`` of one fight: a new array."""
        masks = self._seats.own(self._world.masks, rows)
        return masks.copy() if self._override is None else self._override.applied(masks)

    def _take_up(self, rows: NDArray[np.int64]) -> None:
        super()._take_up(rows)
        self.hidden[rows, 0] = self._fresh_hidden(rows)

    def _fresh_hidden(self, rows: Selection) -> NDArray[np.float32]:
        facing = self._world.obs[self._seats.fight[rows], 1 - self._seats.seat[rows]]
        return facing.take(self._partial, axis=-1)
