"""The rewards of chess."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.arrays import OutcomeRewards
from sb3_pvp.game.world import Transition


class ChessRewards(OutcomeRewards):
    """Rewards the outcome and, if it has a weight, what a move wins: 1 for a pawn, 3, 3, 5 and 9 for the pieces."""

    terms: ClassVar[Mapping[str, str]] = {
        **OutcomeRewards.terms,
        "material": "Worth of the pieces that the move has won for the player, in pawns; less than 0 if it lost them.",
    }
    tags: ClassVar[Mapping[str, str]] = {f"{name}_reward": name for name in terms}

    def __init__(self) -> None:
        self._defaults = {"win": 1.0, "lose": -1.0, "tie": 0.0, "material": 0.0}

    def compute(self, transition: Transition, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the terms, float32 ``(4, N)``."""
        ends = super().compute(transition, weights[:3])
        return np.concatenate([ends, weights[3:] * transition.report["material"]])
