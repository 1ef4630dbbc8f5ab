"""Connect four, ConnectFour-v0: four in a row on a board of seven columns, for thousands of boards at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.compiled import compiled, compiled_with_arrays
from sb3_pvp.game.arrays import ArrayWorld, NoParams, OutcomeRewards
from sb3_pvp.game.contract import Contract, Head, Observation, SubAction
from sb3_pvp.game.contract.turn import Turn
from sb3_pvp.games.boards import BoardViewer
from sb3_pvp.games.named import NamedGame

ROWS, COLUMNS = 6, 7
NAME = "ConnectFour-v0"
_PLANES = {"own": "Whether an own piece is here.", "its": "Whether the other's piece is here.", "turn": "Who moves: 1."}
_RUNNING, _WON, _TIED = range(3)


def _observations() -> Iterator[Observation]:
    for plane, about in _PLANES.items():
        for row, column in np.ndindex(ROWS, COLUMNS):
            yield Observation(f"{plane}_{row + 1}_{column + 1}", about)


_MOVES = (
    SubAction("wait", "Wait for the other player."),
    *(SubAction(f"column_{n}", f"Column {n}.") for n in range(1, COLUMNS + 1)),
)
CONTRACT = Contract(
    NAME, (Head("move", "Where to drop a piece.", _MOVES),), (*_observations(),), shape=(3, ROWS, COLUMNS)
)


class ConnectFourWorld(ArrayWorld):
    """Games of connect four; the fight's random generator decides who begins.

    What is not legal is replaced by the first legal move.

    Attributes:
        boards: the seat that has a piece there, or -1; row 0 is the top, int64 ``(F, 6, 7)``.
        movers: the seat to move ``(F,)``.
    """

    params_model = NoParams

    def __init__(self, num_fights: int, seed: int = 0) -> None:
        super().__init__(CONTRACT, num_fights, seed)
        self.boards, self.movers = np.full((num_fights, ROWS, COLUMNS), -1), np.zeros(num_fights, np.int64)

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        """Empties the board."""
        self.boards[fight], self.movers[fight] = -1, self.random[fight].integers(2)
        self.show(np.array([fight]))

    def play_fights(self, fights: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        """See `ArrayWorld.play_fights`."""
        movers, ends = self.movers[fights], np.zeros(len(fights), np.int64)
        _drop(self.boards, self.movers, fights, actions[np.arange(len(fights)), movers, 0] - 1, ends)
        self.outcome[fights[ends == _TIED]] = _OUTCOMES[_TIED]
        won = ends == _WON
        for seat in range(2):
            self.outcome[fights[won & (movers == seat)]] = _OUTCOMES[_WON][:: 1 - 2 * seat]
        self.show(fights)

    def show(self, fights: NDArray[np.int64]) -> None:
        """Writes what both seats see, and may do, after boards have changed."""
        _show(self.boards, self.movers, fights, self.outcome, self.obs, self.masks)


#: By how a game has ended, outcomes of the mover and of the other one.
_OUTCOMES = ((0, 0), (1, 2), (3, 3))


@compiled_with_arrays
def _drop(
    boards: NDArray[np.int64],
    movers: NDArray[np.int64],
    fights: NDArray[np.int64],
    columns: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> None:
    for number, fight in enumerate(fights):
        board, mover, column = boards[fight], movers[fight], columns[number]
        if column < 0 or board[0, column] >= 0:
            column = 0
            while board[0, column] >= 0:
                column += 1
        row = ROWS - 1
        while board[row, column] >= 0:
            row -= 1
        board[row, column], movers[fight] = mover, 1 - mover
        if _in_a_row(board, row, column):
            ends[number] = _WON
        elif (board[0] >= 0).all():
            ends[number] = _TIED


@compiled
def _in_a_row(board: NDArray[np.int64], row: int, column: int) -> bool:
    """Whether a piece is one of four in a row."""
    for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
        length = 1
        for sign in (-1, 1):
            y, x = row + sign * down, column + sign * right
            while 0 <= y < ROWS and 0 <= x < COLUMNS and board[y, x] == board[row, column]:
                length, y, x = length + 1, y + sign * down, x + sign * right
        if length >= 4:
            return True
    return False


@compiled
def _show(
    boards: NDArray[np.int64],
    movers: NDArray[np.int64],
    fights: NDArray[np.int64],
    outcome: NDArray[np.uint8],
    obs: NDArray[np.float32],
    masks: NDArray[np.bool_],
) -> None:
    size = ROWS * COLUMNS
    for fight in fights:
        for seat in range(2):
            moves = movers[fight] == seat and outcome[fight, 0] == _RUNNING
            for cell in range(size):
                owner = boards[fight, cell // COLUMNS, cell % COLUMNS]
                obs[fight, seat, cell], obs[fight, seat, size + cell] = owner == seat, owner == 1 - seat
                obs[fight, seat, 2 * size + cell] = moves
            masks[fight, seat, 0] = not moves
            for column in range(COLUMNS):
                masks[fight, seat, 1 + column] = moves and boards[fight, 0, column] < 0


class ConnectFour(NamedGame):
    """Connect four between two seats, one of which begins by lot."""

    name, contract, rewards, params = NAME, CONTRACT, OutcomeRewards(), NoParams
    perfect_information = True
    viewer = BoardViewer(CONTRACT, ROWS, COLUMNS, in_turns=True, planes_first=True)
    scripts: Mapping[str, Any] = {"random": Turn.choose_at_random}

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> ConnectFourWorld:
        """See `sb3_pvp.game.Game.make_world`."""
        return ConnectFourWorld(num_fights, seed)


CONNECT_FOUR = ConnectFour()
