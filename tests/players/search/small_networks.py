"""Networks that need no training, for searches; and tic-tac-toe, of which all positions are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.tic_tac_toe import LINES, TicTacToe, TicTacToeWorld
from sb3_pvp.game import Outcome
from sb3_pvp.games.connect_four import COLUMNS, ROWS, ConnectFourWorld
from sb3_pvp.players.search.search import Floats, Search


class FastWorld(TicTacToeWorld):
    """Plays all fights at once."""

    def play_fights(self, fights: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        movers, rows = self.movers[fights], np.arange(len(fights))
        cells = actions[rows, movers, 0]
        legal = self.masks[fights, movers, cells]
        self.boards[fights, np.where(legal, cells - 1, (self.boards[fights] < 0).argmax(1))] = movers
        boards = self.boards[fights]
        won = (boards[:, np.array(LINES)] == movers[:, np.newaxis, np.newaxis]).all(2).any(1)
        over = won | (boards >= 0).all(1)
        self.movers[fights] = np.where(over, -1, 1 - movers)
        self.outcome[fights[over]] = Outcome.TIED
        self.outcome[fights[won], movers[won]] = Outcome.WON
        self.outcome[fights[won], 1 - movers[won]] = Outcome.LOST
        for seat in (0, 1):
            moves = (self.movers[fights] == seat)[:, np.newaxis]
            self.obs[fights, seat] = np.hstack([boards == seat, boards == 1 - seat, moves])
            self.masks[fights, seat] = np.hstack([~moves, (boards < 0) & moves])


class FastTicTacToe(TicTacToe):
    """The example, faster."""

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> TicTacToeWorld:
        return FastWorld(num_fights, seed)


def ignorant(observations: Floats, masks: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Finds all moves equally likely, and all positions even."""
    return (masks / masks.sum(1, keepdims=True)).astype(np.float32), np.zeros(len(masks), np.float32)


def novice(observations: Floats, masks: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Likes to end a line of tic-tac-toe, to stop one, and the middle; knows nothing about who is better off."""
    boards = observations[:, :9] - observations[:, 9:18]
    chances = masks * np.array([1, 2, 1, 2, 1, 4, 1, 2, 1, 2], np.float32)
    for line in LINES:
        sums = boards[:, line].sum(1)
        for cell in line:
            chances[:, cell + 1] += masks[:, cell + 1] * (40 * (sums == 2) + 20 * (sums == -2))
    return chances / chances.sum(1, keepdims=True), np.zeros(len(masks), np.float32)


class Playouts:
    """Finds all moves of connect four equally likely, and values positions by a game of random moves."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def __call__(self, observations: Floats, masks: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        world = ConnectFourWorld(len(masks))
        own, other = observations.reshape(-1, 3, ROWS, COLUMNS)[:, :2].transpose(1, 0, 2, 3) > 0
        world.boards[:] = np.where(own, 0, np.where(other, 1, -1))
        world.show(np.arange(len(masks)))
        while (on := np.flatnonzero(world.outcome[:, 0] == 0)).size:
            drawn = self._random.random((on.size, 2, masks.shape[1])) * world.masks[on]
            world.step(drawn.argmax(2)[:, :, np.newaxis], on)
        values = (world.outcome[:, 0] == 1).astype(np.float32) - (world.outcome[:, 0] == 2)
        return ignorant(observations, masks)[0], values


def losses_of(search: Search, seat: int) -> tuple[int, int]:
    """Lets a search of `FastTicTacToe` play against all that the other seat may play, whoever begins.

    Returns how often it lost, and in how many positions it was to move.
    """
    lost, asked = 0, 0
    for first in (0, 1):
        boards, mover = [(-1,) * 9], first
        while boards:
            options = [[cell for cell in range(9) if board[cell] < 0] for board in boards]
            if mover == seat:
                options, asked = [[cell] for cell in _chosen(search, boards, seat)], asked + len(boards)
            after = {
                (*board[:cell], mover, *board[cell + 1 :])
                for board, cells in zip(boards, options, strict=True)
                for cell in cells
            }
            won = {board for board in after if any(all(board[cell] == mover for cell in line) for line in LINES)}
            lost += len(won) if mover != seat else 0
            boards, mover = sorted(board for board in after - won if -1 in board), 1 - mover
    return lost, asked


def _chosen(search: Search, boards: list[tuple[int, ...]], seat: int) -> list[int]:
    world = FastWorld(len(boards), 0)
    world.reset()
    for fight, board in enumerate(boards):
        world.boards[fight], world.movers[fight] = board, seat
        world.show(fight)
    moves = world.masks[:, seat].argmax(1)
    if (rows := np.flatnonzero(world.masks[:, seat].sum(1) > 1)).size:
        moves[rows] = search.look(world, rows, np.full(rows.size, seat), [None] * rows.size).best
    return [int(move) - 1 for move in moves]
