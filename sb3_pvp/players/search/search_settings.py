"""How to search, and how people write it: ``mcts:FIGHTER?simulations=100&selection=gumbel``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sb3_pvp.common.arguments import read_model, split_parameters

SEARCH_OF = "mcts:"  #: Prefix of a fighter that looks ahead; parameters may follow.


class SearchSettings(BaseModel):
    """How to search; raises `ValueError` for numbers out of range."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    simulations: int = Field(default=100, ge=1, le=1_000_000)  #: Positions that are looked at before a move.
    #: As in AlphaZero; or ``"gumbel"``, which halves the candidates again and again (Danihelka et al. 2022), and learns
    #: from few simulations.
    selection: Literal["puct", "gumbel"] = "puct"
    considered: int = Field(default=16, ge=1, le=1_000_000)  #: The candidates that ``"gumbel"`` begins with.
    noisy: bool = False  #: Whether the priors of ``"puct"`` are mixed with noise, as in training.


def read_search(text: str) -> tuple[str, SearchSettings]:
    """Returns the fighter and the settings in ``mcts:FIGHTER?simulations=100``; raises `ValueError`."""
    example = f"{SEARCH_OF}FIGHTER?simulations=100"
    fighter, given = split_parameters(text.removeprefix(SEARCH_OF), example)
    if not fighter or fighter.startswith(SEARCH_OF):
        raise ValueError(f"{text!r} names no fighter that could search: write {example}")
    return fighter, read_model(SearchSettings, given, "search parameter")


def parameters_of(settings: SearchSettings) -> str:
    """Returns the settings as they are written, the simulations first and the others unless they are the defaults."""
    changed: dict[str, Any] = settings.model_dump(exclude_defaults=True)
    return "&".join(f"{name}={value}" for name, value in {"simulations": settings.simulations, **changed}.items())
