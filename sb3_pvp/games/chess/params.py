"""The reset parameters of chess."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"


class ChessParams(BaseModel):
    """How games of chess begin and end."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    fen: str = Field(START, description="The position at the start, as FEN.")
    white: Literal["random", "first", "second"] = Field("random", description="The seat that has White.")
    claims: bool = Field(
        True,
        description="Whether a draw that a player may claim is one: 50 moves, threefold repetition. If not, games end "
        "in a draw only where nobody needs to claim it: 75 moves, fivefold repetition, and so on.",
    )
