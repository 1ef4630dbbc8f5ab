"""Which seats learners have, and what they see: frames of their own, the hidden part of the opponent's, the masks."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sb3_pvp.contract import Contract
from sb3_pvp.game import World
from sb3_pvp.opponents.sight import ActionMaskOverride, ObservationNoise

Observation = dict[str, NDArray[Any]]
Selection = NDArray[np.int64] | slice


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


class Seats:
    """The seat of each row of an environment: a seat of a fight of its own, or one of a pair's common fight.

    Rows ``2j`` and ``2j + 1`` are a pair. When they play each other, they have seats 0 and 1 of fight ``2j``, and fight
    ``2j + 1`` is idle. Any other row ``r`` has seat 0 of fight ``r``.

    Args:
        num_rows: N, also the number of fights.

    Attributes:
        fight: int64 ``(N,)``, the fight of each row.
        seat: int64 ``(N,)``, its seat there.
        paired: int64, the rows that play their partner.
        partner: int64, the partners of these.
        playing: int64, the fights that are played; ``None``: all of them.
    """

    def __init__(self, num_rows: int) -> None:
        self.fight, self.seat = np.arange(num_rows), np.zeros(num_rows, np.int64)
        self.pair(np.zeros(num_rows, bool))

    def pair(self, paired: NDArray[np.bool_]) -> None:
        """Says which rows play their partner, bool ``(N,)``, equal for the rows of a pair."""
        rows = np.arange(len(paired))
        self.fight[:] = np.where(paired, rows & ~1, rows)
        self.seat[:] = np.where(paired, rows & 1, 0)
        self.paired = np.flatnonzero(paired)
        self.partner = self.paired ^ 1
        self.playing = np.unique(self.fight) if self.paired.size else None

    def own(self, array: NDArray[Any], rows: Selection | int = slice(None)) -> NDArray[Any]:
        """What an array ``(N, 2, ...)`` holds of the rows' seats."""
        own: NDArray[Any] = array[self.fight[rows], self.seat[rows]]
        return own


class SeatObservations:
    """The observations of one seat for each row of an environment, with their history.

    Args:
        world: where the fights take place.
        seats: which seats; after `Seats.pair` the rows concerned begin anew.
        frame_ages: which frames are shown, in ticks before the newest one, ascending. Frames from before the start of
            the episode are zero (contract.md §5).
        noise: what is added to the seat's own observation of a tick, before it becomes a frame.
        override: what the masks are reduced by.

    Attributes:
        own: float32 ``(N, depth, D)``, what the seat saw of late, newest first; empty if the world's newest is enough.
        hidden: float32 ``(N, depth, P)``, what only the other seat saw at the same time.
    """

    def __init__(
        self,
        world: World,
        seats: Seats,
        frame_ages: tuple[int, ...],
        noise: ObservationNoise | None = None,
        override: ActionMaskOverride | None = None,
    ) -> None:
        self._world = world
        self._seats = seats
        self._ages = list(frame_ages)
        self._noise = noise
        self._override = override
        self._partial = world.contract.partial_indices
        depth = max(frame_ages) + 1
        self._remembers = depth > 1 or noise is not None
        frames = (world.num_fights, depth) if self._remembers else (0, depth)
        self.own = np.zeros((*frames, world.contract.num_observations), np.float32)
        self.hidden = np.zeros((*frames, len(self._partial)), np.float32)

    def begin(self, rows: NDArray[np.int64]) -> None:
        """Forgets the history of these rows and takes up their first observation."""
        if self._remembers:
            self.own[rows] = 0.0
            self.hidden[rows] = 0.0
            self._take_up(rows)

    def advance(self) -> None:
        """Takes up the observations after a tick of all rows."""
        if self._remembers:
            for frames in (self.own, self.hidden):
                frames[:, 1:] = frames[:, :-1]
            self._take_up(slice(None))

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

    def _take_up(self, rows: Selection) -> None:
        newest = self._seats.own(self._world.obs, rows)
        self.own[rows, 0] = newest if self._noise is None else self._noise.add(newest, rows)
        self.hidden[rows, 0] = self._fresh_hidden(rows)

    def _fresh_hidden(self, rows: Selection) -> NDArray[np.float32]:
        facing = self._world.obs[self._seats.fight[rows], 1 - self._seats.seat[rows]]
        return facing.take(self._partial, axis=-1)
