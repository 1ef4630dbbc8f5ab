"""The reset parameters of the lanes."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

#: The deck that both sides have unless they are told otherwise.
STANDARD = ("footman", "archers", "ogre", "duellist", "gunner", "gnats", "ballista", "meteor")


class LanesParams(BaseModel):
    """How battles are played."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    deck: list[str] | Literal["standard", "random"] = Field(
        "standard", description="The eight cards of a side by name, 'standard', or 'random': drawn anew for each side."
    )
    ticks: int = Field(5, ge=1, le=50, description="Ticks of 0.1 seconds from one decision to the next.")
    bot: Literal["random", "spender", "guardian", "tactician"] = Field(
        "random",
        description="Who plays for the world itself, as 'baseline': random moves, or a script, also of pixels.",
    )
