"""The reset parameters of soccer, by their names in Unity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from sb3_pvp.common.arguments import read_model


class SoccerParams(BaseModel):
    """How matches are played."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    ball_touch: float = Field(0.0, allow_inf_nan=False, description="Reward of a touch of the ball, in fifths.")

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> SoccerParams:
        """Checks parameters; `ValueError`, in one line, if they are wrong."""
        return read_model(cls, given, "reset parameter")
