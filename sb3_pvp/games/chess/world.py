"""`ChessWorld`: many boards at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.arguments import read_model
from sb3_pvp.game.arrays import ArrayWorld
from sb3_pvp.game.contract import Contract
from sb3_pvp.game.world import Outcome
from sb3_pvp.games.chess import rules
from sb3_pvp.games.chess.fen import read_fen, write_fen
from sb3_pvp.games.chess.params import ChessParams
from sb3_pvp.games.chess.pixels import draw_boards
from sb3_pvp.games.chess.rules import Position, play_boards


class ChessWorld(ArrayWorld):
    """Games of chess; a tick is a move of one side. A choice that is not legal is replaced by the first legal one.

    ``contract`` is one of `sb3_pvp.games.chess.layout`, which says what players see.

    Attributes:
        positions: as the side to move sees them, see `sb3_pvp.games.chess.rules`, int16 ``(F, 69)``.
        white: the seat that has White ``(F,)``.
        last: the last move, see `sb3_pvp.games.chess.fen.move_name`; -1 at the start ``(F,)``.
        endings: how the games have ended, numbers of `sb3_pvp.games.chess.rules.ENDINGS` ``(F,)``.
    """

    def __init__(self, contract: Contract, num_fights: int, seed: int, params: Mapping[str, Any]) -> None:
        super().__init__(contract, num_fights, seed, [("material", "i1")])
        self._params = dict(params)
        self.positions = np.tile(_start(self._params)[1], (num_fights, 1))
        #: Hashes of the positions since the last capture or move of a pawn, and how many they are.
        self.keys, self.known = np.zeros((num_fights, rules.HISTORY), np.uint64), np.zeros(num_fights, np.int64)
        self.white, self.claims = np.zeros(num_fights, np.int64), np.zeros(num_fights, np.bool_)
        self.last, self.endings = np.full(num_fights, -1, np.int64), np.zeros(num_fights, np.int64)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """See `ArrayWorld.check_options`."""
        if "reset_params" in options:
            _start(options["reset_params"])

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        """Sets up the position; the fight's random generator decides who has White, unless that is told."""
        params, self.positions[fight] = _start(options.get("reset_params", self._params))
        by_lot = int(self.random[fight].integers(2))  # always, so that the parameter changes nothing else
        self.white[fight] = by_lot if params.white == "random" else params.white == "second"
        self.claims[fight], self.known[fight], self.last[fight] = params.claims, 0, -1
        self._play(np.array([fight]), np.zeros((1, 2, 1), np.int64), begins=True)

    def play_fights(self, fights: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        """See `ArrayWorld.play_fights`."""
        self._play(fights, actions, begins=False)
        over = fights[self.endings[fights] > 0]
        self.outcome[over] = Outcome.TIED
        mated = over[self.endings[over] == rules.CHECKMATE]
        # The winner has moved last; positions are those of the other one.
        loser = self.white[mated] ^ self.positions[mated, rules.BLACK]
        self.outcome[mated, loser], self.outcome[mated, 1 - loser] = Outcome.LOST, Outcome.WON

    def fen(self, fight: int) -> str:
        """Returns the position of a game as FEN."""
        return write_fen(self.positions[fight])

    def _play(self, fights: NDArray[np.int64], actions: NDArray[np.int64], begins: bool) -> None:
        games = self.positions, self.keys, self.known, self.white, self.claims
        planes = self.obs[:0] if self.contract.pixels else self.obs
        play_boards(
            fights, actions, begins, games, self.last, self.endings, self.masks, planes, self.report["material"]
        )
        if self.contract.pixels:
            draw_boards(fights, self.positions, self.white, self.last, self.obs)


def _start(params: Mapping[str, Any]) -> tuple[ChessParams, Position]:
    """Returns the checked parameters and their position; `ValueError` if it is none, or nothing is left to play."""
    checked = read_model(ChessParams, params, "reset parameter")
    position, moves = read_fen(checked.fen), np.empty(rules.MOST_MOVES, np.int64)
    if ending := rules.ending_of(position, rules.legal_moves(position, moves), 0, checked.claims):
        raise ValueError(f"a game cannot begin at {checked.fen!r}: it is over ({rules.ENDINGS[ending]})")
    return checked, position
