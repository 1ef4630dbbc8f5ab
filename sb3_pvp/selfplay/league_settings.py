"""What ``league.json`` holds: anchors, what a league's fights are, and what its match maker has learned."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from sb3_pvp.common.arguments import Kind, first_error
from sb3_pvp.selfplay.players import Player

#: Ratings beyond this are surely a mistake; expected scores would leave the range of numbers.
MAX_ANCHOR = 10_000.0
_RATING = Kind[float](
    Annotated[float, Field(ge=-MAX_ANCHOR, le=MAX_ANCHOR)], f"a number from {-MAX_ANCHOR:g} to {MAX_ANCHOR:g}"
)


def check_anchors(anchors: object) -> dict[Player, float]:
    """Anchors by player, from a mapping by player or by name.

    Raises `ValueError` for anything else, and for ratings that are no numbers from -`MAX_ANCHOR` to `MAX_ANCHOR`.
    """
    if not isinstance(anchors, Mapping):
        raise ValueError(f"anchors must be a mapping such as {{'baseline': 1500}}, got {anchors!r}")
    ratings = {name: _RATING.read(f"the anchor of {name}", rating) for name, rating in anchors.items()}
    return {Player.parse(str(name)): rating for name, rating in ratings.items()}


def by_name(anchors: Mapping[Player, float]) -> dict[str, float]:
    """Anchors as files have them."""
    return {str(player): rating for player, rating in sorted(check_anchors(anchors).items())}


class Fights(BaseModel):
    """What is fought: a game as `sb3_pvp.game.find_game` takes it, and its reset parameters."""

    model_config = ConfigDict(extra="forbid")
    #: In files of the first edition, ``contract``.
    game: str = Field(validation_alias=AliasChoices("game", "contract"))
    reset_params: dict[str, Any]


class LeagueSettings(BaseModel):
    """The content of the file; what other versions may have added to it stays there."""

    model_config = ConfigDict(extra="allow")
    kind: Literal["league"]
    version: Literal[1]
    #: Ratings by ``str(player)``.
    anchors: Annotated[dict[str, Any], AfterValidator(by_name)]
    #: The state of the match maker.
    match_maker: dict[str, Any] | None
    #: Files of earlier versions do not tell.
    fights: Fights | Annotated[dict[str, Any], Field(max_length=0)] = {}


def read_settings(path: Path) -> LeagueSettings:
    """The content of the file, that of a new league if there is no file; `ValueError` if it is something else."""
    content = {"kind": "league", "version": 1, "anchors": {}, "match_maker": None}
    if path.exists():
        content = read_json(path)
    try:
        return LeagueSettings.model_validate(content)
    except ValidationError as error:
        what = first_error(error)
        raise ValueError(f"{path} is of no league that this version of sb3_pvp reads: {what}") from error


def read_json(path: Path) -> Any:
    """The content of a JSON file; raises `ValueError`, with the path, if it is none."""
    try:
        return orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from error
