"""The cards: a table of data, one row a card, and the same as whole numbers for compiled rules.

Lengths are in tiles, times in seconds; rules count in thousandths of a tile, and in ticks of a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from csv import DictReader
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from sb3_pvp.common.arguments import read_model
from sb3_pvp.common.errors import unknown_name

TILE, TICKS = 1000, 10  #: Of a tile, and in a second.
DECK_SIZE = 8
NUM_TOWERS = 3  #: A side's first units: the guards on its left and on its right, and the keep.
KINDS = ("troop", "building", "spell", "tower")
TARGETS = ("ground", "any", "buildings")
#: The columns of the table of figures that the rules read.
COST, KIND, COUNT, HEALTH, DAMAGE, PAUSE, RANGE, SPEED, AIMS = range(9)
FLIES, SPLASH, SIGHT, RADIUS, DEPLOY, LIFE, SHARE, STUN, COLOUR = range(9, 18)
#: Kinds and targets in that table.
TROOP, BUILDING, SPELL, TOWER = range(4)
GROUND, ANY, BUILDINGS = range(3)


class LaneCard(BaseModel):
    """A row of the table of cards: what it costs, and what stands or happens where it is played."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = Field(pattern="^[a-z]+$")
    kind: Literal["troop", "building", "spell", "tower"]
    cost: int = Field(ge=0, le=10)
    count: int = Field(ge=1, le=8)
    health: int = Field(ge=0, le=10_000)
    damage: int = Field(ge=0, le=10_000)
    hit_seconds: float = Field(ge=0, le=10)
    range: float = Field(ge=0, le=12)
    speed: float = Field(ge=0, le=3)  #: Tiles a second.
    targets: Literal["ground", "any", "buildings"]
    flies: bool
    splash: float = Field(ge=0, le=6)  #: Tiles around what is hit, or around itself if its range is less than 2.
    sight: float = Field(ge=0, le=12)
    radius: float = Field(ge=0, le=2)
    deploy: float = Field(ge=0, le=5)
    lifetime: float = Field(ge=0, le=120)  #: Of a building; 0: until it is destroyed.
    tower_share: float = Field(gt=0, le=1)  #: Of the damage that towers take.
    stun: float = Field(ge=0, le=10)
    colour: str = Field(pattern="^[0-9a-f]{6}$")
    about: str = Field(min_length=1)

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        is_spell, moves = self.kind == "spell", self.kind == "troop"
        must = {
            "cost": (self.cost > 0) == (self.kind != "tower"),
            "damage": self.damage > 0,
            "health": (self.health > 0) != is_spell,
            "hit_seconds": (self.hit_seconds > 0) != is_spell,
            "radius": (self.radius > 0) != is_spell,
            "sight": is_spell or self.sight >= self.range > 0,
            "speed": (self.speed > 0) == moves,
            "splash": self.splash > 0 or not is_spell,
            "count": self.count == 1 or moves,
            "flies": moves or not self.flies,
            "deploy": self.deploy > 0 or self.kind == "tower",
            "lifetime": self.lifetime == 0 or self.kind == "building",
        }
        for field, fits in must.items():
            if not fits:
                raise ValueError(f"{field} cannot be {getattr(self, field)} for a {self.kind}")
        for field in ("hit_seconds", "deploy", "lifetime", "stun"):
            if abs(getattr(self, field) * TICKS - round(getattr(self, field) * TICKS)) > 1e-9:
                raise ValueError(f"{field} must be a number of ticks of 0.1 seconds, not {getattr(self, field)}")
        return self


class CardTable(NamedTuple):
    """All cards, then what a guard and a keep are; ``figures`` are their numbers, int64 ``(cards + 2, 18)``."""

    cards: tuple[LaneCard, ...]
    towers: tuple[LaneCard, LaneCard]
    figures: NDArray[np.int64]

    @property
    def names(self) -> list[str]:
        """The cards' names, in the order of their numbers."""
        return [card.name for card in self.cards]


def read_cards(path: str | Path) -> CardTable:
    """Reads a table of cards, with tabs between its columns; `ValueError`, one line that names row and figure."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(DictReader(file, delimiter="\t"))
    read: dict[str, LaneCard] = {}
    for number, row in enumerate(rows, 2):
        where = f"{Path(path).name}, line {number} ({row.get('name') or 'no name'}):"
        if missing := [field for field in LaneCard.model_fields if not row.get(field)]:
            raise ValueError(f"{where} {missing[0]} is missing")
        card = read_model(LaneCard, {str(key): value for key, value in row.items()}, where)
        if card.name in read:
            raise ValueError(f"{where} there is another card of this name")
        read[card.name] = card
    towers = tuple(card for card in read.values() if card.kind == "tower")
    if [card.name for card in towers] != ["guard", "keep"]:
        raise ValueError(f"{Path(path).name}: a table has two towers, guard and keep, in this order")
    cards = tuple(card for card in read.values() if card.kind != "tower")
    if len(cards) < DECK_SIZE:
        raise ValueError(f"{Path(path).name}: {len(cards)} cards are fewer than the {DECK_SIZE} of a deck")
    figures = np.array([_figures(card) for card in (*cards, *towers)], np.int64)
    figures.flags.writeable = False
    return CardTable(cards, (towers[0], towers[1]), figures)


def _figures(card: LaneCard) -> list[int]:
    ticks = {name: round(getattr(card, name) * TICKS) for name in ("hit_seconds", "deploy", "lifetime", "stun")}
    tiles = {name: round(getattr(card, name) * TILE) for name in ("range", "splash", "sight", "radius")}
    speed = round(card.speed * TILE / TICKS)
    kind, aims = KINDS.index(card.kind), TARGETS.index(card.targets)
    body = card.cost, kind, card.count, card.health, card.damage, ticks["hit_seconds"], tiles["range"], speed, aims
    rest = int(card.flies), tiles["splash"], tiles["sight"], tiles["radius"], ticks["deploy"], ticks["lifetime"]
    return [*body, *rest, round(card.tower_share * 100), ticks["stun"], int(card.colour, 16)]


def check_deck(table: CardTable, deck: Sequence[str]) -> NDArray[np.int64]:
    """Returns the numbers of a deck's cards ``(8,)``; `ValueError` for an unknown card, one twice or a wrong size."""
    names = table.names
    for name in deck:
        if name not in names:
            raise unknown_name("card", name, names)
    if len(deck) != DECK_SIZE:
        raise ValueError(f"a deck has {DECK_SIZE} cards, not {len(deck)}: {', '.join(deck)}")
    if len({*deck}) < DECK_SIZE:
        twice = next(name for name in deck if list(deck).count(name) > 1)
        raise ValueError(f"a deck has {DECK_SIZE} different cards, and this one has {twice} twice")
    return np.array([names.index(name) for name in deck])


@cache
def own_cards() -> CardTable:
    """Returns the cards of LaneClash."""
    with as_file(files("sb3_pvp.games.lanes") / "data" / "cards.tsv") as path:
        return read_cards(path)
