"""What acts in many fights at once; needs no torch, as environments without models do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Frames = NDArray[np.float32]
Flags = NDArray[np.bool_]
#: Actions ``(N, heads)``, ints, or floats if a head is a number, and the next state or ``None``.
Decision = tuple[NDArray[Any], NDArray[Any] | None]


@runtime_checkable
class Opponent(Protocol):
    """Acts in N fights at once, with the signature of SB3's ``predict``.

    One with a method ``watch(world, fights, seat)`` is told before each call of which fights it is asked about.
    """

    def initial_state(self, seeds: Sequence[int]) -> NDArray[Any]:
        """Returns the state before the first tick, one row ``(N, ...)`` per seed of a fight."""

    def predict(
        self, observation: Frames, state: NDArray[Any], episode_start: Flags, deterministic: bool, action_masks: Flags
    ) -> Decision:
        """Returns actions ``(N, heads)``, and the next state.

        Args:
            observation: observations of the opponent's seat, float32 ``(N, D)``; if the opponent has an attribute
                ``frame_ages`` (ages in ticks, ascending), those frames, ``(N, frames, D)``. What acts for a model of an
                algorithm in the registry gets ``(N, *shape)``, in the shape that its model sees.
            state: the result of `initial_state` or of the last call; rows must be independent of each other.
            episode_start: bool ``(N,)``, true in the first tick of a fight.
            deterministic: act without chance.
            action_masks: flat masks, bool ``(N, A)``.
        """


def frames_for(opponent: Opponent, frames: Frames) -> Frames:
    """Returns frames ``(N, frames, …)`` as an opponent takes them: models those of their ages, scripts the newest."""
    return frames if hasattr(opponent, "frame_ages") else frames[:, 0]
