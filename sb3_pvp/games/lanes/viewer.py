"""The viewer of the lanes: battles as text, pictures and replay pages, and what a human may do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.arguments import from_plain
from sb3_pvp.game import Control, ControlGroup, Outcome
from sb3_pvp.games.lanes.cards import DECK_SIZE, TICKS, TILE, CardTable
from sb3_pvp.games.lanes.layout import COLUMNS, LARGEST, ROWS, columns_head, rows_head

_TEAMS, _PLAIN = ("\x1b[94m", "\x1b[91m"), "\x1b[0m"


@dataclass(frozen=True)
class UnitScene:
    """A unit, or a spell on its way: tiles from the middle of the arena, where the first seat is below, y < 0."""

    seat: int
    card: str
    x: float
    y: float
    health: int  #: 0 for a spell.
    still: int  #: Ticks until it does anything; -1 for a keep that sleeps.


@dataclass(frozen=True)
class LanesScene:
    """A moment of a battle; the outcome is that of the first seat. Pairs are by seat, ``None`` for what is hidden."""

    tick: int
    seconds: float
    names: tuple[str, ...]
    outcome: str
    units: tuple[UnitScene, ...]
    hands: tuple[tuple[str, ...] | None, ...]  #: Four cards, and the one that comes next.
    elixir: tuple[float | None, ...]
    played: tuple[str, ...]  #: The card that a side has played in this tick; empty for none.
    seat: int = -1  #: That of the player for whom the arena is turned; -1: the first seat is below.


class LanesViewer:
    """The `sb3_pvp.game.Viewer` of the lanes."""

    real_time = True

    def __init__(self, table: CardTable) -> None:
        self._table = table
        self._names = [*table.names, "guard", "keep"]

    def scene(self, world: Any, fight: int, names: Sequence[str], actions: Any = None, masks: Any = None) -> LanesScene:
        """See `sb3_pvp.game.Viewer.scene`; choices are not shown, but the cards that were played."""
        from sb3_pvp.games.lanes.rules import DROPS  # here, because it imports Numba

        units = []
        for seat in range(2):
            for card, x, y, left, _, _, still, _ in world.units[fight, seat].tolist():
                if left > 0:
                    health = 0 if self._is_spell(card) else left
                    units.append(UnitScene(seat, self._names[card], x / TILE, y / TILE, health, still))
        decks = world.decks[fight, :, :5].tolist()
        hands = tuple(tuple(self._names[card] for card in deck) for deck in decks)
        elixir = tuple(round(drops / DROPS, 2) for drops in world.elixir[fight].tolist())
        played = tuple(self._names[card - 1] if card else "" for card in world.last[fight].tolist())
        outcome = Outcome(int(world.outcome[fight, 0])).name.lower()
        moment = int(world.ticks[fight]), int(world.clocks[fight]) / TICKS, tuple(names), outcome
        return LanesScene(*moment, tuple(units), hands, elixir, played)

    def seen(
        self, world: Any, fight: int, names: Sequence[str], seat: int, actions: Any = None, masks: Any = None
    ) -> LanesScene:
        """Returns the scene as the player of this seat may see it: without the other hand and elixir."""
        full = self.scene(world, fight, names)
        hands = [each if own == seat else None for own, each in enumerate(full.hands)]
        elixir = [each if own == seat else None for own, each in enumerate(full.elixir)]
        return replace(full, hands=tuple(hands), elixir=tuple(elixir), seat=seat)

    def text(self, scene: LanesScene, color: bool = True) -> str:
        """Returns the arena, a letter for each unit: capitals for the first seat; then what is known of both sides."""
        rows = [
            ["~" if row in (15, 16) and column not in (3, 14) else "." for column in range(COLUMNS)]
            for row in range(ROWS)
        ]
        for unit in scene.units:
            column, row = min(int(unit.x + COLUMNS / 2), COLUMNS - 1), min(int(unit.y + ROWS / 2), ROWS - 1)
            letter = unit.card[0].lower() if unit.seat else unit.card[0].upper()
            rows[row][column] = f"{_TEAMS[unit.seat]}{letter}{_PLAIN}" if color else letter
        teams = " against ".join(scene.names)
        sides = [self._side(scene, seat) for seat in (1, 0)]
        return "\n".join(
            [f"{scene.seconds:.1f} s, {teams}: {scene.outcome}", sides[0], *map("".join, rows[::-1]), sides[1]]
        )

    def picture(self, scene: LanesScene) -> NDArray[np.uint8]:
        """Returns what the player of the seat sees, else the first one, uint8 ``(448, 448, 3)``."""
        from sb3_pvp.games.lanes import rules  # here, because it imports Numba
        from sb3_pvp.games.lanes.pixels import draw

        pictures, seat = np.zeros((1, 2, 3, LARGEST, LARGEST), np.float32), max(scene.seat, 0)
        units, tops = np.zeros((1, 2, rules.MOST_UNITS, 8), np.int32), np.zeros((1, 2), np.int64)
        for unit in scene.units:
            row = units[0, unit.seat, tops[0, unit.seat]]
            row[rules.CARD], row[rules.STILL] = self._names.index(unit.card), unit.still
            row[rules.X], row[rules.Y], row[rules.LEFT] = (
                round(unit.x * TILE),
                round(unit.y * TILE),
                max(unit.health, 1),
            )
            tops[0, unit.seat] += 1
        decks, elixir = np.zeros((1, 2, DECK_SIZE), np.int64), np.zeros((1, 2), np.int64)
        for each, (hand, left) in enumerate(zip(scene.hands, scene.elixir, strict=True)):
            decks[0, each, :5] = [self._names.index(card) for card in hand or self._names[:5]]
            elixir[0, each] = round((left or 0) * rules.DROPS)
        clocks = np.array([round(scene.seconds * TICKS)])
        draw(np.array([0]), self._table.figures, (units, tops, elixir, decks, elixir[:, :, None], clocks), pictures)
        return np.ascontiguousarray(pictures[0, seat].transpose(1, 2, 0)).astype(np.uint8)

    def read_scene(self, plain: Any) -> LanesScene:
        """Returns the scene with these plain values; `ValueError`, with the location, if they are invalid."""
        return from_plain(LanesScene, plain)

    def events(self, scenes: Sequence[LanesScene]) -> list[dict[str, Any]]:
        """Returns which cards were played, and which towers have fallen."""
        found: list[dict[str, Any]] = []
        for tick, (before, after) in enumerate(pairwise(scenes), 1):
            for seat, card in enumerate(after.played):
                if card:
                    found.append({"tick": tick, "kind": "card", "seat": seat, "text": f"plays {card}"})
            gone = {*_towers(before)} - {*_towers(after)}
            for seat, name, _ in sorted(gone):
                found.append({"tick": tick, "kind": "fallen", "seat": 1 - seat, "text": f"destroys a {name}"})
        return found

    def page(self) -> Mapping[str, str]:
        """Returns ``script`` and ``style`` for a page, which draws the scenes of a recording."""
        data = files("sb3_pvp.games.lanes") / "data"
        cards = (*self._table.cards, *self._table.towers)
        facts = {
            each.name: each.model_dump(
                include={"kind", "cost", "count", "health", "radius", "splash", "flies", "colour", "about"}
            )
            for each in cards
        }
        script = f"const CARDS = {json.dumps(facts)};\n" + (data / "lanes.js").read_text("utf-8")
        return {"script": script, "style": (data / "lanes.css").read_text("utf-8")}

    def controls(self) -> tuple[ControlGroup, ...]:
        """Returns cards, columns and rows, chosen on the picture of the page by dragging a card to a tile."""
        places = [*columns_head().actions, *rows_head(self._table).actions]
        controls = [Control(name, name) for name in self._table.names]
        controls += [Control(each.id, each.id.replace("_", " ")) for each in places]
        return (ControlGroup("Arena", tuple(controls), "picture"),)

    def why_not(self, scene: LanesScene, seat: int) -> dict[str, str]:
        """Returns why cards cannot be played."""
        hand, elixir, reasons = (scene.hands[seat] or ())[:4], scene.elixir[seat] or 0.0, {}
        for card in self._table.cards:
            if card.name not in hand:
                reasons[card.name] = "it is not in your hand"
            elif elixir < card.cost:
                reasons[card.name] = f"it costs {card.cost} elixir, and you have {elixir:.1f}"
        return reasons

    def _is_spell(self, card: int) -> bool:
        return card < len(self._table.cards) and self._table.cards[card].kind == "spell"

    def _side(self, scene: LanesScene, seat: int) -> str:
        hand, elixir = scene.hands[seat], scene.elixir[seat]
        if hand is None:
            return f"{scene.names[seat]}: hidden hand"
        return f"{scene.names[seat]}: {elixir:.1f} elixir, {', '.join(hand[:4])}; next {hand[4]}"


def _towers(scene: LanesScene) -> list[tuple[int, str, float]]:
    return [(unit.seat, unit.card, unit.x) for unit in scene.units if unit.card in ("guard", "keep")]
