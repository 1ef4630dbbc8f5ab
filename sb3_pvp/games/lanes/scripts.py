"""Scripted players of three strengths: they see what every player sees, for all battles at once.

They are yardsticks: a change of their play makes earlier results incomparable. ``python -m benchmarks lanes`` measures
them against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract.turn import Turn
from sb3_pvp.games.lanes.cards import (
    AIMS,
    ANY,
    BUILDING,
    BUILDINGS,
    COST,
    COUNT,
    DAMAGE,
    HEALTH,
    KIND,
    PAUSE,
    RANGE,
    SPELL,
    SPLASH,
    TROOP,
    CardTable,
)
from sb3_pvp.games.lanes.layout import BANDS, COLUMNS, FOREMOST, LANES, MAP_FACTS, OWN_ROWS, POCKET, ROWS, UNIT_FACTS

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
_FACT = {fact: number for number, fact in enumerate(UNIT_FACTS)}
_BRIDGES = np.array([3, 14])  #: Columns of the bridges.
_HALF_BANDS, _BAND = BANDS // 2, ROWS // BANDS
_GUARD = 1.3  #: Damage a second of a guard, in hundreds.


class _Player:
    """What a script sees in N battles, and what it has decided."""

    def __init__(self, turn: Turn, table: CardTable) -> None:
        self._turn, self._table, self.chance = turn, table, turn.chance
        self.rows, self.figures = np.arange(len(turn.observation)), table.figures[: len(table.cards)]
        self.can = np.stack([turn.can(name) for name in table.names], axis=1)
        self.elixir = turn.see("elixir") * 10.0
        self.kind = self.figures[:, KIND]
        power = self.figures[:, DAMAGE] * self.figures[:, COUNT] / np.maximum(self.figures[:, PAUSE], 1)
        #: Of all that a card brings: damage a tick, and health.
        self.power, self.health = power, self.figures[:, HEALTH] * self.figures[:, COUNT]
        self.own, self.its = (self._units(side) for side in range(2))
        self.own_map, self.its_map = (self._map(side) for side in range(2))
        guards = [[turn.see(f"{side}_{lane}_guard") for lane in LANES] for side in ("own", "its")]
        self.own_guards, self.its_guards = np.stack(guards[0], axis=1), np.stack(guards[1], axis=1)
        self.decided = np.zeros(len(self.rows), np.bool_)

    def play(self, where: Booleans, scores: Floats, column: NDArray[np.int64], row: NDArray[np.int64]) -> None:
        """Plays the card of the highest score, ``(N, cards)``, that is more than 0, where nothing is decided yet."""
        scores = np.where(self.can, scores, 0.0)
        card = scores.argmax(axis=1)
        where = where & ~self.decided & (scores[self.rows, card] > 0)
        self.decided |= where
        for each in np.unique(card[where]).tolist():
            self._turn.choose(self._table.names[each], where & (card == each))
        column, row = np.clip(column, 0, COLUMNS - 1), np.clip(row, 0, ROWS - 1)
        # Where a guard has fallen, the rows behind it are open to troops.
        lane = column * 2 // COLUMNS
        is_open = (self.its_guards[self.rows, lane] == 0) & (row >= OWN_ROWS)
        is_troop = self.kind[card] != SPELL
        last = np.where(is_open, POCKET[-1], OWN_ROWS - 1)
        row = np.where(is_troop, np.minimum(row, last), row)
        deep = is_troop & is_open & (row >= POCKET[0])
        row = np.where(is_troop & ~deep, np.minimum(row, OWN_ROWS - 1), row)
        for each in np.unique(column[where]).tolist():
            self._turn.choose(f"column_{each}", where & (column == each))
        for each in np.unique(row[where]).tolist():
            at = where & (row == each)
            self._turn.choose(f"row_{each}", at & ~deep)
            if each in POCKET:
                for number, name in enumerate(LANES):
                    self._turn.choose(f"{name}_row_{each}", at & deep & (lane == number))

    def weaker_lane(self) -> NDArray[np.int64]:
        """Returns the lane on which the other side's guard stands but has less health; by chance if both are equal."""
        health = np.where(self.its_guards > 0, self.its_guards, 2.0)
        by_chance = (self.chance * 64 % 1 < 0.5).astype(np.int64)
        return np.where(health[:, 0] == health[:, 1], by_chance, health.argmin(axis=1))

    def fact(self, units: Floats, name: str) -> Floats:
        """Returns a fact of all units ``(N, FOREMOST)``."""
        return units[..., _FACT[name]]

    def threats(self, until: float) -> Booleans:
        """Returns which of the other side's foremost units have come further than this, from 1 to -1, ``(N, 8)``."""
        return (self.fact(self.its, "here") > 0) & (self.fact(self.its, "y") < until)

    def is_on(self, units: Floats, right: Booleans) -> Booleans:
        """Returns which units are there, on the right or left of the arena, ``(N, 8)``; ``right`` is ``(N,)``."""
        return np.asarray((self.fact(units, "here") > 0) & ((self.fact(units, "x") > 0) == right[:, None]))

    def _units(self, side: int) -> Floats:
        size = FOREMOST * len(UNIT_FACTS)
        return self._last((2 - side) * size, size).reshape(-1, FOREMOST, len(UNIT_FACTS))

    def _map(self, side: int) -> Floats:
        size = 2 * BANDS * len(MAP_FACTS)
        begin = 2 * FOREMOST * len(UNIT_FACTS) + (2 - side) * size
        return self._last(begin, size).reshape(-1, 2, BANDS, len(MAP_FACTS))

    def _last(self, begin: int, count: int) -> Floats:
        """Returns observations that begin so many before the end."""
        seen = self._turn.observation
        first = seen.shape[1] - begin
        return seen[:, first : first + count].astype(np.float64)


def _tile(place: Floats, half: int) -> NDArray[np.int64]:
    """Returns the column or row of places from -1 to 1."""
    return np.clip(((place + 1.0) * half).astype(np.int64), 0, 2 * half - 1)


def _push(player: _Player, start: float, support: float, row: int = 8, strikes: bool = True) -> None:
    """Sends a strong one from a row to the bridge when there is elixir to spare, and others behind it.

    The others are those with most power for their elixir, or if they need not strike, with most
    health, which counts less of those who see nothing but buildings.
    """
    raids, cost = player.figures[:, AIMS] == BUILDINGS, player.figures[:, COST]
    is_troop, rows = player.kind == TROOP, player.rows
    # Health on its way, by lane.
    way = player.own_map[:, :, row // _BAND :, :2].sum(axis=(2, 3))
    lane = np.where(way.max(axis=1) > 0.6, way.argmax(axis=1), player.weaker_lane())
    going = way[rows, lane] > 0.6
    tanks = np.where(is_troop, player.health * (1.0 + raids), 0.0)
    most = player.power * ~raids if strikes else player.health * (1.0 - 0.7 * raids)
    others = np.where(is_troop, most / cost, 0.0)
    mine = player.is_on(player.own, lane > 0)
    first = player.fact(player.own, "y")[rows, mine.argmax(axis=1)]
    behind = np.clip(_tile(first, ROWS // 2) - 3, 2, OWN_ROWS - 1)
    player.play(going & (player.elixir >= support), others[None, :], _BRIDGES[lane], behind)
    player.play(~going & (player.elixir >= start), tanks[None, :], _BRIDGES[lane], np.full_like(lane, row))


def _cast(player: _Player, least: float) -> None:
    """Casts a spell where it takes so many thousands of health for each elixir."""
    here, rows = player.fact(player.its, "here") > 0, player.rows
    x, y = player.fact(player.its, "x") * COLUMNS / 2, player.fact(player.its, "y") * ROWS / 2
    far = np.hypot(x[:, :, None] - x[:, None, :], y[:, :, None] - y[:, None, :])
    health = np.where(here, player.fact(player.its, "health"), 0.0)
    for card in np.flatnonzero(player.kind == SPELL).tolist():
        splash, damage = player.figures[card, SPLASH] / 1000.0, player.figures[card, DAMAGE] / 1000.0
        taken = np.where(far <= splash, np.minimum(health, damage)[:, None, :], 0.0).sum(axis=2) * here
        best = taken.argmax(axis=1)
        scores = np.zeros((1, len(player.kind)))
        scores[0, card] = 1.0
        column = _tile(x[rows, best] * 2 / COLUMNS, COLUMNS // 2)
        row = _tile(y[rows, best] * 2 / ROWS, ROWS // 2)
        walks = player.fact(player.its, "speed")[rows, best] > 0.0  # until the spell lands
        player.play(taken[rows, best] / player.figures[card, COST] >= least, scores, column, row - walks)


def _defend(player: _Player, until: float, ratio: float) -> None:
    """Puts what has most power for its elixir before the foremost that has come so far, unless enough is there."""
    threats, rows, figures = player.threats(until), player.rows, player.figures
    unit = player.its[rows, threats.argmax(axis=1)]
    x, y, flies, raids = (unit[:, _FACT[name]] for name in ("x", "y", "flies", "raids"))
    lane = (x > 0).astype(np.int64)
    theirs = player.its_map[rows, lane, : _HALF_BANDS + 1, :2].sum(axis=(1, 2))
    ours = player.own_map[rows, lane, :_HALF_BANDS, 2].sum(axis=1)
    stops = (player.kind != SPELL) & (figures[:, AIMS] != BUILDINGS)
    scores = np.where(stops, player.power / figures[:, COST], 0.0)[None, :]
    scores = scores * (1.0 + (player.kind == BUILDING) * (raids[:, None] > 0))
    scores = np.where((flies[:, None] > 0) & (figures[:, AIMS] != ANY), 0.0, scores)
    row = np.clip(_tile(y, ROWS // 2) - 3, 2, OWN_ROWS - 1)
    player.play(threats.any(axis=1) & (ours < ratio * theirs), scores, _tile(x * 0.8, COLUMNS // 2), row)


def _counter(player: _Player, until: float, seconds: float) -> None:
    """Meets those on a lane who would live so long, with what lasts and hits them best, close or from behind.

    Buildings stand in the middle, to draw those away who see nothing else.
    """
    threats, rows, figures = player.threats(until), player.rows, player.figures
    unit = player.its[rows, threats.argmax(axis=1)]
    x, y, flies, raids = (unit[:, _FACT[name]] for name in ("x", "y", "flies", "raids"))
    together = player.is_on(player.its, x > 0) & player.threats(until + 0.2)
    health = (player.fact(player.its, "health") * together).sum(axis=1)
    near = player.is_on(player.own, x > 0) & (player.fact(player.own, "y") < 0.1)
    strikes = near & (player.fact(player.own, "raids") == 0)
    guard = player.own_guards[rows, (x > 0).astype(np.int64)] > 0
    power = (player.fact(player.own, "power") * strikes).sum(axis=1) + _GUARD * guard
    stops = (player.kind != SPELL) & (figures[:, AIMS] != BUILDINGS)
    scores = np.where(stops, player.power * player.health**0.6 / figures[:, COST], 0.0)[None, :]
    scores = scores * (1.0 + (player.kind == BUILDING) * (raids[:, None] > 0))
    scores = np.where((flies[:, None] > 0) & (figures[:, AIMS] != ANY), 0.0, scores)
    card = np.where(player.can, scores, 0.0).argmax(axis=1)
    is_building, shoots = player.kind[card] == BUILDING, figures[card, RANGE] > 3000
    column = _tile(x * np.where(is_building, 0.3, np.where(shoots, 0.6, 1.0)), COLUMNS // 2)
    row = np.clip(_tile(y, ROWS // 2) - np.where(shoots, 4, 2), 2, OWN_ROWS - 1)
    needed = threats.any(axis=1) & (health * 10.0 > seconds * power)
    player.play(needed, scores, column, np.where(is_building, 10, row))


def _spender(player: _Player) -> None:
    """Gathers a push before its own keep, of those who last and not of those who strike; neither defends nor casts."""
    _push(player, start=8.0, support=7.0, row=3, strikes=False)


def _guardian(player: _Player) -> None:
    """Pushes with more behind the first one, and defends when somebody stands before its towers."""
    _defend(player, until=-0.55, ratio=0.5)
    _push(player, start=8.0, support=6.1)


def _tactician(player: _Player) -> None:
    """Casts spells where they are worth it, meets whoever crosses the river, and pushes with all that is left."""
    _cast(player, least=0.25)
    _counter(player, until=0.2, seconds=11.0)
    _push(player, start=9.0, support=4.0)


def _play(decide: Callable[[_Player], None], table: CardTable, turn: Turn) -> None:
    decide(_Player(turn, table))


def scripts_of(table: CardTable) -> Mapping[str, Callable[[Turn], None]]:
    """Returns the scripts of a game with these cards by name, the weakest first."""
    players = {"spender": _spender, "guardian": _guardian, "tactician": _tactician}
    return {name: partial(_play, decide, table) for name, decide in players.items()}
