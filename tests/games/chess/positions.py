"""Positions of chess for tests, and games of random moves from them."""

from __future__ import annotations

import numpy as np

from sb3_pvp.game.contract.turn import random_entries
from sb3_pvp.games.chess.params import START
from sb3_pvp.games.chess.world import ChessWorld

#: The six standard positions of perft, with their counts to depth 4.
PERFT = {
    START: (20, 400, 8902, 197281),
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1": (48, 2039, 97862, 4085603),
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1": (14, 191, 2812, 43238),
    "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1": (6, 264, 9467, 422333),
    "rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8": (44, 1486, 62379, 2103487),
    "r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 w - - 0 10": (46, 2079, 89890, 3894594),
}
#: From these, random games soon meet castling, captures en passant, promotions, and the ends of games.
SPECIAL = (
    *PERFT,
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
    "r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1",
    "4k3/pppppppp/8/8/8/8/PPPPPPPP/4K3 w - - 0 1",
    "8/8/8/K2pP2r/8/8/8/7k w - d6 0 2",
    "1k6/8/8/8/3p4/8/4P3/K6B w - - 90 80",
    "8/8/1b2k3/8/8/3K4/5N2/8 w - - 95 140",
)


def legal_ids(world: ChessWorld, fight: int) -> set[str]:
    """Returns the legal choices of the side to move, from its own side."""
    mover = world.white[fight] ^ world.positions[fight, -1]
    actions = world.contract.heads[0].actions
    return {actions[each].id for each in np.flatnonzero(world.masks[fight, mover])}


def play(world: ChessWorld, *moves: str, fight: int = 0) -> None:
    """Plays moves, each from the mover's own side, which must be legal."""
    for move in moves:
        assert move in legal_ids(world, fight), (move, world.fen(fight))
        world.step(np.full((1, 2, 1), world.contract.action_index(move)[1]), [fight])


def play_randomly(world: ChessWorld, rng: np.random.Generator) -> None:
    """Plays a random legal move on every board."""
    masks = world.masks.reshape(-1, world.contract.num_flat_actions)
    world.step(random_entries(masks, rng.random(len(masks))).reshape(-1, 2, 1))
