"""Solved positions of connect four, and how often a model plays a best move in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.connect_four import CONTRACT, ConnectFourWorld
from sb3_pvp.players.search.opponent import network_of

#: In each line the columns that were played, and how each move ends: won, tied, lost, or not legal.
FILE = Path(__file__).parents[2] / "tests" / "data" / "connect_four.txt"
_WORTH = {"-": -2, "l": -1, "t": 0, "w": 1}


class SolvedPositions(NamedTuple):
    """``B`` positions, as the seat that moves sees them."""

    boards: NDArray[np.int64]  #: ``(B, 6, 7)``, see `ConnectFourWorld`.
    movers: NDArray[np.int64]
    observations: NDArray[np.float32]  #: ``(B, D)``
    masks: NDArray[np.bool_]  #: ``(B, A)``
    worth: NDArray[np.int8]  #: As `benchmarks.search.solver.solved` returns it, ``(B, 7)``.

    def share_best(self, model: Any) -> float:
        """Returns in which share of the positions the most likely move of a model is a best one."""
        chances, _ = network_of(model)(self.observations, self.masks)
        columns = np.where(self.masks, chances, -1).argmax(1) - 1
        return float((self.worth[np.arange(len(columns)), columns] == self.worth.max(1)).mean())


def read_positions(file: Path = FILE) -> SolvedPositions:
    """Reads the positions of a file."""
    lines = [line.split() for line in file.read_text().splitlines()]
    world = ConnectFourWorld(len(lines))
    world.reset()
    world.movers[:] = 0
    for fight, (moves, _) in enumerate(lines):
        for column in moves:
            world.step(np.full((1, 2, 1), int(column)), [fight])
    fights, movers = np.arange(len(lines)), world.movers
    world.show(fights)
    worth = np.array([[_WORTH[letter] for letter in values] for _, values in lines], np.int8)
    assert world.contract is CONTRACT and not world.outcome.any()
    return SolvedPositions(world.boards, movers, world.obs[fights, movers], world.masks[fights, movers], worth)
