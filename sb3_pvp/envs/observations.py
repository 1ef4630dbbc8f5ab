"""What a seat sees: frames of its own observation, the hidden part of the opponent's, and the action mask."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sb3_pvp.contract import Contract
from sb3_pvp.world import World

Observation = dict[str, NDArray[Any]]


def observation_space(contract: Contract, num_frames: int) -> spaces.Dict:
    """The space of `SeatObservations.stacked` for one fight.

    The mask is a `Box`, not a `MultiBinary`, because SB3's ``VecNormalize`` accepts nothing else.
    """
    hidden = len(contract.partial_indices)
    return spaces.Dict(
        {
            "observation": spaces.Box(-np.inf, np.inf, (num_frames, contract.num_observations), np.float32),
            "privileged": spaces.Box(-np.inf, np.inf, (num_frames, hidden), np.float32),
            "action_mask": spaces.Box(0, 1, (contract.num_flat_actions,), np.int8),
        }
    )


class SeatObservations:
    """The observations of one seat in every fight of a world, with their history.

    Args:
        world: where the fights take place.
        seat: 0 or 1.
        frame_ages: which frames are shown, in ticks before the newest one, ascending. Frames from before the start of
            the episode are zero (contract.md §5).
    """

    def __init__(self, world: World, seat: int, frame_ages: tuple[int, ...]) -> None:
        self._world = world
        self._seat = seat
        self._ages = list(frame_ages)
        self._partial = world.contract.partial_indices
        # What was seen, newest first: (depth, fights, both seats, D). The newest frame alone is in the world already.
        self._depth = max(frame_ages) + 1
        self._history = np.zeros((self._depth, *world.obs.shape) if self._depth > 1 else (0,), np.float32)

    def begin(self, fights: NDArray[np.int64]) -> None:
        """Forgets the history of these fights and takes up their first observation."""
        if self._depth > 1:
            self._history[:, fights] = 0.0
            self._history[0, fights] = self._world.obs[fights]

    def advance(self) -> None:
        """Takes up the observations after a tick of all fights."""
        if self._depth > 1:
            self._history[1:] = self._history[:-1].copy()
            self._history[0] = self._world.obs

    def stacked(self, fights: NDArray[np.int64] | slice = slice(None)) -> Observation:
        """New arrays: ``observation`` float32 ``(N, frames, D)``, ``privileged`` float32 ``(N, frames, P)`` (what the
        opponent sees and this seat does not) and ``action_mask`` int8 ``(N, A)``."""
        frames = self._frames(fights)
        return {
            "observation": frames[:, :, self._seat].copy(),
            "privileged": frames[:, :, 1 - self._seat].take(self._partial, axis=-1),
            "action_mask": self._world.masks[fights, self._seat].astype(np.int8),
        }

    def _frames(self, fights: NDArray[np.int64] | slice) -> NDArray[np.float32]:
        """What both seats saw, ``(N, frames, 2, D)``."""
        if self._depth == 1:
            return self._world.obs[fights, np.newaxis]
        return self._history[self._ages].swapaxes(0, 1)[fights]
