"""The rewards of soccer, all for the team as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from sb3_pvp.game.arrays import OutcomeRewards
from sb3_pvp.game.world import Transition


class SoccerParams(BaseModel):
    """How matches are played."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    ball_touch: float = Field(0.0, allow_inf_nan=False, description="Reward of a touch of the ball, in fifths.")


class SoccerRewards(OutcomeRewards):
    """What Unity's environment rewards, each term times a weight: 1, and 0 for ``advance``, unless it is changed."""

    terms: ClassVar[Mapping[str, str]] = {
        "goal": "A goal for the team: 1 less the share of the time that has passed.",
        "goal_against": "A goal for the opponents: -1.",
        "touch": "0.2 times the parameter ball_touch for each time that an agent begins to touch the ball.",
        "existence": "-1 for strikers, +1 for a goalie, over the whole time.",
        "advance": "How far the ball has come towards the other goal, in half pitches. Not Unity's: its weight is 0.",
    }
    tags: ClassVar[Mapping[str, str]] = {f"{name}_weight": name for name in terms}

    def __init__(self) -> None:
        self._defaults = dict.fromkeys(self.terms, 1.0) | {"advance": 0.0}

    def compute(self, transition: Transition, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the terms, float32 ``(terms, N)``."""
        report, goal = transition.report, transition.report["goal"]
        scored = np.where(goal > 0, np.float32(1.0) - report["elapsed"], np.float32(0.0))
        others = (report[name] for name in ("touches", "existence", "advance"))
        terms: NDArray[np.float32] = np.stack([scored, -(goal < 0).astype(np.float32), *others])
        return weights * terms
