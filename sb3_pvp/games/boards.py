"""The viewer of board games whose observation is a plane of a player's own pieces, and one of the other's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat

import numpy as np

from sb3_pvp.game import Control, ControlGroup, PlainViewer
from sb3_pvp.game.contract import Contract
from sb3_pvp.game.viewer import KEYS, PlainScene

_LARGEST = 19  # rows and columns that fit on a page


class BoardViewer(PlainViewer):
    """Shows the board as text: ``X`` for the pieces of the first seat that is shown, ``O`` for the other one's.

    Args:
        contract: of the game, whose first observations are the planes, ``(rows, columns, 2)``, or with ``planes_first``
            ``(2, rows, columns)``.
        rows, columns: of the board.
        in_turns: whether the first choice is to wait for the other player, for which nobody needs a button.
    """

    def __init__(self, contract: Contract, rows: int, columns: int, in_turns: bool, planes_first: bool = False) -> None:
        super().__init__(contract)
        self.rows, self.columns, self._planes_first = rows, columns, planes_first
        self._moves = contract.heads[0].actions[in_turns:]

    def text(self, scene: PlainScene, color: bool = True) -> str:
        """Returns a line for the fight, the board with its rows, and who has which pieces."""
        seat = next(number for number, seen in enumerate(scene.seen) if seen is not None)
        values = [*(scene.seen[seat] or {}).values()][: self.rows * self.columns * 2]
        planes = np.array(values) > 0
        if self._planes_first:
            mine, its = planes.reshape(2, self.rows, self.columns)
        else:
            mine, its = np.moveaxis(planes.reshape(self.rows, self.columns, 2), 2, 0)
        cells = np.where(mine, "X", np.where(its, "O", "."))
        lines = [f"tick {scene.tick}, {' against '.join(scene.names)}: {scene.outcome}", *map(" ".join, cells.tolist())]
        if len(self._moves) == self.columns <= 9:
            lines.append(" ".join(str(column + 1) for column in range(self.columns)))
        return "\n".join([*lines, f"{scene.names[seat]} has X, {scene.names[1 - seat]} has O"])

    def controls(self) -> tuple[ControlGroup, ...]:
        """Returns a button for each column, or for each cell; if moves are neither, for each choice."""
        if len(self._moves) == self.columns:
            labels = [f"Column {column + 1}" for column in range(self.columns)]
        elif len(self._moves) == self.rows * self.columns:
            labels = [f"{row + 1}, {column + 1}" for row, column in np.ndindex(self.rows, self.columns)]
        else:
            labels = [move.description for move in self._moves]
        keys = chain(KEYS, repeat(""))
        controls = (Control(move.id, label, key) for move, label, key in zip(self._moves, labels, keys, strict=False))
        return (ControlGroup("Board", tuple(controls), "grid", self.columns),)


def board_viewer(contract: Contract, shape: Sequence[int] | None, in_turns: bool) -> BoardViewer | None:
    """Returns the viewer for observations of this shape, or ``None`` if they are not those of a board."""
    if shape is None or len(shape) != 3 or shape[2] != 2 or max(shape) > _LARGEST or contract.num_heads > 1:
        return None
    return BoardViewer(contract, shape[0], shape[1], in_turns)
