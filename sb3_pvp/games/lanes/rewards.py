"""The rewards of the lanes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.arrays import OutcomeRewards
from sb3_pvp.game.world import Transition

#: What a seat's rewards are made of, besides the outcome.
REPORT = [("towers", "i1"), ("damage", "f4")]


class LanesRewards(OutcomeRewards):
    """Rewards the outcome and, if they have weights, towers and the health that they lose."""

    terms: ClassVar[Mapping[str, str]] = {
        **OutcomeRewards.terms,
        "towers": "Towers that the other side has lost, less the own ones.",
        "damage": "Health that the other side's towers have lost, as shares of a tower's, less that of the own ones.",
    }
    tags: ClassVar[Mapping[str, str]] = {f"{name}_reward": name for name in terms}

    def __init__(self) -> None:
        self._defaults = {"win": 1.0, "lose": -1.0, "tie": 0.0, "towers": 0.0, "damage": 0.0}

    def compute(self, transition: Transition, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the terms, float32 ``(5, N)``."""
        more = np.stack([transition.report["towers"].astype(np.float32), transition.report["damage"]])
        return np.concatenate([super().compute(transition, weights[:3]), weights[3:] * more])
