"""What ``league.json`` holds: anchors, what a league's fights are, and what its match maker has learned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from sb3_pvp.common.arguments import Kind
from sb3_pvp.common.snapshots import check_identity
from sb3_pvp.selfplay.players import Player

#: Ratings beyond this are surely a mistake; expected scores would leave the range of numbers.
MAX_ANCHOR = 10_000.0
_RATING = Kind[float](
    Annotated[float, Field(ge=-MAX_ANCHOR, le=MAX_ANCHOR)], f"a number from {-MAX_ANCHOR:g} to {MAX_ANCHOR:g}"
)

_IDENTITY = {"kind": "league", "version": 1}


def read_settings(path: Path) -> dict[str, Any]:
    """The content of the file, checked; that of a new league if there is no file.

    Keys: ``anchors``, ratings by ``str(player)``; ``match_maker``, its state or ``None``; and ``fights``, ``{}`` or
    what `check_fights` returns. Raises `ValueError` for a file that is something else, or damaged.
    """
    if not path.exists():
        return {**_IDENTITY, "anchors": {}, "match_maker": None, "fights": {}}
    settings: dict[str, Any] = read_json(path)
    try:
        check_identity(settings, _IDENTITY)
        settings.setdefault("fights", {})  # files of earlier versions do not tell
        check_anchors(settings.get("anchors"))
        check_fights(settings["fights"])
        if not isinstance(settings.get("match_maker", ""), (Mapping, type(None))):
            raise ValueError("match_maker must be what a match maker has learned, or null")
    except ValueError as error:
        raise ValueError(f"{path} is of no league that this version of sb3_pvp reads: {error}") from error
    return settings


def check_anchors(anchors: object) -> dict[Player, float]:
    """Anchors by player, from a mapping by player or by name.

    Raises `ValueError` for anything else, and for ratings that are no numbers from -`MAX_ANCHOR` to `MAX_ANCHOR`.
    """
    if not isinstance(anchors, Mapping):
        raise ValueError(f"anchors must be a mapping such as {{'baseline': 1500}}, got {anchors!r}")
    ratings = {name: _RATING.read(f"the anchor of {name}", rating) for name, rating in anchors.items()}
    return {Player.parse(str(name)): rating for name, rating in ratings.items()}


def check_fights(fights: object) -> dict[str, Any]:
    """``{"contract": name, "reset_params": {...}}``, or ``{}``; raises `ValueError` for anything else."""
    if fights == {}:
        return {}
    if isinstance(fights, Mapping) and fights.keys() == {"contract", "reset_params"}:
        contract, params = fights["contract"], fights["reset_params"]
        if isinstance(contract, str) and isinstance(params, Mapping):
            return {"contract": contract, "reset_params": dict(params)}
    raise ValueError(f"fights must have a contract's name and reset_params, got {fights!r}")


def read_json(path: Path) -> Any:
    """The content of a JSON file; raises `ValueError`, with the path, if it is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # also for bytes that are no text
        raise ValueError(f"{path} is not valid JSON: {error}") from error
