"""Chess, all rules, in Numba, for thousands of boards at once: ChessPvP-v0, and ChessPixelsPvP-v0 with pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sb3_pvp.game.contract import Contract
from sb3_pvp.games.chess.engines import ChessScripts
from sb3_pvp.games.chess.layout import CONTRACT, PIXELS
from sb3_pvp.games.chess.params import ChessParams
from sb3_pvp.games.chess.rewards import ChessRewards
from sb3_pvp.games.chess.viewer import ChessViewer
from sb3_pvp.games.named import NamedGame

if TYPE_CHECKING:
    from sb3_pvp.games.chess.world import ChessWorld

__all__ = ["CHESS", "CHESS_PIXELS", "ChessGame", "perft"]


class ChessGame(NamedGame):
    """Chess between two seats, one of which has White."""

    params, rewards, viewer = ChessParams, ChessRewards(), ChessViewer()
    perfect_information = True
    scripts: Mapping[str, Any] = ChessScripts()

    def __init__(self, contract: Contract) -> None:
        self.name, self.contract = contract.name, contract

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> ChessWorld:
        """See `sb3_pvp.game.Game.make_world`."""
        from sb3_pvp.games.chess.world import ChessWorld  # here, because it imports Numba

        return ChessWorld(self.contract, num_fights, seed, params)


def perft(fen: str, depth: int) -> int:
    """Returns how many sequences of ``depth`` legal moves a position has; `ValueError` if the FEN is no position."""
    from sb3_pvp.games.chess import fen as notation

    return notation.perft(fen, depth)


CHESS = ChessGame(CONTRACT)
CHESS_PIXELS = ChessGame(PIXELS)
