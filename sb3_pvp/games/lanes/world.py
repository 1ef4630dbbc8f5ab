"""`LanesWorld`: many battles at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.arguments import read_model
from sb3_pvp.game.arrays import ArrayWorld
from sb3_pvp.game.contract import Contract
from sb3_pvp.game.contract.turn import Turn
from sb3_pvp.game.world import Outcome
from sb3_pvp.games.lanes import rules
from sb3_pvp.games.lanes.cards import DECK_SIZE, HEALTH, NUM_TOWERS, CardTable, check_deck
from sb3_pvp.games.lanes.params import STANDARD, LanesParams
from sb3_pvp.games.lanes.pixels import draw
from sb3_pvp.games.lanes.rewards import REPORT
from sb3_pvp.games.lanes.scripts import scripts_of
from sb3_pvp.games.lanes.sight import allow, see

_BOTS = get_args(LanesParams.model_fields["bot"].annotation)
_OUTCOMES = np.array([Outcome.RUNNING, Outcome.WON, Outcome.LOST, Outcome.TIED], np.uint8)


class LanesWorld(ArrayWorld):
    """Battles on two lanes. A tick of the world is a decision, which lasts some ticks of 0.1 seconds.

    A choice that is not legal plays no card. ``vectors`` is the contract of numbers, by which scripts play also where
    ``contract`` shows pictures.

    Attributes:
        units, tops, elixir, decks, played, clocks: see `sb3_pvp.games.lanes.rules.play_battles`.
        bot: who plays a seat for the world itself, a number of `LanesParams.bot` ``(F, 2)``.
    """

    reset_options: ClassVar[tuple[str, ...]] = ("reset_params", "seat_reset_params")

    def __init__(
        self, table: CardTable, contract: Contract, vectors: Contract, num_fights: int, seed: int, params: Any
    ) -> None:
        super().__init__(contract, num_fights, seed, REPORT)
        self.table, self.vectors, self._params, self._scripts = table, vectors, dict(params), scripts_of(table)
        self.figures, pairs, num_cards = table.figures, (num_fights, 2), len(table.cards)
        self.units = np.zeros((*pairs, rules.MOST_UNITS, 8), np.int32)
        self.tops, self.elixir = np.zeros((2, *pairs), np.int64)
        self.decks, self.played = np.zeros((*pairs, DECK_SIZE), np.int64), np.zeros((*pairs, num_cards), np.int64)
        self.clocks, self.lengths, self.ends = np.zeros((3, num_fights), np.int64)
        self.bot = np.zeros(pairs, np.int64)
        #: The cards that were played in the last decision, by number and 1; 0 for none.
        self.last = np.zeros(pairs, np.int64)
        self._read(self._params)

    def _read(self, params: Mapping[str, Any]) -> tuple[LanesParams, NDArray[np.int64] | None]:
        """Returns checked parameters and the deck, ``None`` for a random one."""
        checked = read_model(LanesParams, params, "reset parameter")
        if checked.deck == "random":
            return checked, None
        return checked, check_deck(self.table, STANDARD if checked.deck == "standard" else checked.deck)

    def _sides(self, options: Mapping[str, Any]) -> list[tuple[LanesParams, NDArray[np.int64] | None]]:
        """Returns the parameters and the deck of both sides."""
        shared = options.get("reset_params", self._params)
        return [self._read(each) for each in options.get("seat_reset_params") or (shared, shared)]

    def check_options(self, options: Mapping[str, Any]) -> None:
        """See `ArrayWorld.check_options`."""
        (first, _), (second, _) = self._sides(options)
        if first.ticks != second.ticks:
            raise ValueError("both sides decide at the same time: give them the same ticks")

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        """Sets up the towers, and shuffles the decks."""
        both = self._sides(options)
        self.lengths[fight], self.clocks[fight], self.ends[fight] = both[0][0].ticks, 0, 0
        self.bot[fight] = [_BOTS.index(params.bot) for params, _ in both]
        self.elixir[fight], self.tops[fight], self.played[fight] = rules.FIRST_ELIXIR, NUM_TOWERS, 0
        self.units[fight], self.last[fight] = 0, 0
        for seat, (_, deck) in enumerate(both):
            drawn = self.random[fight].permutation(len(self.table.cards))  # always, so that nothing else changes
            order = self.random[fight].permutation(DECK_SIZE)
            self.decks[fight, seat] = (drawn[:DECK_SIZE] if deck is None else deck)[order]
            towers, sign = self.units[fight, seat, :NUM_TOWERS], 1 - 2 * seat
            towers[:, rules.CARD] = len(self.table.cards) + np.array([0, 0, 1])
            towers[:, rules.X], towers[:, rules.Y] = sign * rules.TOWER_X, sign * rules.TOWER_Y
            towers[:, rules.LEFT] = self.figures[towers[:, rules.CARD], HEALTH]
            towers[:, rules.TARGET], towers[2, rules.STILL] = -1, rules.ASLEEP
        self.report[fight] = 0
        self._show(np.array([fight]))

    def play_fights(self, fights: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        """See `ArrayWorld.play_fights`."""
        self._let_bots_choose(fights, actions)
        decks = self.decks[fights]
        standing, health = self._towers(fights)
        rules.play_battles(fights, actions, self.figures, self.lengths, self.battles, self.ends)
        left, healthy = self._towers(fights)
        fallen, damage = standing - left, health - healthy
        self.report["towers"][fights] = fallen[:, ::-1] - fallen
        self.report["damage"][fights] = damage[:, ::-1] - damage
        after = self.decks[fights]
        self.last[fights] = np.where((after != decks).any(axis=2), after[:, :, -1] + 1, 0)
        ends = self.ends[fights]
        self.outcome[fights, 0] = _OUTCOMES[ends]
        self.outcome[fights, 1] = _OUTCOMES[[0, 2, 1, 3]][ends]
        self._show(fights)

    @property
    def battles(self) -> tuple[Any, ...]:
        """What the rules change, see `sb3_pvp.games.lanes.rules.play_battles`."""
        return self.units, self.tops, self.elixir, self.decks, self.played, self.clocks

    def _towers(self, fights: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns how many towers of both sides stand, and their health as shares of a tower's, both ``(N, 2)``."""
        standing, health = np.empty((len(fights), 2), np.int64), np.empty((len(fights), 2))
        rules.count_towers(fights, self.figures, self.units, standing, health)
        return standing, health

    def _let_bots_choose(self, fights: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        """Replaces the random moves of bots that are scripts."""
        for seat in range(2):
            rows = np.flatnonzero(self.bots[fights, seat] & (self.bot[fights, seat] > 0))
            if rows.size:
                obs = self.look(fights[rows], seat)
                chance = np.array([self.random[fight].random() for fight in fights[rows]])
                for bot in np.unique(self.bot[fights[rows], seat]).tolist():
                    own = self.bot[fights[rows], seat] == bot
                    turn = Turn(self.vectors, obs[own], self.masks[fights[rows[own]], seat], chance[own])
                    self._scripts[_BOTS[bot]](turn)
                    actions[rows[own], seat] = turn.actions()

    def look(self, fights: NDArray[np.int64], seat: int) -> NDArray[np.float32]:
        """Returns the numbers that a seat sees, or would see if its observations were no pictures, ``(N, D)``."""
        seen: NDArray[np.float32] = self.obs
        if self.contract.pixels:
            seen = np.zeros((self.num_fights, 2, self.vectors.num_observations), np.float32)
            see(fights, self.figures, self.battles, seen, seat)
        own: NDArray[np.float32] = seen[fights, seat]
        return own

    def _show(self, fights: NDArray[np.int64]) -> None:
        allow(fights, self.figures, self.battles, self.masks)
        if self.contract.pixels:
            size = self.contract.shape[1]
            draw(fights, self.figures, self.battles, self.obs.reshape(self.num_fights, 2, 3, size, size))
        else:
            see(fights, self.figures, self.battles, self.obs, -1)
