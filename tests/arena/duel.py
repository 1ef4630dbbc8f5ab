"""A game of a few ticks with scripts of all kinds of strength, and of all kinds of malice."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import Game
from sb3_pvp.game.arrays import ArrayWorld
from sb3_pvp.game.contract import Contract, Head, Observation, SubAction
from sb3_pvp.game.contract.turn import Turn

GAME = "tests.arena.duel:Duel"
TICKS = 6
_CHOICES = ("low", "middle", "high")
HEAD = Head("choice", "The number.", tuple(SubAction(each, f"Choose {each}.") for each in _CHOICES))
BET = Head("bet", "The stake.", (SubAction("small", "One point."), SubAction("large", "Two points.")))
SEEN = tuple(Observation(name, f"The {name}.") for name in ("tick", "gear", "own", "other"))
CONTRACT = Contract("duel", (HEAD, BET), SEEN)


class DuelWorld(ArrayWorld):
    """Who chooses the higher number gets the stake of both; gear, rolled for each seat, adds to the number.

    ``high`` is masked in odd ticks.
    """

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        self.obs[fight] = 0.0
        self.obs[fight, :, 1] = self.random[fight].random(2)
        self.masks[fight] = True

    def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
        numbers = actions[:, 0] + self.obs[fight, :, 1]
        if (won := int(numbers[0] > numbers[1])) or numbers[1] > numbers[0]:
            winner = 1 - won
            self.obs[fight, winner, 2] += actions[:, 1].sum() + 2
            self.obs[fight, 1 - winner, 3] = self.obs[fight, winner, 2]
        self.obs[fight, :, 0] = self.ticks[fight]
        self.masks[fight, :, 2] = self.ticks[fight] % 2 == 0
        if self.ticks[fight] >= TICKS:
            self.end(fight, *self.obs[fight, :, 2].tolist())


def _level(number: float) -> Any:
    """A script that chooses a higher number with greater probability."""

    def play(turn: Turn) -> None:
        turn.choose("high", (turn.chance < number) & turn.can("high"))
        turn.choose("middle", turn.chance < 2 * number)
        turn.choose("large", turn.chance < number)

    return play


def _endless(turn: Turn) -> None:
    while len(turn.chance) > 1 or turn.see("tick").any():
        time.sleep(0.01)


def _memory(turn: Turn) -> None:
    if turn.see("tick").any():
        kept = []
        while True:
            kept.append(np.ones(1 << 24))


def _forks(turn: Turn) -> None:
    if turn.see("tick").any():
        for _ in range(200):
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])


def _nan(turn: Turn) -> None:
    turn.actions = lambda: np.full((len(turn.chance), 2), np.nan)  # type: ignore[method-assign]


def _shape(turn: Turn) -> None:
    turn.actions = lambda: np.zeros((len(turn.chance), 7), np.int64)  # type: ignore[method-assign]


def _outside(turn: Turn) -> None:
    turn.actions = lambda: np.full((len(turn.chance), 2), 9)  # type: ignore[method-assign]


def _error(turn: Turn) -> None:
    if turn.see("tick").any():
        raise KeyError("a bug")


def _exit(turn: Turn) -> None:
    if turn.see("tick").any():
        os._exit(3)


def _segfault(turn: Turn) -> None:
    if turn.see("tick").any():
        ctypes.string_at(0)


def _slow(turn: Turn) -> None:
    time.sleep(0.06 * len(turn.chance) if turn.see("tick").any() else 0)


class Duel(Game):
    """The game, with its scripts."""

    name, contract = CONTRACT.name, CONTRACT
    scripts: Mapping[str, Any] = {
        **{f"level-{n}": _level(n / 20) for n in range(20)},
        "endless": _endless,
        "memory": _memory,
        "forks": _forks,
        "nan": _nan,
        "shape": _shape,
        "outside": _outside,
        "error": _error,
        "exit": _exit,
        "segfault": _segfault,
        "slow": _slow,
    }

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> DuelWorld:
        return DuelWorld(CONTRACT, num_fights, seed)
