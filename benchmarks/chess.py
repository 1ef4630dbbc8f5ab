"""``python -m benchmarks chess``: how fast chess is, beside PettingZoo's and python-chess."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from benchmarks.report import Case, measure, positive_numbers, print_report
from sb3_pvp.common.compiled import compiled_with_arrays
from sb3_pvp.common.errors import Refusal
from sb3_pvp.game import find_game
from sb3_pvp.games.chess.rules import BLACK

PETTINGZOO, PYTHON_CHESS = "PettingZoo's chess_v6", "python-chess, moves alone"
#: Plies of a call: of every board, and of the others, which are slower.
_PLIES, _PEER_PLIES = 16, 100


def bench_chess(
    boards: Annotated[str, typer.Option(help="Numbers of boards, comma-separated.")] = "1,1024",
    seconds: Annotated[float, typer.Option(min=0.0, help="CPU seconds for each case.")] = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure plies of random games, with the masks and planes of both players written, and the choice of moves."""
    sizes = positive_numbers(boards, "--boards")
    worlds = [find_game("ChessPvP-v0").make_world("sim", size, 0, {}) for size in sizes]
    ours = [
        Case(f"{size} boards, masks and planes", size, size * _PLIES, partial(_play, world), PETTINGZOO)
        for size, world in zip(sizes, worlds, strict=True)
    ]
    peers = [(PETTINGZOO, _pettingzoo()), (PYTHON_CHESS, _python_chess())]
    cases = [Case(name, 1, _PEER_PLIES, partial(_advance, plies), PETTINGZOO) for name, plies in peers]
    rows = measure([*ours, *cases], seconds)
    for row, world in zip(rows, worlds, strict=False):
        arrays = (each for each in vars(world).values() if isinstance(each, np.ndarray))
        row["bytes_per_board"] = sum(each.nbytes for each in arrays) // world.num_fights
    print_report("chess", rows, ("numba", "numpy", "pettingzoo", "chess"), as_json)


def _play(world: Any) -> None:
    """Plays random moves on every board; games that are over begin again."""
    rng, boards = np.random.default_rng(int(world.ticks.sum())), np.arange(world.num_fights)
    if not world.ticks.any():
        world.reset()
    for _ in range(_PLIES):
        movers = world.white ^ world.positions[:, BLACK]
        actions = np.zeros((world.num_fights, 2, 1), np.int64)
        actions[boards, movers, 0] = _choose(world.masks, movers, rng.random(world.num_fights))
        world.step(actions)
        if world.outcome.any():
            world.reset(np.flatnonzero(world.outcome[:, 0]))


@compiled_with_arrays
def _choose(masks: NDArray[np.bool_], seats: NDArray[np.int64], chance: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns a random legal action of a seat on every board, ``(F,)``."""
    chosen = np.empty(len(masks), np.int64)
    legal = np.empty(masks.shape[2], np.int64)
    words = masks.view(np.uint64)  # eight entries each, of which few have a legal one
    for board in range(len(masks)):
        count = 0
        for word in range(words.shape[2]):
            if words[board, seats[board], word] != 0:
                for entry in range(8 * word, 8 * word + 8):
                    if masks[board, seats[board], entry]:
                        legal[count] = entry
                        count += 1
        chosen[board] = legal[int(chance[board] * count)]
    return chosen


def _advance(plies: Iterator[None]) -> None:
    for _ in range(_PEER_PLIES):
        next(plies)


def _pettingzoo() -> Iterator[None]:
    """Plays random games with PettingZoo, a ply each; it shows the board and a mask to the side to move alone."""
    try:
        import chess.pgn  # noqa: F401  (a folder of tests would pass as the package itself)
        from pettingzoo.classic.chess.chess import raw_env
    except ImportError as error:
        raise Refusal(
            f"this compares with PettingZoo and python-chess: pip install pettingzoo chess ({error})"
        ) from error
    return _pettingzoo_plies(raw_env())


def _pettingzoo_plies(env: Any) -> Iterator[None]:
    rng = np.random.default_rng(0)
    while True:
        env.reset()
        while not any(env.terminations.values()):
            seen = env.observe(env.agent_selection)
            env.step(rng.choice(np.flatnonzero(seen["action_mask"])))
            yield


def _python_chess() -> Iterator[None]:
    """Plays random games with python-chess, a ply each: its legal moves, one of them, and whether the game is over."""
    import chess

    chance = random.Random(0)
    while True:
        board = chess.Board()
        while board.outcome() is None and not board.is_fifty_moves() and not board.is_repetition(3):
            board.push(chance.choice(list(board.legal_moves)))
            yield
